"""A platform of its own for scripts that measure live ones, and models to serve on it."""

import json
import pathlib
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
SLUICE = TOP / "build/release/sluice"
IMAGE = {"name": "input", "datatype": "FP32", "shape": [-1, 3, 224, 224]}
CLASSES = {"name": "output", "datatype": "FP32", "shape": [-1, 1000]}


class Refused(Exception):
    """What a command said as it failed."""


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


class Platform:
    """With two devices of a core, for a `with`."""

    def __init__(self, policy):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-live-")
        pathlib.Path(self.folder.name).chmod(0o711)
        self.data = self.folder.name + "/data"
        pathlib.Path(self.data).mkdir()
        self.policy = policy

    def __enter__(self):
        with open(self.folder.name + "/up.log", "w") as log:
            self.up = subprocess.Popen([SLUICE, "--data", self.data, "up", "--policy", self.policy, "--devices", "2", "--listen",
                                        "127.0.0.1:0", "--api", "127.0.0.1:0"], stdout=log, stderr=log)
        for _ in range(600):
            if self.call("status").returncode == 0 and len(self.json("get", "devices")) == 2:
                return self
            time.sleep(0.1)
        raise Refused("the platform is not up within a minute")

    def __exit__(self, *_):
        self.call("down")
        self.up.wait(timeout=60)
        self.folder.cleanup()

    def call(self, *words, text=None):
        return subprocess.run([SLUICE, "--data", self.data, *map(str, words)], input=text, capture_output=True, text=True)

    def sluice(self, *words, text=None):
        done = self.call(*words, text=text)
        if done.returncode != 0:
            raise Refused(f"sluice {' '.join(map(str, words))}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def json(self, *words, text=None):
        return json.loads(self.sluice("-o", "json", *words, text=text))
