#!/usr/bin/env python3
"""record_launches MODEL [--graph] [--batch N] [--runs N]: what an unmodified PyTorch asks of a GPU in N runs of a model,
as a launch trace (src/emulator/launch_trace.h) on standard output, to be played again on the emulated GPU by
replay_trace. MODEL: resnet50, bert or gpt2 (random weights, models.py), or a JSON file that torch.profiler
has exported (--sms says of which device).

Kernels, graphs and copies come from the profiler's correlation of host calls with what they caused; the gaps between
calls are the host's, as one thread: a program with several launching threads is not for this.
"""
import argparse
import collections
import json
import sys
import tempfile

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
    kernels, graphs, streams = {}, {}, {}

    def number(table, key):
        return table.setdefault(key, len(table))

    def kernel(e):
        blocks = max(1, e["args"]["grid"][0] * e["args"]["grid"][1] * e["args"]["grid"][2])
        return number(kernels, (blocks, max(1, round(e["dur"] * 1000)), e["name"]))

    steps, returned, known = [], None, {}
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
            # Durations differ from launch to launch: those of a graph's first stand for it.
            shape = tuple(e["name"] for e in works if e["cat"] == "kernel")
            if shape not in known:
                known[shape] = number(graphs, tuple(kernel(e) for e in works if e["cat"] == "kernel"))
            steps.append(f"launch graph={known[shape]} {place}")
        elif works[0]["cat"] == "kernel":
            # One number a kernel and grid: with what it took when it was first seen.
            e = works[0]
            shape = (e["name"], tuple(e["args"]["grid"]))
            if shape not in known:
                known[shape] = kernel(e)
            steps.append(f"launch kernel={known[shape]} {place}")
        else:
            way = next((COPIES[c] for c in COPIES if works[0]["name"].startswith(c)), "within")
            steps.append(f"copy {way} bytes={max(1, works[0]['args'].get('bytes', 1))} {place}")
    lines = [f"trace sms={sms}"]
    lines += [f"kernel blocks={blocks} ns={ns} {name}" for blocks, ns, name in kernels]
    lines += ["graph " + " ".join(map(str, g)) for g in graphs]
    return lines + steps


def record(o):
    """(events, SMs) of so many runs, after some that are not counted."""
    import torch
    import models

    net, inputs = models.make(o.model, o.batch, "cuda")
    net.eval()
    with torch.no_grad():
        for _ in range(5):
            net(inputs)
        run = lambda: net(inputs)
        if o.graph:
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                net(inputs)
            run = captured.replay
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=list(torch.profiler.supported_activities())) as profile:
            for _ in range(o.runs):
                run()
                torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.load(open(file.name))["traceEvents"]
    return events, torch.cuda.get_device_properties(0).multi_processor_count


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("model")
    p.add_argument("--graph", action="store_true")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--runs", type=int, default=20)
    p.add_argument("--sms", type=int, default=132)
    o = p.parse_args()
    events, sms = (json.load(open(o.model))["traceEvents"], o.sms) if o.model.endswith(".json") else record(o)
    print("\n".join(convert(events, sms)))


if __name__ == "__main__":
    main()
