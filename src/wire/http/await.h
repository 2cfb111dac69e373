// How coroutines await an Asio operation: `auto [error, …] = co_await f(…, kAwait)`, with the error
// as a value.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace sluice::wire {

inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace sluice::wire
