#!/usr/bin/env python3
"""One copy of a model's weights for several processes, over the model store: what a BERT-sized encoder costs
the device with 1 … N processes, each with its own weights, shared by descriptors, and by legacy handles; and
whether all answer alike. Needs PyTorch, a compiler, and build/core (preset core); --device cpu tries it
without a GPU, by memory of the processes.

    bench/gpu/model_sharing.py [--device cuda|cpu] [--users N] [--layers N]
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CORE = TOP / "build/core"


def binding():
    """The operator, built with this PyTorch at its first use."""
    import torch
    from torch.utils import cpp_extension

    src = TOP / "src"
    cpp_extension.load(
        name="sluice_stored_tensors",
        sources=[str(TOP / "bench/gpu/share_tensors.cc"), str(src / "runtime/stored_tensors.cc"), str(src / "base/check.cc")],
        extra_include_paths=[str(src)],
        extra_cflags=["-std=c++20"],
        extra_ldflags=[f"-L{CORE}", "-lsluice_store", f"-Wl,-rpath,{CORE}"],
        is_python_module=False,
    )
    return torch.ops.sluice.share


def memory_used(torch, device):
    """MiB: of the device; on the CPU, of this process in proportion (PSS)."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        return (total - free) >> 20
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) >> 10


def user(device, layers, connection):
    """A process of its own: says that it is ready, and what it used when it is asked."""
    import torch

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers).to(device).eval()
    torch.manual_seed(2)
    question = torch.randn(1, 64, 768).to(device)
    with torch.no_grad():
        before = model(question)
        if connection >= 0:
            binding()(connection, "encoder", list(model.parameters()))
        after = model(question)
        same = bool(torch.equal(before, after))
    del before
    print(json.dumps({"same": same, "answer": float(after.double().sum())}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"used": memory_used(torch, device)}), flush=True)


class Store:
    def __init__(self, memory):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.fileno()
        command = [CORE / "sluice-store", str(fd), str(64 << 30), memory]
        self.process = subprocess.Popen(command, pass_fds=[fd])
        theirs.close()

    def connect(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        socket.send_fds(self.control, [b"function"], [ours.fileno()])
        ours.close()
        return theirs.detach()


def run(arguments, memory):
    """MiB in use with 1 … N users alive, and what went wrong."""
    store = Store(memory) if memory else None
    users, used, answers, wrong = [], [], set(), []
    for _ in range(arguments.users):
        fd = store.connect() if store else -1
        command = [sys.executable, __file__, "--device", arguments.device, "--layers", str(arguments.layers), "--connection", str(fd)]
        users.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[fd] if store else []))
        if store:
            os.close(fd)
        ready = users[-1].stdout.readline()
        if not ready:
            wrong.append("a user ended before it was ready")
            break
        ready = json.loads(ready)
        answers.add(ready["answer"])
        if not ready["same"]:
            wrong.append("sharing changed an answer")
        asked = users if arguments.device == "cpu" else users[-1:]
        total = 0
        for each in asked:
            print(file=each.stdin, flush=True)
            total += json.loads(each.stdout.readline())["used"]
        used.append(total)
    for each in users:
        each.stdin.close()
        each.wait()
    if store:
        store.control.close()
        if store.process.wait(timeout=60) != 0:
            wrong.append("the store failed")
    if len(answers) != 1:
        wrong.append("users answer differently")
    return used, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--connection", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.connection is not None:
        return user(arguments.device, arguments.layers, arguments.connection)
    binding()  # built once, before anybody needs it
    ways = {"own weights": None}
    ways |= {"descriptors": "cuda:0", "legacy handles": "cuda-legacy:0"} if arguments.device == "cuda" else {"shared memory": "cpu"}
    failed = False
    for name, memory in ways.items():
        used, wrong = run(arguments, memory)
        print(f"{name:16} MiB in use with 1 … {arguments.users} processes: {used} {'; '.join(wrong)}", flush=True)
        failed |= bool(wrong)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
