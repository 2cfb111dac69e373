"""A platform of its own for scripts that measure live ones, and models to serve on it."""

import http.client
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
SLUICE = TOP / "build/release/sluice"
IMAGE = {"name": "input", "datatype": "FP32", "shape": [-1, 3, 224, 224]}
CLASSES = {"name": "output", "datatype": "FP32", "shape": [-1, 1000]}


class Refused(SystemExit):
    """What a command said as it failed, which ends a script that does not catch it."""


def until(done, what, log=None, patience=120):
    """Returns what done() returns once that is true."""
    end = time.monotonic() + patience
    while not (found := done()):
        if time.monotonic() > end:
            raise Refused(f"{what}: not within {patience} s\n" + (log.read_text()[-2000:] if log else ""))
        time.sleep(0.1)
    return found


def traced(folder, name):
    """The file of one of torchvision's classifiers, with seeded random weights; made if it is missing."""
    path = pathlib.Path(folder) / f"{name}.pt"
    if path.exists():
        return path
    import torch
    import torchvision

    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    options = {"init_weights": False} if name == "googlenet" else {}
    model = getattr(torchvision.models, name)(weights=None, **options).eval()
    if name == "googlenet":
        model.aux_logits = False
    part = path.with_name(f".{name}.part")
    torch.jit.trace(model, torch.rand(2, 3, 224, 224), check_trace=False).save(str(part))
    part.replace(path)
    return path


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path):
        super().__init__("platform")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Platform:
    """With CPU devices, for a `with`: so many, or by type ("big=1x740m,little=1x400m"). `flags` are further ones of `sluice up`."""

    def __init__(self, policy, *flags, devices=2, program=SLUICE):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-live-")
        pathlib.Path(self.folder.name).chmod(0o711)  # instances of other users read what lies in it
        self.data = self.folder.name + "/data"
        self.log = pathlib.Path(self.folder.name + "/up.log")
        self.devices = sum(int(count) for count in re.findall(r"=(\d+)x", str(devices))) or devices
        pathlib.Path(self.data).mkdir()
        with self.log.open("w") as log:
            self.up = subprocess.Popen([program, "--data", self.data, "up", "--policy", policy, "--devices", str(devices), "--listen",
                                        "127.0.0.1:0", "--api", "127.0.0.1:0", *flags], stdout=log, stderr=log)

    def __enter__(self):
        until(self.is_up, "the platform to be up", self.log)
        return self

    def __exit__(self, *_):
        self.call("down")
        self.up.wait(timeout=60)
        self.folder.cleanup()

    def is_up(self):
        if self.up.poll() is not None:
            raise Refused(f"sluice up: {self.log.read_text()[-2000:]}")
        return self.call("status").returncode == 0 and len(self.devices_of("cpu")) == self.devices

    def devices_of(self, kind):
        return [d for d in self.json("get", "devices") if d["kind"] == kind]

    def call(self, *words, text=None):
        return subprocess.run([self.program, "--data", self.data, *map(str, words)], input=text, capture_output=True, text=True)

    def sluice(self, *words, text=None):
        done = self.call(*words, text=text)
        if done.returncode != 0:
            raise Refused(f"sluice {' '.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def json(self, *words, text=None):
        return json.loads(self.sluice("-o", "json", *words, text=text))

    def api(self, method, path, body=None, of="api"):
        connection = SocketConnection(f"{self.data}/run/{of}.sock")
        connection.request(method, path, json.dumps(body) if body else None)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise Refused(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text)

    def served(self):
        """What each instance has answered, by its device's type: [(function, type, inferences)]."""
        types = {d["id"]: d["type"] for d in self.json("get", "devices")}
        devices = {i["id"]: types[i["parts"][0]["device"]] for i in self.json("get", "instances")}
        return [(f["name"].split("/")[-1], devices.get(i["id"]), i["inferences"])
                for f in self.api("GET", "/v1/stats", of="gateway")["functions"] for i in f["instances"]]

    def gateway(self):
        """Where it listens, as (host, port)."""
        host, port = (pathlib.Path(self.data) / "run/gateway.address").read_text().split()[0].rsplit(":", 1)
        return host, int(port)

    def report(self):
        """What each function has held and used since its first instance, by name."""
        return {f["name"].split("/")[-1]: f for f in self.api("GET", "/v1/report")["functions"]}
