// A trivial program for bench/server: a function of the Open Inference Protocol that doubles four
// numbers, with binary tensors in both directions. It listens on 127.0.0.1 at $PORT, one thread a
// connection, and ends at SIGTERM.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr size_t kNumbers = 4, kTensor = kNumbers * sizeof(float);

// Returns the number behind a field's name; 0: the head has no such field.
size_t number_in(const std::string& head, const char* field) {
  const char* at = strcasestr(head.c_str(), field);
  return at == nullptr ? 0 : std::strtoul(at + std::strlen(field), nullptr, 10);
}

std::string answered(std::string_view status, std::string_view fields, std::string_view body) {
  std::string out = "HTTP/1.1 ";
  out.append(status).append("\r\n").append(fields);
  out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n\r\n");
  return out.append(body);
}

std::string answer_to(const std::string& head, std::string_view body) {
  if (head.starts_with("GET ")) return answered("200 OK", "", "{}");
  const size_t json = number_in(head, "\r\nInference-Header-Content-Length:");
  if (json == 0 || body.size() != json + kTensor)
    return answered("400 Bad Request", "", R"({"error":"four numbers in bytes are wanted"})");
  float numbers[kNumbers];
  std::memcpy(numbers, body.data() + json, kTensor);
  for (float& n : numbers) n *= 2;
  constexpr std::string_view kText =
      R"({"model_name":"f","outputs":[{"name":"y","datatype":"FP32","shape":[1,4],)"
      R"("parameters":{"binary_data_size":16}}]})";
  std::string out(kText);
  out.append(reinterpret_cast<const char*>(numbers), kTensor);
  return answered("200 OK",
                  "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
                      std::to_string(kText.size()) + "\r\n",
                  out);
}

// Reads on until `text` has so many bytes. Returns false at the connection's end.
bool read_on(int peer, std::string& text, size_t bytes) {
  char piece[16384];
  while (text.size() < bytes) {
    const ssize_t n = read(peer, piece, sizeof piece);
    if (n <= 0) return false;
    text.append(piece, static_cast<size_t>(n));
  }
  return true;
}

void serve(int peer) {
  const int one = 1;
  setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::string text;
  for (;;) {
    size_t end = 0;
    while ((end = text.find("\r\n\r\n")) == text.npos)
      if (!read_on(peer, text, text.size() + 1)) return void(close(peer));
    const std::string head = text.substr(0, end);
    text.erase(0, end + 4);
    const size_t length = number_in(head, "\r\nContent-Length:");
    if (!read_on(peer, text, length)) return void(close(peer));
    const std::string answer = answer_to(head, std::string_view(text).substr(0, length));
    text.erase(0, length);
    if (write(peer, answer.data(), answer.size()) != static_cast<ssize_t>(answer.size()))
      return void(close(peer));
  }
}

}  // namespace

int main() {
  const char* port = std::getenv("PORT");
  const int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(std::atoi(port == nullptr ? "" : port)));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listening, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
      listen(listening, 64) != 0) {
    std::perror("PORT");
    return 1;
  }
  for (;;)
    if (const int peer = accept(listening, nullptr, nullptr); peer >= 0)
      std::thread(serve, peer).detach();
}
