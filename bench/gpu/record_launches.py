#!/usr/bin/env python3
"""record_launches MODEL [--graph | --training] [--batch N] [--runs N]: what an unmodified PyTorch asks of a GPU in N runs
of a model, as a launch trace (tests/emulator/launch_trace.h) on standard output, to be played again on the emulated GPU by
replay_trace. MODEL: resnet50, bert or gpt2 (random weights, models.py), or a JSON file that torch.profiler
has exported (--sms says of which device). --training: a run is forward, backward, the optimizer's step and the
loss's copy to the host, as in colocate.py.

Kernels, graphs and copies come from the profiler's correlation of host calls with what they caused; the gaps between
calls are the host's, as one thread: a program with several launching threads is not for this (autograd's thread launches
while the one that called it waits). A kernel of a name and a grid has the mean of what its launches took.
"""
import argparse
import collections
import json
import sys
import tempfile
import time

WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize"}
COPIES = {"Memcpy HtoD": "to", "Memcpy DtoH": "from", "Memcpy DtoD": "within", "Memset": "set"}


def convert(events, sms):
    """The lines of a trace from the events of a profile ("traceEvents")."""
    spans = [e for e in events if e.get("ph") == "X"]
    calls = sorted((e for e in spans if e.get("cat") in ("cuda_runtime", "cuda_driver")), key=lambda e: e["ts"])
    caused = collections.defaultdict(list)  # by correlation
    for e in spans:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            caused[e["args"]["correlation"]].append(e)
    took = collections.defaultdict(list)
    for e in spans:
        if e.get("cat") == "kernel":
            took[e["name"], tuple(e["args"]["grid"])].append(e["dur"])
    kernels, graphs, streams = {}, {}, {}

    def number(table, key):
        return table.setdefault(key, len(table))

    def kernel(e):
        name, (x, y, z) = e["name"], e["args"]["grid"]
        durations = took[name, (x, y, z)]
        return number(kernels, (max(1, x * y * z), max(1, round(1000 * sum(durations) / len(durations))), name))

    steps, returned = [], None
    for call in calls:
        works = sorted(caused.get(call["args"].get("correlation"), []), key=lambda e: e["ts"])
        if not works and call["name"] not in WAITS:
            continue
        gap = 0 if returned is None else max(0, round((call["ts"] - returned) * 1000))
        returned = call["ts"] + call["dur"]
        if not works:
            steps.append(f"sync gap={gap}")
            continue
        place = f"stream={number(streams, works[0]['args']['stream'])} gap={gap}"
        if "GraphLaunch" in call["name"]:
            graph = number(graphs, tuple(kernel(e) for e in works if e["cat"] == "kernel"))
            steps.append(f"launch graph={graph} {place}")
        elif works[0]["cat"] == "kernel":
            steps.append(f"launch kernel={kernel(works[0])} {place}")
        else:
            way = next((COPIES[c] for c in COPIES if works[0]["name"].startswith(c)), "within")
            steps.append(f"copy {way} bytes={max(1, works[0]['args'].get('bytes', 1))} {place}")
    lines = [f"trace sms={sms}"]
    lines += [f"kernel blocks={blocks} ns={ns} {name}" for blocks, ns, name in kernels]
    lines += ["graph " + " ".join(map(str, g)) for g in graphs]
    return lines + steps


def inference(o):
    import torch
    import models
    from instance import captured

    net, inputs = models.make(o.model, o.batch, "cuda")
    net.eval()
    with torch.no_grad():
        forward = captured(net, inputs) if o.graph else lambda: net(inputs)

    def run():
        with torch.no_grad():
            forward()

    return run


def record(o):
    """(events, SMs, a comment) of so many runs, after some that are not counted."""
    import torch
    from instance import WARM_UP, worker

    run = worker(o.model, o.batch, True, "cuda") if o.training else inference(o)
    for _ in range(WARM_UP):
        run()

    def all_runs():
        begin = time.monotonic()
        for _ in range(o.runs):
            run()
            torch.cuda.synchronize()
        return 1000 * (time.monotonic() - begin) / o.runs

    all_runs()
    bare_ms = all_runs()
    # The processor's activities would be PyTorch's own, which cost the host time and are not asked
    # for.
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        recorded_ms = all_runs()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.load(open(file.name))["traceEvents"]
    return events, torch.cuda.get_device_properties(0).multi_processor_count, f"# a run took {recorded_ms:.2f} ms; {bare_ms:.2f} without the profiler"


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("model")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--training", action="store_true")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--sms", type=int, default=132)
    o = p.parse_args()
    if o.model.endswith(".json"):
        print("\n".join(convert(json.load(open(o.model))["traceEvents"], o.sms)))
        return
    events, sms, comment = record(o)
    print("\n".join([comment] + convert(events, sms)))


if __name__ == "__main__":
    main()
