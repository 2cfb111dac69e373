#!/usr/bin/python3
"""A function that is any server: it listens on $PORT, and answers any path.

    sluice apply -f examples/server/server.yaml
    sluice invoke greeter --path '/hello?name=Ada'
    curl -N http://127.0.0.1:8000/functions/greeter/count/5
"""
import http.server
import os
import time
import urllib.parse


class Greeter(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the second of two writes waits 40 ms for the first's receipt

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        if url.path.startswith("/count/"):
            return self.count(int(url.path.rsplit("/", 1)[1]))
        if url.path != "/hello":
            return self.send_error(404)
        name = urllib.parse.parse_qs(url.query).get("name", ["you"])[0]
        self.answer(f"Hello, {name}! You came by {self.headers['X-Forwarded-Prefix']}.\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(body.decode(errors="replace").upper())

    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def count(self, most):
        """Server-sent events: each goes out when it is there."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for i in range(most):
            self.wfile.write(f"data: {i}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.05)


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Greeter).serve_forever()
