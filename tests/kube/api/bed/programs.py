"""Our processes on this machine, each as the account that deploy/ gives it.

What kubelets would say of an agent's or gateway's Pod is written here.
"""
import base64
import json
import signal
import subprocess
import sys
import time
import traceback

from bed.cluster import CORE, SERVER, STATE, SYSTEM, TOP, call, get, items, patch, until


def token_of(account):
    def found():
        for secret in items(f"{CORE}/namespaces/{SYSTEM}/secrets"):
            notes = secret["metadata"].get("annotations", {})
            if notes.get("kubernetes.io/service-account.name") == account and secret.get("data"):
                return base64.b64decode(secret["data"]["token"]).decode()
        return None
    return until(f"a token of {account}", found)


def kubeconfig(account, server=SERVER):
    """Writes a kubeconfig of a ServiceAccount; returns its path."""
    path = STATE / f"{account}-{server[1]}.kubeconfig"
    path.write_text(json.dumps({
        "current-context": "it", "contexts": [{"name": "it", "context": {
            "cluster": "it", "user": "it", "namespace": SYSTEM}}],
        "clusters": [{"name": "it", "cluster": {
            "server": f"https://{server[0]}:{server[1]}", "tls-server-name": "kubernetes",
            "certificate-authority": str(STATE / "pki/ca.crt")}}],
        "users": [{"name": "it", "user": {"token": token_of(account)}}]}))
    return path


class Program:
    """A process of ours: `sluice kube KIND`, with a log."""
    all = []

    def __init__(self, kind, name, *options, account=None, server=SERVER):
        self.name = name
        self.data = STATE / name
        self.log_file = STATE / f"{name}.log"
        config = kubeconfig(account or f"sluice-{kind}", server)
        self.command = [TOP / "build/release/sluice", "kube", kind, "--kubeconfig", config,
                        "--data", self.data, *options]
        self.process = None
        Program.all.append(self)

    def start(self):
        self.data.mkdir(exist_ok=True)
        with open(self.log_file, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.command, cwd=TOP, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        return self

    def keep(self):
        """As a kubelet does: starts it again if it has ended."""
        if self.process.poll() is not None:
            self.start()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log(self):
        return self.log_file.read_text(errors="replace")

    def warnings(self):
        return [line for line in self.log().splitlines() if " W " in line or " E " in line]

    def says(self, text, seconds=30):
        until(f"{self.name} says '{text}'", lambda: text in self.log(), seconds)


def controller(name="controller", port=7443, server=SERVER):
    return Program("controller", name, "--image", "localhost/sluice:dev", "--identity", name,
                   "--listen", f"{SERVER[0]}:{port}",
                   "--webhook-listen", f"{SERVER[0]}:{port + 1000}", server=server)


def peer_tls():
    """Returns the folder of the certificate that the controller made for agents and gateways."""
    folder = STATE / "peer-tls"
    folder.mkdir(exist_ok=True)
    path = f"{CORE}/namespaces/{SYSTEM}/secrets/sluice-peer-tls"
    secret = until("the peers' certificate", lambda: get(path))
    for name, data in secret["data"].items():
        (folder / name).write_bytes(base64.b64decode(data))
    return folder


def add_address(address):
    """Adds an address of this machine to the cluster's network."""
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", "cluster"], check=True)


def make_pod(component, address, node):
    """Makes a Pod as a component's, that runs at `address`; in truth nothing does it."""
    add_address(address)
    name = f"{component}-{node}"
    pods = f"{CORE}/namespaces/{SYSTEM}/pods"
    call("POST", pods, {"metadata": {"name": name, "labels": {
        "app.kubernetes.io/name": component, "app.kubernetes.io/part-of": "sluice"}},
        "spec": {"nodeName": node, "containers": [{"name": "it", "image": "sluice"}]}})
    patch(f"{pods}/{name}/status", {"status": {"phase": "Running", "podIP": address}})


def make_node(name):
    call("POST", f"{CORE}/nodes", {"metadata": {"name": name}})
    patch(f"{CORE}/nodes/{name}/status", {"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "Test", "message": "made by hand"}]}})


def agent(node="n1", address="10.99.0.11"):
    make_node(node)
    make_pod("sluice-agent", address, node)
    permits = STATE / f"permits-{node}"
    permits.mkdir()
    return Program("agent", f"agent-{node}", "--node", node, "--permits", permits, "--pod-cgroups",
                   "/sys/fs/cgroup", "--listen", f"{address}:7443", "--tls", peer_tls(),
                   "--devices", "2")


def gateway(node="n1", address="10.99.0.12", server=SERVER):
    make_pod("sluice-gateway", address, node)
    return Program("gateway", f"gateway-{node}", "--listen", f"{address}:8000", "--admin-listen",
                   f"{address}:7444", "--tls", peer_tls(), "--threads", "1", server=server)


def run(*steps):
    """Runs a case's steps one after the other; at a failure, shows what the programs said."""
    for step in steps:
        begun = time.monotonic()
        try:
            step()
        except BaseException:
            for kind in ("ifn", "functionrevisions", "functionroutes", "pods", "events"):
                subprocess.run([TOP / "tools/cluster", "kubectl", "get", kind, "-A"], check=False)
            for program in Program.all:
                last = {line[25:]: line for line in program.log().splitlines()}  # of equal lines
                print(f"-- {program.name}", *list(last.values())[-30:], sep="\n")
            print(traceback.format_exc())
            sys.exit(f"failed: {step.__name__}")
        print(f"{step.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    for program in Program.all:
        if program.process and program.process.poll() is None:
            program.signal(signal.SIGCONT)
            program.kill()
    sys.exit(0)
