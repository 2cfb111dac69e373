// `sluice top`: the live view.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "cli/listing.h"
#include "cli/session.h"
#include "cli/slices_view.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

// Keys arrive at once and are not shown; the destructor restores the terminal, also after Ctrl-C.
class RawTerminal {
 public:
  RawTerminal() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    changed_ = true;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~RawTerminal() {
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;

  // Waits for at most a second. Returns true on `q` or Ctrl-C. Without a terminal at stdin, keys
  // are not read.
  bool quits() const {
    constexpr char kCtrlC = 3;
    pollfd keys{changed_ ? STDIN_FILENO : -1, POLLIN, 0};
    char key = 0;
    if (poll(&keys, 1, 1000) <= 0) return false;
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == kCtrlC;
  }

 private:
  termios before_{};
  bool changed_ = false;
};

// Returns the columns and rows of the terminal; an unknown size cuts nothing.
winsize terminal_size() {
  winsize size{};
  (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  if (size.ws_col == 0) size.ws_col = 9999;
  if (size.ws_row == 0) size.ws_row = 9999;
  return size;
}

Result<json> view(const Session& session) {
  SLUICE_ASSIGN(functions, session.api(verb::get, "/v1/functions"));
  SLUICE_ASSIGN(devices, session.api(verb::get, "/v1/devices"));
  SLUICE_ASSIGN(instances, session.api(verb::get, "/v1/instances"));
  SLUICE_ASSIGN(decisions, session.api(verb::get, "/v1/decisions?limit=8"));
  return json{{"functions", functions},
              {"devices", devices},
              {"instances", instances},
              {"decisions", decisions}};
}

std::string screen(const json& view) {
  json functions = json::array(), jobs = json::array();
  for (const json& f : view["functions"]) (f.contains("job") ? jobs : functions).push_back(f);
  std::string out = functions_table(functions) + "\n" +
                    (jobs.empty() ? "" : jobs_table(jobs) + "\n") +
                    slices_view(view["devices"], view["instances"]) + "\n";
  for (const json& d : view["decisions"])
    out += age(unix_now() - d["at"].get<int64_t>()) + " ago  " + d["action"].get<std::string>() +
           " " + d["subject"].get<std::string>() + ": " + d["reason"]["text"].get<std::string>() +
           "\n";
  return out;
}

Result<void> once(const Session& session) {
  SLUICE_ASSIGN(now, view(session));
  if (session.json())
    print(now);
  else
    std::cout << screen(now);
  return {};
}

// Draws every second, until a key or a signal ends it.
Result<void> top(const Session& session) {
  const RawTerminal terminal;
  do {
    SLUICE_ASSIGN(now, view(session));
    const winsize size = terminal_size();
    std::cout << "\033[H\033[J" << fitted(screen(now), size.ws_col, size.ws_row) << std::flush;
  } while (!terminal.quits());
  std::cout << "\n";
  return {};
}

}  // namespace

void add_top(CLI::App& app, Session& session, Outcome& outcome) {
  auto one = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "top",
      "live view of functions, devices and decisions, until q; one frame where no terminal is");
  command->add_flag("--once", *one, "one frame");
  command->footer(
      "In a slice's bar: █ used of what the instance may count on, ░ idle of that,\n"
      "▓ borrowed, · may be borrowed. Columns: sluice get functions --help");
  command->callback([=, &session, &outcome] {
    const bool live = !*one && !session.json() && ::isatty(STDOUT_FILENO) != 0;
    outcome = live ? top(session) : once(session);
  });
}

}  // namespace sluice::cli
