// A TLS front before one of our HTTP APIs: it accepts connections over TCP, asks for a certificate,
// and relays the bytes to the API's unix socket, which trusts all that reach it. So an API has no
// code of its own for the network.
//
// Runs on its own thread. Thread-safe; ends with its owner, and its connections with it.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "wire/http/tls.h"

namespace sluice::wire {

struct TlsFrontSettings {
  std::string tls;     // a folder for TlsFolder
  std::string client;  // the common name that a client must show; empty: it needs no certificate
  std::string to;      // the unix socket
  int connections = 256;
};

class TlsFront {
 public:
  // `listening`: a TCP socket that accepts already. The folder's files may come later: until then
  // connections are closed.
  TlsFront(Fd listening, TlsFrontSettings settings);
  ~TlsFront();
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice::wire
