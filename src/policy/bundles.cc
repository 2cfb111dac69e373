// The table of bundles.
#include "policy/bundle.h"
#include "policy/scale/scale_dilu.h"
#include "policy/scale/scale_exclusive.h"
#include "policy/scale/scale_fast_gshare.h"
#include "policy/scale/scale_fixed.h"
#include "policy/scale/scale_has_gpu.h"
#include "policy/scale/scale_hpa.h"
#include "policy/scale/scale_infless.h"
#include "policy/scale/scale_kpa.h"
#include "policy/scale/scale_smif.h"

namespace sluice::policy {
namespace {

// A burst of five seconds is over before ten have been averaged. Overlapping measurements would
// count twice.
constexpr Cadence kQuick{
    .rate_window = Millis(500), .measure_every = Millis(500), .decide_every = Millis(250)};
// HAS-GPU's published code: a rate over ten seconds, measured every two.
constexpr Cadence kPublished{
    .rate_window = Seconds(10), .measure_every = Seconds(2), .decide_every = Seconds(2)};

// Knative samples, and INFless dispatches, once a second.
constexpr Cadence kEverySecond{
    .rate_window = Seconds(1), .measure_every = Seconds(1), .decide_every = Seconds(1)};

// SMIF's autoscaler is Knative's: it samples once a second, over its panic window.
constexpr Cadence kSmif{
    .rate_window = Seconds(6), .measure_every = Seconds(1), .decide_every = Seconds(1)};

// A queue that is 90 % busy waits; a batch that takes the whole objective leaves no time to wait.
constexpr HasGpuSettings kOurs{.alpha = 0.7,
                               .slo_fraction = 0.5,
                               .borrow = true,
                               .work_off = true,
                               .slack = 0.02,
                               .outlast_starts = true,
                               .keep_peak = true,
                               .load_first = true,
                               .lone_in_time = true};

// FaST-GShare: a rate over ten seconds.
constexpr Cadence kTenSeconds{
    .rate_window = Seconds(10), .measure_every = Seconds(1), .decide_every = Seconds(1)};
constexpr FastGshareSettings kFastGshareTuned{.headroom = 1.5, .slo_fraction = 0.7};

// Half of Dilu's wait to scale out, and batches that take more of the objective.
constexpr DiluSettings kDilu{.slo_fraction = 0.7, .scale_out_after = 10};

// Dilu's scaling and placement over one of its GPU-level arbiters.
Bundle dilu_over(std::string_view arbiter, std::string_view name, std::string_view summary,
                 const DiluSettings& settings = kDilu, std::string_view plan = "sluice") {
  return {.name = name,
          .summary = summary,
          .scale = scale_dilu,
          .settings = Settings(settings),
          .place = "complementary",
          .route = "least_outstanding",
          .forecast = "last",
          .plan = plan,
          .arbiter = arbiter,
          .cadence = kEverySecond,
          .memory_version = 1};
}

// The default's inference, with a baseline for jobs.
Bundle has_gpu_with(std::string_view plan, std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .scale = scale_has_gpu,
          .settings = Settings(kOurs),
          .forecast = "kalman",
          .plan = plan,
          .arbiter = "planned",
          .cadence = kQuick};
}

}  // namespace

std::span<const Bundle> bundles() {
  static const Bundle kBundles[] = {
      {.name = "has-gpu",
       .summary = "quotas first, then instances on used and on new devices (HAS-GPU, our settings)",
       .scale = scale_has_gpu,
       .settings = Settings(kOurs),
       .forecast = "kalman",
       .arbiter = "planned",
       .cadence = kQuick},
      {.name = "has-gpu-paper",
       .summary = "the same with the settings of the published code",
       .scale = scale_has_gpu,
       .settings = Settings(HasGpuSettings{}),
       .forecast = "kalman-paper",
       .arbiter = "window",
       .cadence = kPublished},
      {.name = "fixed",
       .summary = "the slice in the function's file, never changed",
       .scale = scale_fixed,
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kQuick,
       .predicts = false},
      {.name = "exclusive",
       .summary = "a whole device per instance, scaled out by concurrency; reaches zero",
       .scale = scale_exclusive,
       .settings = Settings(ExclusiveSettings{}),
       .place = "whole",
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kQuick,
       .reaches_zero = true,
       .by_concurrency = true,
       .predicts = false},
      {.name = "hpa",
       .summary = "slices of the file, as many as Kubernetes' autoscaler wants by concurrency",
       .scale = scale_hpa,
       .settings = Settings(HpaSettings{}),
       .place = "best-fit",
       .route = "least_work",
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kQuick,
       .by_concurrency = true,
       .predicts = false,
       .memory_version = 1},
      {.name = "kpa",
       .summary = "a whole device per instance, as many as Knative's autoscaler wants",
       .scale = scale_kpa,
       .settings = Settings(KpaSettings{}),
       .place = "whole",
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kEverySecond,
       .reaches_zero = true,
       .by_concurrency = true,
       .predicts = false,
       .memory_version = 1},
      {.name = "fast-gshare",
       .summary = "the profiled slices that do most for their area, packed (FaST-GShare, tuned)",
       .scale = scale_fast_gshare,
       .settings = Settings(kFastGshareTuned),
       .place = "rectangles",
       .forecast = "last",
       .arbiter = "multi_token",
       .cadence = kTenSeconds,
       .reaches_zero = true,
       .memory_version = 1},
      {.name = "fast-gshare-paper",
       .summary = "the same with the paper's settings",
       .scale = scale_fast_gshare,
       .settings = Settings(FastGshareSettings{}),
       .place = "rectangles",
       .forecast = "last",
       .arbiter = "multi_token",
       .cadence = kTenSeconds,
       .reaches_zero = true,
       .memory_version = 1},
      dilu_over("introspective", "dilu",
                "quotas between request and limit, instances lazily (Dilu, tuned)"),
      dilu_over("introspective", "dilu-paper", "the same with the settings of the paper",
                DiluSettings{}, "dilu"),
      dilu_over("share_fixed_limit", "mps-l", "as dilu, with each instance's limit as its share"),
      dilu_over("share_fixed_request", "mps-r",
                "as dilu, with each instance's request as its share"),
      dilu_over("tgs", "tgs", "as dilu, with the rates of TGS instead of its tokens"),
      {.name = "smif",
       .summary = "by the objective, over several types of device, the cheapest first (SMIF)",
       .scale = scale_smif,
       .settings = Settings(SmifSettings{}),
       .place = "best-fit",
       .route = "service_rate",
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kSmif,
       .reaches_zero = true,
       .memory_version = 1},
      {.name = "infless",
       .summary =
           "the most efficient fixed shares; pre-warm and keep-alive by idle times (INFless+)",
       .scale = scale_infless,
       .settings = Settings(InflessSettings{}),
       .place = "efficiency",
       .route = "round_robin",
       .forecast = "last",
       .arbiter = "share_fixed_request",
       .cadence = kEverySecond,
       .reaches_zero = true},
      has_gpu_with("fifo", "fifo", "as has-gpu; jobs have whole idle devices, first come first"),
      has_gpu_with("sjf", "sjf", "as has-gpu; jobs have whole idle devices, the shortest first"),
      has_gpu_with("fapes", "fapes", "as has-gpu; jobs have plans over coming rounds (FaPES)"),
  };
  return kBundles;
}

}  // namespace sluice::policy
