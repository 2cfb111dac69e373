// The connection under HTTP: a TCP or a unix socket with a deadline for its current operation.
//
// Names of Boost's types, for sources that speak HTTP: http_server.cc, http_connection.cc and the
// node's readiness.cc.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>

namespace sluice::wire {

namespace beast = boost::beast;
using boost::system::error_code;
using Socket = boost::asio::generic::stream_protocol::socket;
using Stream =
    beast::basic_stream<boost::asio::generic::stream_protocol, boost::asio::any_io_executor>;

}  // namespace sluice::wire
