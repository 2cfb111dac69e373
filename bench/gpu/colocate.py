#!/usr/bin/env python3
"""Training and inference on one GPU, against each alone on it: p50 and p95 of the latency, late requests, and the training's
rate. Dilu: p50 and p95 at 1.24 and 1.28 times, training at 97.2 %. ResNet-50 answers batches of 4 that come at random, at
40 % of what it can; BERT is trained beside it. A request is late after twice the p95 of inference alone.

    bench/gpu/colocate.py [--device cuda|cpu] [--seconds N] [--request PERMILLE]

--request is inference's share of the device; training has the rest.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from instance import Instance, all_do
from slices import Slices

LOAD = 0.4
# Under MPS? An arbiter, or none.
WAYS = {
    "time slicing": (False, None),
    "planned": (False, "planned"),
    "introspective (Dilu)": (False, "introspective"),
    "tgs": (False, "tgs"),
    "MPS, free": (True, None),
}


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


def exclusive(o):
    inference = Instance(o.device)
    all_do([inference], model="resnet50", batch=4, train=False)
    (closed,) = all_do([inference], seconds=o.seconds / 2, rate=0, seed=0)
    rate = LOAD * closed["rate"]
    (alone,) = all_do([inference], seconds=o.seconds, rate=rate, seed=1)
    inference.end()
    training = Instance(o.device)
    all_do([training], model="bert", batch=16, train=True)
    (steps,) = all_do([training], seconds=o.seconds, rate=0, seed=0)
    training.end()
    latencies = alone["latencies_ms"]
    return {"rate": rate, "p50": percentile(latencies, 0.5), "p95": percentile(latencies, 0.95), "steps": steps["rate"]}


def together(way, o, rate):
    """Latencies of inference and steps a second of training, on standard output."""
    arbiter = WAYS[way][1]
    slices = arbiter and Slices(arbiter, emulated=o.device == "cpu")
    environments = [{}, {}]
    if slices:
        for number, request in enumerate((o.request, 1000 - o.request), 1):
            slices.put(number, request, 1000)
            environments[number - 1] = slices.environment(number)
    both = [Instance(o.device, e) for e in environments]
    both[0].tell(model="resnet50", batch=4, train=False)
    both[1].tell(model="bert", batch=16, train=True)
    for each in both:
        each.answer()
    both[1].tell(seconds=o.seconds, rate=0, seed=0)
    both[0].tell(seconds=o.seconds, rate=rate, seed=1)
    answers = [each.answer() for each in both]
    if slices and o.device == "cuda" and not all(slices.state(n)["processes"] for n in (1, 2)):
        sys.exit(f"{way}: an instance was not under its slice")
    print(json.dumps({"latencies_ms": answers[0]["latencies_ms"], "steps": answers[1]["rate"]}))
    for each in both:
        each.end()
    if slices:
        slices.__exit__()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--request", type=int, default=400)
    p.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    p.add_argument("--rate", type=float, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.way:
        together(o.way, o, o.rate)
        return 0
    alone = exclusive(o)
    print(f"each alone: p50 {alone['p50']:.2f} ms, p95 {alone['p95']:.2f} ms at {alone['rate']:.1f} batches/s; {alone['steps']:.2f} steps/s")
    print(f"{'on one GPU':22}{'p50 ×':>8}{'p95 ×':>8}{'late %':>8}{'training %':>12}     (Dilu: 1.24, 1.28, –, 97.2)", flush=True)
    failed = []
    for way, (mps, _) in WAYS.items():
        command = [sys.executable, __file__, "--way", way, "--rate", str(alone["rate"])] + sys.argv[1:]
        if mps:
            command.insert(0, str(pathlib.Path(__file__).parent / "under_mps"))
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            failed.append(way)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        latencies = found["latencies_ms"]
        late = sum(l > 2 * alone["p95"] for l in latencies) / len(latencies)
        ratios = [percentile(latencies, q) / alone[name] for q, name in ((0.5, "p50"), (0.95, "p95"))]
        print(f"{way:22}{ratios[0]:8.2f}{ratios[1]:8.2f}{100 * late:8.1f}{100 * found['steps'] / alone['steps']:12.1f}", flush=True)
    if failed:
        print("without figures:", ", ".join(failed))
    return 0 if "planned" not in failed and "time slicing" not in failed else 1


if __name__ == "__main__":
    sys.exit(main())
