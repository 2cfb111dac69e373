// Answers to GETs since the last change of the loop's state: a listing is made once a tick, however
// often it is asked for.
//
// One thread, the API's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "wire/http/http.h"

namespace sluice::control {

class KeptAnswers {
 public:
  static constexpr size_t kMost = 16;  // of different targets

  template <class Make>
  wire::HttpResponse get(std::string_view target, const Make& make) {
    if (const auto found = kept_.find(target); found != kept_.end()) return found->second;
    wire::HttpResponse made = make();
    if (kept_.size() < kMost) kept_.emplace(target, made);
    return made;
  }
  void forget() { kept_.clear(); }  // the state has changed

 private:
  std::map<std::string, wire::HttpResponse, std::less<>> kept_;
};

}  // namespace sluice::control
