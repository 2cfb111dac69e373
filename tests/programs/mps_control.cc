// A program that stands in for nvidia-cuda-mps-control: the commands that NVIDIA documents, over a
// socket of its own in CUDA_MPS_PIPE_DIRECTORY. `-f`: the control daemon; without, one command from
// standard input to it. Its server is a process that does nothing, of the user that start_server
// names. There is one at a time: NVIDIA's, too, starts no server while another user's has clients.
//
// Its behaviour is set by files beside the socket, read for each command:
//   clients     pids of the server's clients, one a line
//   state       what get_server_status prints; absent: ACTIVE
//   refuse      the server does not start
//   mute        it answers no command
//   stay        a client cannot be terminated
//   terminated  written by it: the terminated clients
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace {

const std::string pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
pid_t server = 0;
bool shutting_down = false;  // once the server has no clients

std::string file(const char* name) {
  return pipes + "/" + name;
}
bool there_is(const char* name) {
  return std::filesystem::exists(file(name));
}
std::string contents(const char* name) {
  std::ifstream in(file(name));
  return (std::ostringstream() << in.rdbuf()).str();
}

sockaddr_un address() {
  sockaddr_un a{.sun_family = AF_UNIX};
  std::strncpy(a.sun_path, file("control").c_str(), sizeof a.sun_path - 1);
  return a;
}

std::string start_server(uid_t user) {
  if (server > 0) return "";  // it is queued behind this one
  if (there_is("refuse")) return "the server exited with status 1\n";
  int user_set[2];
  if (pipe(user_set) != 0) return "no pipe\n";
  server = fork();
  if (server == 0) {
    if (setuid(user) != 0) _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(0, ~0U, 0);  // the caller would wait for it to close them
    for (;;) pause();
  }
  close(user_set[1]);
  char none = 0;
  (void)!read(user_set[0], &none, 1);
  close(user_set[0]);
  return "";
}

void end_server() {
  if (!shutting_down || !contents("clients").empty()) return;
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  server = 0;
  shutting_down = false;
}

std::string terminate(const std::string& client) {
  std::istringstream before(contents("clients"));
  std::string others;
  bool found = false;
  for (std::string line; std::getline(before, line);) {
    found |= line == client;
    if (line != client) others += line + "\n";
  }
  if (!found || there_is("stay")) return "Invalid process " + client + "!\n1\n";
  std::ofstream(file("clients")) << others;
  std::ofstream(file("terminated"), std::ios::app) << client << "\n";
  return "0\n";
}

std::string answer_to(const std::string& line) {
  std::istringstream words(line);
  std::string command, first, second;
  words >> command >> first >> second;
  end_server();
  if (command == "get_server_list") return server > 0 ? std::to_string(server) + "\n" : "";
  if (command == "start_server") return start_server(static_cast<uid_t>(std::stoul(second)));
  if (first != std::to_string(server)) return "there is no such server\n";
  if (command == "shutdown_server") {
    shutting_down = true;
    return "";
  }
  if (command == "get_server_status") return there_is("state") ? contents("state") : "ACTIVE\n";
  if (command == "get_client_list") return contents("clients");
  if (command == "terminate_client") return terminate(second);
  return "there is no such command\n";
}

int serve() {
  const sockaddr_un a = address();
  const int listening = socket(AF_UNIX, SOCK_STREAM, 0);
  std::ofstream(file("nvidia-cuda-mps-control.pid")) << getpid();
  unlink(a.sun_path);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0 ||
      listen(listening, 16) != 0)
    return 1;
  std::printf("serves %s\n", std::getenv("CUDA_VISIBLE_DEVICES"));
  std::fflush(stdout);
  for (;;) {
    pollfd waiting{listening, POLLIN, 0};
    if (poll(&waiting, 1, 1000) == 0) {
      if (!there_is("control")) return 0;  // the test's folder is gone
      continue;
    }
    const int peer = accept(listening, nullptr, nullptr);
    char line[256];
    const ssize_t n = read(peer, line, sizeof line - 1);
    const std::string asked(line, n > 0 ? static_cast<size_t>(n) : 0);
    if (there_is("mute")) continue;
    if (asked.starts_with("quit")) return 0;
    const std::string answer = answer_to(asked);
    if (write(peer, answer.data(), answer.size()) < 0) return 1;
    close(peer);
  }
}

int ask() {
  const sockaddr_un a = address();
  const int to = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(to, reinterpret_cast<const sockaddr*>(&a), sizeof a) != 0) {
    std::printf("Cannot find MPS control daemon process\n");
    return 1;
  }
  std::string line;
  std::getline(std::cin, line);
  if (write(to, line.data(), line.size()) < 0) return 1;
  char part[4096];
  for (ssize_t n; (n = read(to, part, sizeof part)) > 0;)
    std::cout << std::string_view(part, static_cast<size_t>(n));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return count > 1 && std::strcmp(words[1], "-f") == 0 ? serve() : ask();
}
