// `sluice kube measure`: measures a function on the node of a cluster, in the agent's container.
// The agent's own instances are Pods; so a node daemon of another data directory runs beside it for
// the time of `sluice profile`. It knows nothing of the agent's slices: what is left of the devices
// is the caller's to say, by --quotas.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <thread>

#include "base/fd.h"
#include "base/system_error.h"
#include "cli/kube.h"
#include "cli/kubectl.h"
#include "process/spawn.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr Nanos kPoll = Millis(50), kStart = Seconds(20);

struct MeasureFlags {
  std::string devices;
  std::vector<std::string> words;  // of `sluice profile`
};

// A node daemon that ends with this object, and its data directory.
class OwnNode {
 public:
  static Result<std::unique_ptr<OwnNode>> start(const std::string& devices) {
    std::string data = fs::temp_directory_path() / "sluice-measure-XXXXXX";
    if (mkdtemp(data.data()) == nullptr) return system_error(data);
    std::unique_ptr<OwnNode> node(new OwnNode(data));
    // One user: a container may have no place for the machine's claims of user ids.
    std::vector<std::string> words{"node", "--data", data, "--share-uid"};
    if (devices != "auto") words.insert(words.end(), {"--devices", devices});
    const std::string said = data + "/node.log";
    const Fd log(open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!log.valid()) return system_error(said);
    SLUICE_ASSIGN(process, node::spawn({.program = fs::read_symlink("/proc/self/exe"),
                                        .words = std::move(words),
                                        .variables = node::environment_without({}),
                                        .files = {{log.get(), 1}, {log.get(), 2}}}));
    node->process_ = std::move(process);
    for (Nanos waited{0}; !fs::exists(data + "/run/node.sock"); waited += kPoll) {
      if (waitpid(node->process_.pid, nullptr, WNOHANG) != 0 || waited > kStart)
        return Error{ErrorKind::kInternal,
                     "the node daemon does not start: " + read_file(said).value_or("")};
      std::this_thread::sleep_for(kPoll);
    }
    return node;
  }
  ~OwnNode() {
    if (process_.pid > 0 && kill(process_.pid, SIGTERM) == 0)
      (void)waitpid(process_.pid, nullptr, 0);
    std::error_code fault;
    fs::remove_all(data_, fault);
  }
  const std::string& data() const { return data_; }

 private:
  explicit OwnNode(std::string data) : data_(std::move(data)) {}
  const std::string data_;
  node::SpawnedProcess process_;
};

Result<void> measure(const MeasureFlags& f) {
  SLUICE_ASSIGN(node, OwnNode::start(f.devices));
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe"), "--data", node->data(),
                                 "profile", "--print"};
  words.insert(words.end(), f.words.begin(), f.words.end());
  SLUICE_ASSIGN(code, run_program(std::move(words), STDIN_FILENO, STDOUT_FILENO));
  if (code != 0) return Error{ErrorKind::kInternal, "it was not measured; the line above says why"};
  return {};
}

}  // namespace

void add_kube_measure(CLI::App& kube, Outcome& outcome) {
  auto f = std::make_shared<MeasureFlags>();
  CLI::App* command = kube.add_subcommand(
      "measure", "sluice profile in an agent's container (kubectl sluice profile calls it)");
  command->add_option("--devices", f->devices, "as the agent has them; auto: as without")
      ->required();
  command->add_option("words", f->words, "behind --: of `sluice profile`");
  command->callback([f, &outcome] { outcome = measure(*f); });
}

}  // namespace sluice::cli
