"""A Kubernetes of two nodes with Sluice on it, for scripts that measure one.

A script calls within() first: that starts it again in namespaces of a cluster's own (tools/cluster),
which end with it.
"""
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
SERVER = ("10.99.0.1", 6443)
IMAGE = "localhost/sluice:dev"
GATEWAY = "sluice-gateway.sluice-system"


def within():
    if "SLUICE_CLUSTER" not in os.environ:
        here = [sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
        os.execv(TOP / "tools/cluster", ["cluster", "alone", *here])


def state():
    return pathlib.Path(os.environ["SLUICE_CLUSTER"])


def install(*models):
    """Starts the cluster and installs Sluice, as tests do; the image has these models."""
    if os.environ.get("SLUICE_INSTALLED"):  # to measure again on a cluster that is there
        return
    script = f". tests/kube/common.sh; install_on_nodes {' '.join(models)}"
    subprocess.run(["bash", "-c", script], cwd=TOP, check=True, stdout=sys.stderr)


def kubectl(*words, text=None):
    done = subprocess.run([TOP / "tools/cluster", "kubectl", *map(str, words)], input=text,
                          capture_output=True, text=True, cwd=TOP)
    if done.returncode != 0:
        sys.exit(f"kubectl {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def until(done, what, patience_s=120, pause_s=0.05):
    """Returns what done() returns once that is true."""
    end = time.monotonic() + patience_s
    while not (found := done()):
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {patience_s} s")
        time.sleep(pause_s)
    return found


class Server:
    """The API server, over one connection."""

    def __init__(self):
        context = ssl.create_default_context(cafile=state() / "pki/ca.crt")
        self.connection = http.client.HTTPSConnection(*SERVER, context=context, timeout=30)
        self.headers = {"Authorization": "Bearer " + (state() / "pki/token").read_text()}

    def call(self, method, path, body=None, content="application/json"):
        self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                self.headers | {"Content-Type": content})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status // 100 != 2:
            sys.exit(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text)

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def service(self, name, space="default"):
        """Returns a Service's address."""
        return self.call("GET", f"/api/v1/namespaces/{space}/services/{name}")["spec"]["clusterIP"]

    def pods(self, labels, space="default"):
        path = f"/api/v1/namespaces/{space}/pods?labelSelector={labels}"
        return self.call("GET", path)["items"]
