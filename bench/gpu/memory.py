#!/usr/bin/env python3
"""A slice's memory limit as PyTorch's allocators meet it: the native one, with expandable segments, and CUDA's pools. A line a
promise: the slice's size is shown; beyond it torch.cuda.OutOfMemoryError is raised and the program lives on; a limit
changes while the program runs, and takes nothing away; what a killed program held is back. Ends with 1 if one was broken.

    bench/gpu/memory.py [native|expandable|pools…]
"""
import contextlib
import os
import signal
import subprocess
import sys
import time

from slices import Slices

ALLOCATORS = {"native": "", "expandable": "expandable_segments:True", "pools": "backend:cudaMallocAsync"}
LIMIT, HIGHER, LOWER = 4096, 6144, 2048  # MiB; a context and PyTorch's libraries are in it
PIECE = 64
BACK_WITHIN = 1.0  # seconds from a kill


class Program:
    """Fills memory piece by piece; each piece holds its number."""

    def __init__(self):
        import torch

        self.torch, self.pieces = torch, []
        # Made before any limit is met: whole() has to run where the program gets no new memory.
        self.ones = torch.ones(256, device="cuda")
        self.sum = self.ones.sum()

    def shown(self):
        return self.torch.cuda.mem_get_info()[1] >> 20

    def fill(self):
        """MiB it has then, and what ended it."""
        try:
            while True:
                piece = self.torch.empty(PIECE << 20, dtype=self.torch.uint8, device="cuda")
                self.pieces.append(piece.fill_(len(self.pieces)))
        except Exception as error:
            return f"{self.torch.cuda.memory_reserved() >> 20} {type(error).__name__}"

    def whole(self):
        """Whether each piece has its number, and kernels run: in memory that it has already."""
        good = all(int(p[-1]) == i and int(p[0]) == i for i, p in enumerate(self.pieces))
        self.torch.sum(self.ones, dim=0, out=self.sum)
        return good and self.sum.item() == 256

    def drop(self):
        del self.pieces[len(self.pieces) // 4:]
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        return self.torch.cuda.memory_reserved() >> 20

    def serve(self):
        for line in sys.stdin:
            try:
                answer = getattr(self, line.strip())()
            except Exception as error:
                answer = f"{type(error).__name__}: {error}".splitlines()[0]
            print(answer, flush=True)


class Check:
    def __init__(self, name):
        self.name, self.failed = name, 0

    def __call__(self, good, what):
        print(f"{'ok  ' if good else 'FAIL'}  {self.name}: {what}", flush=True)
        self.failed += not good


def check_limit(name, slices, number):
    def limit(mib):
        slices.put(number, 300, 1000, mib=mib)

    limit(LIMIT)
    environment = slices.environment(number) | {"PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[name]}
    child = subprocess.Popen([sys.executable, __file__, "--program"], env=os.environ | environment,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(what):
        with contextlib.suppress(BrokenPipeError):  # it has ended
            print(what, file=child.stdin, flush=True)
        return child.stdout.readline().strip() or f"ended: {child.wait()}"

    def fill(least, most):
        has, error = (ask("fill") + " -").split()[:2]
        good = has.isdigit() and least <= int(has) <= most and error == "OutOfMemoryError"
        check(good, f"at a limit of {most} MiB it gets {has}, then {error}; held: {slices.state(number)['held'] >> 20}")

    def whole(what):
        answer = ask("whole")
        check(answer == "True", what if answer == "True" else f"{what}: {answer}")

    check = Check(name)
    shown = ask("shown")
    check(shown == str(LIMIT), f"of a slice of {LIMIT} MiB it is shown {shown}")
    check(slices.state(number)["holders"] == 1, f"its context: {slices.state(number)['held'] >> 20} MiB held")
    fill(LIMIT // 2, LIMIT)
    whole("it lives on, with what it has")
    limit(HIGHER)
    fill(LIMIT, HIGHER)
    limit(LOWER)
    has, error = (ask("fill") + " -").split()[:2]
    check(error == "OutOfMemoryError", f"lowered to {LOWER} MiB it keeps {has} and gets no more: {error}")
    whole("nothing was taken")
    has = ask("drop")
    check(has.isdigit(), f"it drops all but {has} MiB; held: {slices.state(number)['held'] >> 20}")
    fill(0, LOWER)
    begin = time.monotonic()
    child.send_signal(signal.SIGKILL)
    while slices.state(number)["held"] and time.monotonic() < begin + 10:
        pass
    took = time.monotonic() - begin
    child.wait()
    check(took < BACK_WITHIN, f"killed, its memory is back after {1000 * took:.1f} ms")
    return check.failed


def main():
    if sys.argv[1:] == ["--program"]:
        return Program().serve()
    names = sys.argv[1:] or list(ALLOCATORS)
    failed = 0
    with Slices() as slices:
        for number, name in enumerate(names, 1):
            failed += check_limit(name, slices, number)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
