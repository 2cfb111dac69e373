#include "cli/kubectl.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "base/system_error.h"

namespace sluice::cli {
namespace {

// A file without a name: a program's input or output, however long.
Result<Fd> file_of(const std::string& text) {
  Fd file(memfd_create("kubectl", MFD_CLOEXEC));
  if (!file.valid()) return system_error("a file in memory");
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(file.get(), text.data() + done, text.size() - done);
    if (n < 0) return system_error("a file in memory");
    done += static_cast<size_t>(n);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string text_of(const Fd& file) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(file.get(), 0, SEEK_END), 0)), '\0');
  const ssize_t n = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

}  // namespace

Result<int> run_program(std::vector<std::string> words, int in, int out) {
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t pid = 0;
  const int fault =
      posix_spawnp(&pid, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) return system_error(words[0], fault);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return system_error(words[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<std::string> kubectl(const Session& session, std::vector<std::string> words,
                            const std::string& input) {
  const std::string what = words.at(0);
  if (!session.kubeconfig.empty())
    words.insert(words.begin(), "--kubeconfig=" + session.kubeconfig);
  words.insert(words.begin(), "kubectl");
  SLUICE_ASSIGN(in, file_of(input));
  SLUICE_ASSIGN(out, file_of(""));
  SLUICE_ASSIGN(code, run_program(std::move(words), in.get(), out.get()));
  if (code == 0) return text_of(out);
  return Error{ErrorKind::kInternal, "kubectl " + what + " failed (exit code " +
                                         std::to_string(code) + "); it says why above"};
}

}  // namespace sluice::cli
