#include "wire/http/endpoint.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

namespace sluice::wire {
namespace {

namespace asio = boost::asio;

Error system_error(std::string_view what, int code = errno) {
  const ErrorKind kind = code == EADDRINUSE ? ErrorKind::kConflict
                         : code == EACCES   ? ErrorKind::kDenied
                                            : ErrorKind::kInternal;
  return {kind, std::string(what) + ": " + std::generic_category().message(code)};
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  if (text.starts_with("unix:")) return Endpoint{.path = std::string(text.substr(5))};
  if (text.starts_with("/")) return Endpoint{.path = std::string(text)};
  const size_t colon = text.rfind(':');
  const std::string_view port = colon == text.npos ? text : text.substr(colon + 1);
  Endpoint e{.host = colon == text.npos ? "127.0.0.1" : std::string(text.substr(0, colon))};
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), e.port);
  if (fault != std::errc() || end != port.data() + port.size() || e.host.empty())
    return Error{ErrorKind::kInvalid,
                 "address: '" + std::string(text) + "' is none of unix:/path, host:port, port"};
  return e;
}

std::string to_string(const Endpoint& e) {
  return e.path.empty() ? e.host + ":" + std::to_string(e.port) : "unix:" + e.path;
}

namespace {

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Error{ErrorKind::kInvalid, path + ": longer than the " +
                                          std::to_string(sizeof(address.sun_path) - 1) +
                                          " bytes a socket's path may have"};
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<Fd> listen_unix(const std::string& path, int mode, int backlog) {
  SLUICE_ASSIGN(address, unix_address(path));
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error("socket");
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(fd.get(), raw, sizeof(address)) == 0)
    return Error{ErrorKind::kConflict, path + ": another process listens there already"};
  fd.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(path.c_str());
  if (::bind(fd.get(), raw, sizeof(address)) != 0) return system_error("bind " + path);
  if (::chmod(path.c_str(), static_cast<mode_t>(mode)) != 0) return system_error("chmod " + path);
  if (::listen(fd.get(), backlog) != 0) return system_error("listen " + path);
  return fd;
}

}  // namespace

Result<Fd> listen_on(const Endpoint& e, int mode, int backlog) {
  if (!e.path.empty()) return listen_unix(e.path, mode, backlog);
  boost::system::error_code fault;
  const auto ip = asio::ip::make_address(e.host == "localhost" ? "127.0.0.1" : e.host, fault);
  if (fault) return Error{ErrorKind::kInvalid, "address: '" + e.host + "' is no IP address"};
  const asio::ip::tcp::endpoint at(ip, e.port);
  Fd fd(::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return system_error("socket");
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd.get(), at.data(), static_cast<socklen_t>(at.size())) != 0)
    return system_error("listen on " + to_string(e));
  if (::listen(fd.get(), backlog) != 0) return system_error("listen on " + to_string(e));
  return fd;
}

Result<Endpoint> bound_to(const Fd& listening) {
  sockaddr_storage raw{};
  socklen_t size = sizeof(raw);
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&raw), &size) != 0)
    return system_error("getsockname");
  if (raw.ss_family == AF_UNIX)
    return Endpoint{.path = reinterpret_cast<const sockaddr_un*>(&raw)->sun_path};
  asio::ip::tcp::endpoint at;
  if (size > at.capacity()) return Error{ErrorKind::kInternal, "no address of a TCP socket"};
  std::memcpy(at.data(), &raw, size);
  at.resize(size);
  return Endpoint{.host = at.address().to_string(), .port = at.port()};
}

}  // namespace sluice::wire
