// The page that a client writes, as the daemon reads it. An input is a hostile client's life: it
// writes words anywhere in its page, tries to change the page's size, is granted and revoked;
// between these the daemon looks, and whatever it has read is bounded. (Words that change under the
// daemon's eyes, in arbiter_host_test.cc.)
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "enforce/hints.h"
#include "enforce/page.h"
#include "gpu/meter_cuda.h"
#include "gpu/reported_work.h"

namespace {

using namespace sluice;

void must(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "usage_page_fuzz.cc:%d does not hold\n", line);
  std::abort();
}

// The pages of a version, and the client's own map of the one that it writes; made once.
struct Client {
  explicit Client(uint32_t version) {
    auto made = node::Pages::make(1, version);
    must(made.ok());
    pages.emplace(std::move(made->first));
    fds = std::move(made->second);
    usage = static_cast<std::byte*>(
        mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds.usage.get(), 0));
    must(usage != MAP_FAILED);
  }
  std::optional<node::Pages> pages;
  node::PageFds fds;
  std::byte* usage;
};

class Life {
 public:
  Life(Client& client, std::span<const uint8_t> input) : client_(client), input_(input) {
    std::memset(client_.usage, 0, SLUICE_PAGE_SIZE);
    meter_.add_process(kSelf);
  }

  void live() {
    while (!input_.empty()) {
      switch (take<uint8_t>() % 6) {
        case 0:
          write(take<uint16_t>(), take<uint64_t>());
          break;
        case 1:  // the words that are read
          write(kRead[take<uint8_t>() % std::size(kRead)], take<uint64_t>());
          break;
        case 2:
          now_ += Micros(take<uint16_t>());
          break;
        case 3:
          must(ftruncate(client_.fds.usage.get(), take<uint16_t>() % SLUICE_PAGE_SIZE) != 0);
          break;
        case 4:
          revoke();
          break;
        default:
          break;
      }
      look();
    }
    revoke();
    for (int look_again = 0; look_again < 3; ++look_again) {
      now_ += Seconds(1);
      look();
    }
    must(meter_.drained(now_, revoked_at_, resting_));
  }

 private:
  static constexpr Time kBorn{std::chrono::hours(1)};
  static constexpr node::ProcessIdentity kSelf{.pid = 1, .start_time = 1};
  static constexpr uint16_t kRead[] = {64,  68,  72,  192, 200, 208, 216, 224, 232,
                                       240, 248, 256, 264, 272, 276, 280, 288};

  template <class T>
  T take() {
    T value{};
    const size_t n = std::min(sizeof value, input_.size());
    std::memcpy(&value, input_.data(), n);
    input_ = input_.subspan(n);
    return value;
  }

  void write(uint16_t offset, uint64_t value) {
    std::memcpy(client_.usage + offset % (SLUICE_PAGE_SIZE - sizeof value + 1), &value,
                sizeof value);
  }

  void revoke() {
    revoked_at_ = now_;
    (void)meter_.drained(now_, revoked_at_, resting_);
  }

  void look() {
    const node::UsageView usage = client_.pages->usage();
    client_.pages->wake();
    hear_hints();
    meter_.report(kSelf, client_.pages->device_report(), now_);
    work_.update(client_.pages->device_report(), now_);
    must(work_.finished() >= Nanos(0) && work_.finished() <= work_.submitted());
    must(work_.in_flight() >= Nanos(0) && work_.in_flight() <= node::ReportedWork::kMostInFlight);
    resting_ = !usage.want || usage.ack_seq == (client_.pages->seq() | 1);
    while (const auto reading = meter_.poll(now_, resting_)) {
      must(reading->busy >= Nanos(0) && reading->seen_until <= now_);
      charged_ += reading->busy;
    }
    must(charged_ <= node::ReportedWork::kFastest * (now_ - kBorn));
    const policy::Progress progress = meter_.progress();
    must(progress.finished >= Nanos(0) && progress.finished <= progress.submitted);
  }

  void hear_hints() {
    const node::Hints::Told told = hints_.hear(client_.pages->hints(), now_);
    must(told.due >= kBorn);
    must(told.due == Time::max() || told.due <= now_ + std::chrono::hours(1));
    must(told.cycle >= Nanos(0));
    must(told.begun == Time::max() || (told.begun >= kBorn && told.begun <= now_));
    cycles_ += told.cycle;
    must(cycles_ <= 2 * (now_ - kBorn));
  }

  Client& client_;
  std::span<const uint8_t> input_;
  Time now_ = kBorn, revoked_at_ = kBorn;
  node::Hints hints_{kBorn};
  node::ReportedWork work_{kBorn};
  node::CudaMeter meter_{nullptr, kBorn};
  bool resting_ = true;
  Nanos charged_{0}, cycles_{0};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Client first(1), second(2);
  for (Client* client : {&first, &second}) Life(*client, {data, size}).live();
  return 0;
}
