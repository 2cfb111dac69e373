#include "wire/http/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

namespace sluice::wire {
namespace {

template <auto Free>
struct FreedBy {
  void operator()(auto* p) const { Free(p); }
};
using Key = std::unique_ptr<EVP_PKEY, FreedBy<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreedBy<X509_free>>;
using Memory = std::unique_ptr<BIO, FreedBy<BIO_free>>;

constexpr long kBackdated = 300;  // seconds: clocks of a cluster differ

Error failed(const std::string& what) {
  const unsigned long code = ERR_get_error();
  std::array<char, 256> reason{};
  ERR_error_string_n(code, reason.data(), reason.size());
  return {ErrorKind::kInternal, what + ": " + reason.data()};
}

std::string text_in(BIO* memory) {
  char* begin = nullptr;
  const long size = BIO_get_mem_data(memory, &begin);
  return {begin, static_cast<size_t>(size)};
}

Result<TlsIdentity> to_pem(X509* certificate, EVP_PKEY* key) {
  const Memory shown(BIO_new(BIO_s_mem())), kept(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(shown.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(kept.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failed("a certificate cannot be written");
  return TlsIdentity{text_in(shown.get()), text_in(kept.get())};
}

Certificate certificate_from(const std::string& pem) {
  const Memory in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Certificate(PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr));
}

Key key_from(const std::string& pem) {
  const Memory in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Key(PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, nullptr));
}

bool extend(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* e = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (e == nullptr) return false;
  const bool added = X509_add_ext(certificate, e, -1) == 1;
  X509_EXTENSION_free(e);
  return added;
}

// A certificate for `key`, not signed yet.
Certificate blank(const std::string& common_name, EVP_PKEY* key, std::chrono::hours valid) {
  Certificate c(X509_new());
  X509_set_version(c.get(), 2);
  std::array<unsigned char, 16> serial{};
  RAND_bytes(serial.data(), serial.size());
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(c.get()));
  BN_free(number);
  X509_gmtime_adj(X509_getm_notBefore(c.get()), -kBackdated);
  X509_gmtime_adj(X509_getm_notAfter(c.get()), std::chrono::seconds(valid).count());
  X509_set_pubkey(c.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  return c;
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "DNS:" : ",DNS:") + name;
  return all;
}

}  // namespace

Result<TlsIdentity> make_authority(const std::string& common_name, std::chrono::hours valid) {
  const Key key(EVP_EC_gen("P-256"));
  const Certificate c = blank(common_name, key.get(), valid);
  X509_set_issuer_name(c.get(), X509_get_subject_name(c.get()));
  if (!extend(c.get(), c.get(), NID_basic_constraints, "critical,CA:TRUE") ||
      !extend(c.get(), c.get(), NID_key_usage, "critical,keyCertSign,digitalSignature") ||
      X509_sign(c.get(), key.get(), EVP_sha256()) == 0)
    return failed("an authority cannot be made");
  return to_pem(c.get(), key.get());
}

Result<TlsIdentity> issue(const TlsIdentity& authority, const CertificateRequest& request) {
  const Certificate issuer = certificate_from(authority.certificate);
  const Key signs = key_from(authority.key);
  if (!issuer || !signs)
    return Error{ErrorKind::kInvalid, "the authority has no certificate or key"};
  const Key key(EVP_EC_gen("P-256"));
  const Certificate c = blank(request.common_name, key.get(), request.valid);
  X509_set_issuer_name(c.get(), X509_get_subject_name(issuer.get()));
  const bool server = !request.names.empty();
  if (!extend(c.get(), issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !extend(c.get(), issuer.get(), NID_ext_key_usage, server ? "serverAuth" : "clientAuth") ||
      (server &&
       !extend(c.get(), issuer.get(), NID_subject_alt_name, alternatives(request.names))) ||
      X509_sign(c.get(), signs.get(), EVP_sha256()) == 0)
    return failed("the certificate of " + request.common_name + " cannot be made");
  return to_pem(c.get(), key.get());
}

Result<UnixMillis> ends_at(const std::string& certificate) {
  const Certificate c = certificate_from(certificate);
  if (!c) return Error{ErrorKind::kInvalid, "the text is no certificate"};
  tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(c.get()), &end) != 1)
    return Error{ErrorKind::kInvalid, "the certificate has no end"};
  return UnixMillis{timegm(&end)} * 1000;
}

}  // namespace sluice::wire
