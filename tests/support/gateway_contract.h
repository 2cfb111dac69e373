// The fixture of the gateway's contract with users and operators (src/gateway/contract_*_test.cc).
#pragma once

#include "tests/support/gateway_session.h"

namespace sluice::gateway {

class Contract : public SessionFixture {
 protected:
  using SessionFixture::SessionFixture;
  // The head of a request whose body streams, and as much of the body as is read before streaming.
  static constexpr size_t kLarge = 9'999'999;
  static std::string large_begins() {
    return "POST /v2/models/f/infer HTTP/1.1\r\nHost: x\r\nContent-Length: " +
           std::to_string(kLarge) + "\r\n\r\nbegin" + std::string(BodyRooms::kSize - 5, 'b');
  }
  // Returns whether an instance sees a request with that body on this connection.
  testing::AssertionResult arrives(const Fd& at, std::string_view body) {
    const std::string seen = receive(at.get(), body);
    if (seen.find(body) != seen.npos) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the instance saw: " << seen.substr(0, 300);
  }
};

}  // namespace sluice::gateway
