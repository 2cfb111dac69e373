// An HTTP server that needs the C library alone: it answers each request with its first line.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
  const char* port = getenv("PORT");
  const int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET};
  at.sin_port = htons((unsigned short)atoi(port == NULL ? "" : port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listening, (struct sockaddr*)&at, sizeof at) != 0 || listen(listening, 16) != 0) {
    perror("PORT");
    return 1;
  }
  for (;;) {
    char request[16384] = "", answer[sizeof request + 128];
    const int peer = accept(listening, NULL, NULL);
    size_t length = 0;
    ssize_t n = 0;
    while (length < sizeof request - 1 && strstr(request, "\r\n\r\n") == NULL &&
           (n = read(peer, request + length, sizeof request - 1 - length)) > 0)
      length += (size_t)n;
    const int line = (int)strcspn(request, "\r\n");
    const int size =
        snprintf(answer, sizeof answer,
                 "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%.*s\n",
                 line + 1, line, request);
    if (line > 0 && write(peer, answer, (size_t)size) != size) perror("answer");
    close(peer);
  }
}
