// Models that are named by URL and checksum: fetched once, and kept by checksum.
//
//   FOLDER/SHA256.pt    the file, which is never changed: copies of it may be links
//   FOLDER/SHA256.json  what describes it, as its server said last
//   FOLDER/SHA256.used  when it was asked for last, by the file's time; its URL
//
// A file appears whole and with its checksum, or not at all. One that no copy is a link to, and
// that has not been asked for in an hour, is removed.
//
// Thread-safe. Takes as long as a server does, or as its patience.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "control/local/model_download.h"
#include "model/model_spec.h"

namespace sluice::control {

struct FetchSettings {
  std::string folder;
  std::string ca;  // of servers, PEM; empty: the system's
  DownloadLimits limits;
  // Then file() returns kUnavailable, and the file is fetched on: a later call finds it. The
  // largest: file() waits for the end.
  Nanos patience = Nanos::max();
};

class ModelFetch {
 public:
  explicit ModelFetch(FetchSettings settings) : settings_(std::move(settings)) {}
  ~ModelFetch() { stop(); }  // what is being fetched ends after its next piece

  // Returns the path of the model's file. Returns kInvalid, with both checksums, for another file
  // than the one that was meant; else as download(). REQUIRES: model.path is a URL.
  Result<std::string> file(const ModelSpec& model);
  // Returns the text of NAME.json beside NAME.pt; the last one while its server does not answer.
  Result<std::string> description(const ModelSpec& model);
  void sweep();
  void stop() { stopped_ = true; }

 private:
  Result<std::string> fetched_file(const ModelSpec& model);
  Result<std::string> within_patience(const ModelSpec& model, const std::string& checksum);
  std::shared_ptr<std::mutex> turn_of(const std::string& checksum);
  Result<void> make_folder() const;
  Result<wire::TlsContext> tls_for(const std::string& url) const;
  Result<void> fetch(const ModelSpec& model, const std::string& path);
  std::string path_of(const std::string& checksum, const char* ending) const;

  const FetchSettings settings_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  // Of each checksum that is being fetched: the second one waits, and finds the file.
  std::map<std::string, std::weak_ptr<std::mutex>> turns_;
  // By checksum, what is fetched on; with patience alone.
  std::map<std::string, std::future<Result<std::string>>> going_on_;
};

}  // namespace sluice::control
