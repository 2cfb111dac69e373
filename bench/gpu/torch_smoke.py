#!/usr/bin/env python3
"""torch_smoke: an unmodified PyTorch under the hook, each part in a process of its own; prints a line a part and ends
with 1 if one failed. Run it plainly first: what fails there is no fault of the hook's.

eager: answers equal the CPU's. graph: a captured graph replays. compile: Triton's launcher (skipped without it).
pools, expandable: PyTorch's two allocators give back what they took. fork: a child of a process that has used CUDA is
refused as without the hook; spawn: a spawned one works. threads: eight of them, a stream each.
"""
import multiprocessing
import os
import subprocess
import sys


def torch_on_gpu():
    import torch
    assert torch.cuda.is_available(), "no GPU is seen"
    return torch


def model(torch):
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10)]
    return torch.nn.Sequential(*layers).eval()


def eager():
    torch = torch_on_gpu()
    with torch.no_grad():
        net, x = model(torch), torch.randn(4, 3, 32, 32)
        wanted = net(x)
        got = net.cuda()(x.cuda()).cpu()
    assert torch.allclose(wanted, got, atol=1e-3), (wanted - got).abs().max()


def graph():
    torch = torch_on_gpu()
    with torch.no_grad():
        net, x = model(torch).cuda(), torch.randn(4, 3, 32, 32).cuda()
        wanted = net(x)  # also what a capture needs: libraries that are loaded
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            got = net(x)
        for _ in range(100):
            captured.replay()
        torch.cuda.synchronize()
    assert torch.allclose(wanted, got, atol=1e-3)


def compile():  # named as what it tries
    torch = torch_on_gpu()
    try:
        import triton  # noqa: F401
    except ImportError:
        return "skipped: no Triton"
    f = torch.compile(lambda a, b: (a * b).sin().sum())
    a, b = torch.randn(2, 1000, device="cuda")
    assert torch.allclose(f(a, b), (a * b).sin().sum(), atol=1e-2)


def allocate():
    torch = torch_on_gpu()
    for mib in (1, 3, 64, 700):
        torch.empty(mib << 20, dtype=torch.uint8, device="cuda").fill_(1)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0, torch.cuda.memory_reserved()


def pools():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "backend:cudaMallocAsync"
    allocate_async = torch_on_gpu()
    for mib in (1, 64, 700):
        allocate_async.empty(mib << 20, dtype=allocate_async.uint8, device="cuda").fill_(1)
    allocate_async.cuda.synchronize()


def expandable():
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    allocate()


def fork():
    torch = torch_on_gpu()
    torch.ones(4).cuda().sum().item()
    pid = os.fork()
    if pid == 0:
        try:
            torch.ones(4).cuda()
        except RuntimeError as refused:
            os._exit(0 if "forked" in str(refused) else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0, "the child was not refused as PyTorch refuses it"
    torch.ones(4).cuda().sum().item()


def one_sum(_):
    return torch_on_gpu().ones(4).cuda().sum().item()


def spawn():
    torch_on_gpu().ones(4).cuda()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(one_sum, range(4)) == [4.0] * 4


def threads():
    import threading
    torch = torch_on_gpu()
    sums = [0.0] * 8

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.ones(256, 256, device="cuda")
            for _ in range(200):
                x = (x @ x) / 256
            sums[i] = x.mean().item()

    running = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in running:
        t.start()
    for t in running:
        t.join()
    assert all(abs(s - 1) < 1e-2 for s in sums), sums


PARTS = [eager, graph, compile, allocate, pools, expandable, fork, spawn, threads]


def main():
    if len(sys.argv) == 2:
        print(next(p for p in PARTS if p.__name__ == sys.argv[1])() or "ok")
        return 0
    failed = 0
    for part in PARTS:
        done = subprocess.run([sys.executable, __file__, part.__name__], capture_output=True, text=True, timeout=180)
        words = (done.stdout if done.returncode == 0 else done.stderr or f"ended with {done.returncode}").strip().splitlines()
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'}  torch {part.__name__}: {words[-1] if words else ''}", flush=True)
        failed += done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
