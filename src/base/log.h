// Logging for our own processes: one line per event on stderr, `log::info("started {}", id)`.
// Decisions, models and anything that runs inside a user's program never include this.
#pragma once

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

namespace sluice::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Once, before the first line; `process` names the process in every line ("gateway", "node", …).
inline void start(const std::string& process) {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      process, std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%L%$ %n %v", spdlog::pattern_time_type::utc);
  spdlog::flush_on(spdlog::level::info);
}

}  // namespace sluice::log
