// SHA-256 of bytes, or of a description and of files' bytes behind it. Not thread-safe.
#pragma once

#include <openssl/evp.h>

#include <string>
#include <string_view>

namespace sluice::control {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_, EVP_sha256(), nullptr); }
  explicit Sha256(const std::string& description) : Sha256() {
    add(description);
    add(std::string_view("\0", 1));
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes) { EVP_DigestUpdate(context_, bytes.data(), bytes.size()); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, digest, &size);
    std::string out;
    for (unsigned int i = 0; i < size; ++i) {
      out += "0123456789abcdef"[digest[i] >> 4];
      out += "0123456789abcdef"[digest[i] & 15];
    }
    return out;
  }

 private:
  EVP_MD_CTX* context_;
};

}  // namespace sluice::control
