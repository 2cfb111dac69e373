// Certificates of our own: an authority, and what it issues to our processes. EC P-256.
//
// Free functions over PEM texts; any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "wire/http/tls.h"

namespace sluice::wire {

struct CertificateRequest {
  std::string common_name;
  std::vector<std::string> names;  // DNS names of a server; none: a client's certificate
  std::chrono::hours valid{24};
};

// Returns a self-signed authority.
Result<TlsIdentity> make_authority(const std::string& common_name, std::chrono::hours valid);
// kInvalid: `authority` is none.
Result<TlsIdentity> issue(const TlsIdentity& authority, const CertificateRequest& request);
// Returns when a certificate ends; kInvalid: it is none.
Result<UnixMillis> ends_at(const std::string& certificate);

}  // namespace sluice::wire
