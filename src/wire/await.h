// How coroutines here await an operation of Asio's: `auto [error, …] = co_await f(…, kAwait)`, an
// error being a value.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sluice::wire {

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace sluice::wire
