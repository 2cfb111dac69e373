#!/usr/bin/env python3
"""Training and inference on one GPU, against each alone on it: p50, p95 and p99 of the latency, late requests, and the
training's rate. Dilu: p50 and p95 at 1.24 and 1.28 times, training at 97.2 %. ResNet-50 answers batches of 4 that come at
random, at 40 and 70 % of what it can; BERT is trained beside it. A request is late after twice the p95 of inference alone.

    bench/gpu/colocate.py [--device cuda|cpu] [--seconds N] [--loads 0.4,0.7] [--graph] [--arbiters] [--request PERMILLE]

Each way has two processes. They are measured alone, together, and alone again, as the host's times vary from process to
process; alone means half of both, where the other waits for a line. --graph: inference as a CUDA graph. --arbiters: also
under Sluice's other arbiters. --request is inference's share of the device; training has the rest.
"""
import argparse
import json
import sys

import ways
from instance import all_do
from slices import WHOLE

BELOW = {"CUDA_MPS_CLIENT_PRIORITY": "1"}
# Under MPS? What training has in its environment, and the arbiter, or none.
WAYS = {
    "time slicing": (False, {}, None),
    "MPS, free": (True, {}, None),
    "MPS, training below": (True, BELOW, None),
    "shares": (False, {}, "shares"),
    "MPS, shares": (True, {}, "shares"),
}
ARBITERS = {name: (False, {}, name) for name in ("planned", "introspective", "tgs")}
SLO_MS = 20  # of inference: with one, training makes way for its iterations


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))]


def together(way, o):
    """For each load what both reached alone, and what together, on standard output."""
    _, environment, arbiter = (WAYS | ARBITERS)[way]
    shares = [(o.request, WHOLE, WHOLE, 0, SLO_MS), (WHOLE - o.request, WHOLE, WHOLE)] if arbiter else ()
    with ways.instances(way, o.device, [{}, environment], shares, arbiter) as both:
        found = measure(*both, o)
    print(json.dumps(found))


def measure(inference, training, o):
    both = inference, training
    inference.tell(model="resnet50", batch=4, train=False, graph=o.graph)
    training.tell(model="bert", batch=16, train=True)
    for each in both:
        each.answer()
    (closed,) = all_do([inference], seconds=o.seconds / 4, rate=0, seed=0)

    def alone(rate):
        (served,) = all_do([inference], seconds=o.seconds / 2, rate=rate, seed=1)
        (steps,) = all_do([training], seconds=o.seconds / 4, rate=0, seed=0)
        return {"latencies_ms": served["latencies_ms"], "steps": steps["rate"]}

    def loaded(load):
        rate = load * closed["rate"]
        before = alone(rate)
        training.tell(seconds=o.seconds, rate=0, seed=0)
        inference.tell(seconds=o.seconds, rate=rate, seed=1)
        served, steps = (each.answer() for each in both)
        found = {"latencies_ms": served["latencies_ms"], "steps": steps["rate"]}
        return {"load": load, "rate": rate, "before": before, "together": found, "after": alone(rate)}

    return [loaded(load) for load in o.loads]


def line(way, found):
    """Ratios to the mean of before and after."""
    alone = [found["before"], found["after"]]
    latencies = found["together"]["latencies_ms"]
    text = f"{way:21}{100 * found['load']:5.0f}{found['rate']:8.1f}"
    ratios = ""
    for p in (0.5, 0.95, 0.99):
        each = [percentile(a["latencies_ms"], p) for a in alone]
        text += f"{each[0]:8.2f}{each[1]:7.2f}"
        ratios += f"{2 * percentile(latencies, p) / sum(each):8.2f}"
        if p == 0.95:
            late = sum(l > sum(each) for l in latencies) / len(latencies)  # twice their mean
    steps = [a["steps"] for a in alone]
    return text + f"{steps[0]:8.2f}{steps[1]:8.2f}" + ratios + f"{100 * late:8.1f}{200 * found['together']['steps'] / sum(steps):12.1f}"


def main():
    p = ways.options(__doc__)
    p.add_argument("--seconds", type=float, default=8)
    p.add_argument("--loads", type=lambda text: [float(load) for load in text.split(",")], default=[0.4, 0.7])
    p.add_argument("--graph", action="store_true")
    p.add_argument("--arbiters", action="store_true")
    p.add_argument("--request", type=int, default=400)
    p.add_argument("--way", choices=WAYS | ARBITERS, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.graph and o.device == "cpu":
        sys.exit("--graph: a processor has no graphs")
    if o.way:
        together(o.way, o)
        return 0
    print(f"{'inference as a graph' if o.graph else 'inference eager':21}{'%':>5}{'/s':>8}{'p50 ms alone':>15}{'p95':>15}{'p99':>15}{'steps/s alone':>16}{'p50 ×':>8}{'p95 ×':>8}{'p99 ×':>8}{'late %':>8}{'training %':>12}", flush=True)
    failed = []
    for way, loads in ways.measured(WAYS | (ARBITERS if o.arbiters else {})):
        if loads is None:
            failed.append(way)
        for found in loads or []:
            print(line(way, found), flush=True)
    ways.say_failed(failed)
    return 0 if "time slicing" not in failed else 1


if __name__ == "__main__":
    sys.exit(main())
