#include "tests/support/platform.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/lock_file.h"
#include "tests/support/archive.h"

namespace sluice {
namespace {

std::string text_of(const std::string& path) {
  return (std::ostringstream() << std::ifstream(path).rdbuf()).str();
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Starts a program whose output goes to the two files; it dies with us.
pid_t spawn(std::vector<std::string> words, const std::string& in, const std::string& out,
            const std::string& err, uid_t user) {
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
  if (user != geteuid() && (setgroups(0, nullptr) != 0 || setresgid(user, user, user) != 0 ||
                            setresuid(user, user, user) != 0))
    _exit(126);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // forgotten by a change of the uid
  execv(argv[0], argv.data());
  _exit(127);
}

bool living(const json& instance) {
  return instance["state"] != "gone";
}

}  // namespace

std::string program(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

Fd pidfd_of(pid_t pid) {
  return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

bool ends_within(const Fd& pidfd, Nanos patience) {
  pollfd p{pidfd.get(), POLLIN, 0};
  return poll(&p, 1, static_cast<int>(patience / Millis(1))) == 1;
}

bool is_dead(pid_t pid) {
  const Fd pidfd = pidfd_of(pid);
  return !pidfd.valid() || ends_within(pidfd, Nanos(0));
}

void remove_data(const std::string& data) {
  std::error_code none;
  if (const auto run = std::filesystem::read_symlink(data + "/run", none); !none)
    std::filesystem::remove_all(run, none);
  umount2(data.c_str(), MNT_DETACH);  // where a test has mounted something
  std::filesystem::remove_all(data, none);
}

Ended run(std::vector<std::string> words, const std::string& input, uid_t user) {
  char folder[] = "/tmp/sluice-run-XXXXXX";
  const std::string place = mkdtemp(folder);
  std::ofstream(place + "/in") << input;
  const pid_t pid = spawn(std::move(words), place + "/in", place + "/out", place + "/err", user);
  if (!ends_within(pidfd_of(pid), kPatience)) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  Ended ended{code_of(status), text_of(place + "/out"), text_of(place + "/err")};
  std::filesystem::remove_all(place);
  return ended;
}

// ---- the platform ------------------------------------------------------------------------------

Platform::Platform(std::vector<std::string> flags,
                   const std::function<bool(const std::string&)>& prepare, uid_t user,
                   std::string programs)
    : flags_(std::move(flags)), user_(user), programs_(std::move(programs)) {
  char folder[] = "/tmp/sluice-up-XXXXXX";
  data = mkdtemp(folder);
  if (user_ != geteuid()) {
    programs_ = data;
    for (const char* name : {"sluice", "fake_runtime"})
      std::filesystem::copy(program(name), data + "/" + name);
    SLUICE_CHECK(chown(data.c_str(), user_, user_) == 0, "root alone can be another user");
  }
  prepared_ = !prepare || prepare(data);
  if (!prepared_) return;
  launch();
  wait_until_serves();
}

Platform::~Platform() {
  if (testing::Test::HasFailure() || std::uncaught_exceptions() > 0) {
    for (const char* log : {"/up.err", "/logs/node.log", "/logs/control.log", "/logs/gateway.log"})
      std::fprintf(stderr, "---- %s\n%s", log, text_of(data + log).c_str());
  }
  if (pid_ == 0)
    (void)cli({"down"});
  else
    stop();
  remove_data(data);
}

std::string Platform::own_program(const std::string& name) const {
  return programs_.empty() ? program(name) : programs_ + "/" + name;
}

void Platform::launch(const std::vector<std::string>& more) {
  std::vector<std::string> words{own_program("sluice"), "--data", data,         "up", "--listen",
                                 "127.0.0.1:0",         "--api",  "127.0.0.1:0"};
  const auto unless_given = [&](const char* flag, const std::string& value) {
    if (std::ranges::find(flags_, flag) == flags_.end()) words.insert(words.end(), {flag, value});
  };
  unless_given("--runtime", own_program("fake_runtime"));
  unless_given("--devices", "4");
  unless_given("--nvml", "none");  // tests do not use this machine's GPUs
  words.insert(words.end(), flags_.begin(), flags_.end());
  words.insert(words.end(), more.begin(), more.end());
  pid_ = spawn(std::move(words), "/dev/null", data + "/up.out", data + "/up.err", user_);
}

void Platform::wait_until_serves() {
  const Fd process = pidfd_of(pid_);
  ASSERT_TRUE(eventually("node and gateway to be there", [&] {
    SLUICE_CHECK(!ends_within(process, Nanos(0)), "sluice up has ended: " + said());
    const json status = get("/v1/status");
    return status.is_object() && status.value("node", false) && status.value("gateway", false);
  })) << said();
}

int Platform::stop(int signal) {
  kill(pid_, signal);
  int status = 0;
  waitpid(std::exchange(pid_, 0), &status, 0);
  return code_of(status);
}

std::string Platform::said() const {
  return text_of(data + "/up.err");
}

Ended Platform::cli(std::vector<std::string> words, const std::string& input) const {
  words.insert(words.begin(), {own_program("sluice"), "--data", data});
  return run(std::move(words), input, user_);
}

json Platform::cli_json(std::vector<std::string> words) const {
  words.insert(words.end(), {"-o", "json"});
  const Ended e = cli(words);
  EXPECT_EQ(e.code, 0) << testing::PrintToString(words) << e.err;
  const json parsed = json::parse(e.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << testing::PrintToString(words) << e.out;
  return parsed;
}

pid_t Platform::pid_of(const std::string& process) const {
  return lock_holder(data + "/run/" + process + ".lock").value_or(0);
}

void Platform::kill_process(const std::string& process) const {
  const pid_t pid = pid_of(process);
  ASSERT_GT(pid, 0) << process;
  const Fd pidfd = pidfd_of(pid);
  kill(pid, SIGKILL);
  ASSERT_TRUE(ends_within(pidfd, kPatience));
}

json Platform::api(verb method, const std::string& target, const json& body) const {
  wire::HttpClient client({.path = data + "/run/api.sock"}, kPatience);
  const auto answer = client.json(method, target, body);
  return answer.ok() ? *answer : json(answer.error().message);
}

json Platform::until(const std::string& target,
                     const std::function<bool(const json&)>& holds) const {
  const SteadyClock clock;
  const Time give_up = clock.now() + kPatience;
  std::string turn = "0";
  json last;
  while (clock.now() < give_up) {
    wire::HttpClient client({.path = data + "/run/api.sock"}, kPatience);
    const auto answer = client.call(verb::get, target + "?wait_ms=2000&after=" + turn);
    if (!answer.ok()) continue;
    turn = std::string((*answer)["Sluice-Turn"]);
    last = json::parse(answer->body(), nullptr, false);
    if (answer->result_int() == 200 && holds(last)) return last;
  }
  throw std::runtime_error(target + " never was as expected: " + last.dump(1));
}

json Platform::function(const std::string& name) const {
  return get("/v1/functions/default/" + name);
}

std::vector<json> Platform::instances(const std::string& name) const {
  std::vector<json> out;
  for (const json& i : get("/v1/instances"))
    if (i["function"] == "default/" + name && living(i)) out.push_back(i);
  return out;
}

std::set<pid_t> Platform::pids(const std::string& name) const {
  std::set<pid_t> out;
  for (const json& i : instances(name))
    if (i["pid"] != 0) out.insert(i["pid"].get<pid_t>());
  return out;
}

pid_t Platform::a_pid(const std::string& name) const {
  std::set<pid_t> found;
  until("/v1/instances", [&](const json&) { return !(found = pids(name)).empty(); });
  return *found.begin();
}

std::string Platform::model(const std::string& words) const {
  const std::string path = data + "/model " + words + ".pt";
  if (std::filesystem::exists(path)) return path;
  std::ofstream(path) << control::archive_of("\n" + words + "\n");
  const json tensor{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 4}}};
  std::ofstream(data + "/model " + words + ".json")
      << json{{"platform", "pytorch_torchscript"}, {"inputs", {tensor}}, {"outputs", {tensor}}};
  return path;
}

std::string Platform::file_of(const FunctionText& f) const {
  return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: " + f.name +
         "}\nspec:\n  model: {path: \"" + model(f.words) + "\"}\n  policy: fixed\n" +
         "  minReplicas: " + std::to_string(f.replicas) +
         "\n  slice: {quota: {request: " + std::to_string(f.request) + "%}}\n" + f.more;
}

Ended Platform::apply(const FunctionText& f) const {
  return cli({"apply", "-f", "-"}, file_of(f));
}

void Platform::wait_until_settled(const std::string& name, int replicas) const {
  const json f = until("/v1/functions/default/" + name, [&](const json& now) {
    return now["revision"] == now["serving"] && now["replicas"]["ready"] == replicas &&
           now["replicas"]["starting"] == 0 && now["replicas"]["draining"] == 0;
  });
  for (const json& i : instances(name)) EXPECT_EQ(i["revision"], f["revision"]);
}

void Platform::deploy(const FunctionText& f) const {
  const Ended applied = apply(f);
  ASSERT_EQ(applied.code, 0) << applied.err;
  wait_until_settled(f.name, f.replicas);
}

wire::Endpoint Platform::gateway() const {
  const std::string text = text_of(data + "/run/gateway.address");
  return *wire::parse_endpoint(text.substr(0, text.find('\n')));
}

json Platform::ask(const std::string& name, const std::string& query) const {
  wire::HttpClient client(gateway(), kPatience);
  const auto answer = client.call(verb::post, "/v2/models/" + name + "/infer" + query, "{}");
  if (!answer.ok()) return {{"status", 0}, {"error", answer.error().message}};
  json out = json::parse(answer->body(), nullptr, false);
  if (!out.is_object()) out = {{"body", answer->body()}};
  out["status"] = answer->result_int();
  return out;
}

uint64_t Platform::answered(const std::string& name) const {
  wire::HttpClient client({.path = data + "/run/gateway.sock"}, kPatience);
  const auto stats = client.json(verb::get, "/v1/stats");
  if (!stats.ok()) return 0;
  for (const json& f : (*stats)["functions"])
    if (f["name"] == "default/" + name) return f["ok"].get<uint64_t>();
  return 0;
}

// ---- load --------------------------------------------------------------------------------------

Load::Load(const Platform& platform, double rate, const std::string& query, const std::string& name)
    : platform_(platform), name_(name) {
  cli::LoadTarget target{.name = name,
                         .path = "/v2/models/" + name + "/infer" + query,
                         .body = "{}",
                         .plan = {{std::chrono::hours(1), rate}}};
  const cli::LoadOptions options{
      .server = platform.gateway(), .connections = kLoadConnections, .timeout = kPatience};
  thread_ = std::thread(
      [this, target, options] { results_ = cli::run_load({target}, options, {}, &stop_); });
}

Load::~Load() {
  if (thread_.joinable()) (void)end();
}

void Load::flows(uint64_t more) const {
  // A restarted gateway counts from zero.
  uint64_t last = platform_.answered(name_), seen = 0;
  EXPECT_TRUE(eventually("answers", [&] {
    const uint64_t now = platform_.answered(name_);
    seen += now > last ? now - last : 0;
    last = now;
    return seen >= more;
  }));
}

cli::LoadResult Load::end() {
  stop_ = true;
  thread_.join();
  return results_.at(0);
}

void expect_nothing_lost(const cli::LoadResult& r) {
  EXPECT_EQ(r.ok, r.sent) << r.failed << " failed, " << r.shed << " shed "
                          << testing::PrintToString(r.faults);
}

HeldRequest::HeldRequest(const Platform& platform, const std::string& name)
    : file_(platform.data + "/go"),
      answer_(std::async(std::launch::async, [&platform, name, query = "?until=" + file_] {
        return platform.ask(name, query);
      })) {}

json HeldRequest::answer() {
  std::ofstream(file_) << "go";
  return answer_.get();
}

pid_t busy_one(const Platform& p, const std::string& name) {
  wire::HttpClient admin({.path = p.data + "/run/gateway.sock"}, kPatience);
  std::string id;
  EXPECT_TRUE(eventually("a request in flight", [&] {
    const auto stats = admin.json(verb::get, "/v1/stats");
    if (!stats.ok()) return false;
    for (const json& f : (*stats)["functions"])
      for (const json& i : f["instances"])
        if (f["name"] == "default/" + name && i["in_flight"] > 0) id = i["id"];
    return !id.empty();
  }));
  for (const json& i : p.instances(name))
    if (i["id"] == id) return i["pid"];
  return 0;
}

}  // namespace sluice
