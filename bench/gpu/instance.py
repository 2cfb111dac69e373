"""An instance of a model, as a process: an unmodified PyTorch, told by lines what to do. `Instance` is the script's end of it.

A line {"model", "batch", "train"} makes the model and runs it a few times, with "graph": true as a CUDA graph;
{"seconds", "rate", "seed"} runs it for so long: one batch after the other at rate 0, else batches that come at random, so
many a second. A batch's answer is copied to the host, and its latency counts from when it came.
"""
import json
import os
import random
import subprocess
import sys
import time

WARM_UP = 5


class Instance:
    def __init__(self, device, environment=None):
        command = [sys.executable, __file__, device]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | (environment or {}))

    def tell(self, **what):
        print(json.dumps(what), file=self.process.stdin, flush=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"an instance ended with {self.process.wait()}")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def all_do(instances, **what):
    """What each answers to the same line, which they hear at once."""
    for each in instances:
        each.tell(**what)
    return [each.answer() for each in instances]


def captured(net, inputs):
    """What runs the model as one CUDA graph; returns its answer on the device."""
    import torch

    for _ in range(3):
        net(inputs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = net(inputs)

    def replay():
        graph.replay()
        return answer

    return replay


def worker(model, batch, train, device, graph=False):
    """What one batch is."""
    import models
    import torch

    net, inputs = models.make(model, batch, device)
    if not train:
        net.eval()
        with torch.no_grad():
            forward = captured(net, inputs) if graph else lambda: net(inputs)

        def serve():
            with torch.no_grad():
                return forward().cpu()

        return serve
    optimizer = torch.optim.SGD(net.train().parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        loss = net(inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def run(work, seconds, rate, seed):
    choice = random.Random(seed)
    latencies, begin = [], time.monotonic()
    came = begin
    while came < begin + seconds:
        time.sleep(max(0, came - time.monotonic()))
        work()
        now = time.monotonic()
        latencies.append(1000 * (now - came))
        came = came + choice.expovariate(rate) if rate else now
    return {"batches": len(latencies), "rate": len(latencies) / (time.monotonic() - begin), "latencies_ms": latencies}


def main():
    work = None
    for line in sys.stdin:
        what = json.loads(line)
        if "model" in what:
            work = None  # the memory of the one before
            work = worker(device=sys.argv[1], **what)
            for _ in range(WARM_UP):
                work()
            print(json.dumps({"ready": what["model"]}), flush=True)
        else:
            print(json.dumps(run(work, **what)), flush=True)


if __name__ == "__main__":
    main()
