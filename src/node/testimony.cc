#include "node/testimony.h"

#include <algorithm>

namespace sluice::node {

void Testimony::attach(Time now) {
  if (attached_++ == 0) attached_at_ = now;
}

void Testimony::leave(Time now) {
  if (--attached_ == 0) left_at_ = now;
}

Testimony::Verdict Testimony::judge(const std::optional<DeviceUse>& truth, Time now) {
  if (!truth || truth->until <= judged_until_ || truth->until > now) return Verdict::kNoNews;
  if (!said_.reaches(truth->from)) return Verdict::kNoNews;
  const bool away = truth->from >= left_at_ && (!attached() || truth->until <= attached_at_);
  if (left_at_ > Time{} && away) return Verdict::kNoNews;
  judged_until_ = truth->until;
  truth_ = *truth;

  const Nanos unsaid = truth->busy - said_.over(truth->from, truth->until);
  shortfall_ = std::max(shortfall_ + unsaid - truth->resolution, Nanos(0));
  // Of one that ended before its first report, only what is too much for that.
  const bool silent = !spoke_ && attached() && truth->busy > Nanos(0);
  if (silent || shortfall_ > kSkew) {
    shortfall_ = agreed_ = Nanos(0);
    return Verdict::kUntrue;
  }
  agreed_ += truth->busy;
  return agreed_ > 2 * (truth->resolution + kSkew) ? Verdict::kTrue : Verdict::kNotRefuted;
}

}  // namespace sluice::node
