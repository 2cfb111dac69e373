"""A model of models.py as a server of the Open Inference Protocol: serve_model.py MODEL DEVICE BATCH [graph]. On a CPU its
inputs are small, which is for trials. An image comes as bytes and is scaled on the device. `graph`: replays one CUDA graph.
"""
import sys

import torch

import models
from sluice_serve import serve

SIDE = {"cuda": 224, "cpu": 64}
TOKENS = {"cuda": models.TOKENS, "cpu": 16}


def made(name, device, batch):
    """The model, an input on the device, and the input's and output's type and shape."""
    net, _ = models.make(name, batch, device)
    if name == "resnet50":
        taken = ("UINT8", [batch, 3, SIDE[device], SIDE[device]])
        run = lambda x: net(x.float() / 255)
        x = torch.zeros(taken[1], dtype=torch.uint8, device=device)
    else:
        taken = ("INT64", [batch, TOKENS[device]])
        run = net
        x = torch.zeros(taken[1], dtype=torch.int64, device=device)
    net.eval()
    return run, x, taken, ("FP32", [batch, run(x).shape[1]])


def main():
    name, device, batch, *graph = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    run, x, taken, given = made(name, device, int(batch))
    for _ in range(5):
        run(x)
    answer = None
    if graph:
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            answer = run(x)

    def infer(sent):
        with torch.no_grad():  # of this thread
            x.copy_(sent)
            if not graph:
                return run(x).cpu()
            captured.replay()
            return answer.cpu()

    serve(infer, {"input": taken}, {"output": given})


main()
