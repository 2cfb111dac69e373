"""The API of a node's agent, as the controller calls it, and as its own threads do."""
import base64
import http.client
import json
import socket
import ssl
import sys

from kube.cluster import TOP, state

sys.path.insert(0, str(TOP / "tools/kube"))
import certificates  # noqa: E402


class Local(http.client.HTTPConnection):
    """Over the agent's unix socket, on the node."""

    def __init__(self, node):
        super().__init__("agent")
        self.path = str(state() / node / "var/lib/sluice-agent/run/node.sock")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class OfController(http.client.HTTPSConnection):
    """Over mutual TLS, to the agent's Pod, with a certificate of the controller's authority."""

    def __init__(self, server, pod):
        folder = state() / "bench"
        folder.mkdir(exist_ok=True)
        secret = server.call("GET", "/api/v1/namespaces/sluice-system/secrets/sluice-ca")["data"]
        for name, key in (("ca.crt", "tls.crt"), ("ca.key", "tls.key")):
            (folder / name).write_bytes(base64.b64decode(secret[key]))
        certificates.Authority(folder, "").sign("client", "/CN=sluice-controller")
        context = ssl.create_default_context(cafile=folder / "ca.crt")
        context.check_hostname = False  # it is issued for a name; we have an address
        context.load_cert_chain(folder / "client.crt", folder / "client.key")
        super().__init__(pod["status"]["podIP"], 7443, context=context, timeout=10)


def call(connection, method, path, body=None):
    connection.request(method, path, json.dumps(body) if body is not None else None,
                       {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status // 100 != 2:
        sys.exit(f"{method} {path}: {answer.status} {text[:500]}")
    return json.loads(text)
