#!/usr/bin/env python3
"""Eight instances of a model on one GPU, each with 12 % of it, in batches a second of all together: against the driver's time
slicing, and against MPS without shares. FaST-GShare has ResNet at 4.16 times time sharing, RNN-T at 3.46, GNMT at 1.52
(V100, partitions of 12 %; theirs is Sluice's in the column "12 % of SMs").

    bench/gpu/throughput.py [--device cuda|cpu] [--models resnet50,…] [--batches 1,8] [--seconds N] [--count N]

Each way is a process of this script of its own, and its instances stay for all models.
"""
import argparse
import json
import sys

import ways
from instance import all_do
from slices import WHOLE

SHARE = 120  # permille
# Under MPS? Each slice: (request, limit, SMs), or none.
WAYS = {
    "one alone": (False, None),
    "time slicing": (False, None),
    "12 % of time": (False, (SHARE, SHARE, WHOLE)),
    "MPS, free": (True, None),
    "12 % of SMs": (True, (WHOLE, WHOLE, SHARE)),
}
FAST = {"resnet50": "4.16", "bert": "RNN-T 3.46", "gpt2": "GNMT 1.52"}


def measure(way, o):
    """{"MODEL BATCH": batches a second of all instances} on standard output."""
    count, share = 1 if way == "one alone" else o.count, WAYS[way][1]
    environment = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share[2] // 10)} if share else {}
    with ways.instances(way, o.device, [environment] * count, [share] * count if share else ()) as instances:
        rates = {}
        for model in o.models:
            for batch in o.batches:
                all_do(instances, model=model, batch=batch, train=False)
                answers = all_do(instances, seconds=o.seconds, rate=0, seed=0)
                rates[f"{model} {batch}"] = sum(a["rate"] for a in answers)
    print(json.dumps(rates))


def table(found):
    names = list(found)
    print(f"{'batches/s of all':18}" + "".join(f"{n:>14}" for n in names) + "   SMs : slicing (FaST)   SMs : free MPS")
    for key in next(iter(found.values())):
        rates = {n: found[n][key] for n in names}
        line = f"{key:18}" + "".join(f"{rates[n]:14.1f}" for n in names)
        ours = rates.get("12 % of SMs")
        for other, beside in (("time slicing", f" ({FAST[key.split()[0]]})"), ("MPS, free", "")):
            if ours and other in rates:
                line += f"   {ours / rates[other]:.2f}{beside}"
        print(line)


def listed(text):
    return text.split(",")


def main():
    p = ways.options(__doc__)
    p.add_argument("--models", type=listed, default=["resnet50", "bert", "gpt2"])
    p.add_argument("--batches", type=lambda t: [int(b) for b in listed(t)], default=[1, 8])
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--count", type=int, default=8)
    p.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.way:
        measure(o.way, o)
        return 0
    found, failed = {}, []
    for way, rates in ways.measured(WAYS):
        if rates is None:
            failed.append(way)
            continue
        found[way] = rates
        print(f"{way}: {rates}", flush=True)
    table(found)
    ways.say_failed(failed)
    return 0 if "time slicing" in found and "12 % of time" in found else 1


if __name__ == "__main__":
    sys.exit(main())
