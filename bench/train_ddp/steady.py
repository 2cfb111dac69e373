#!/usr/bin/python3
"""A training script that never ends, for bench/colocate: it says in JOB_ARTIFACTS/progress how many samples it
has trained, and when.

JOB_DATASET names the folder of images and labels.
"""
import os
import pathlib
import time

import numpy
import torch

BATCH = 64

torch.set_num_threads(1)
dataset = pathlib.Path(os.environ["JOB_DATASET"])
images, labels = (torch.from_numpy(numpy.load(dataset / f"{name}.npy")) for name in ("images", "labels"))
module = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(32 * 4 * 4, 10))
optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
progress = os.path.join(os.environ["JOB_ARTIFACTS"], "progress")
reported = time.monotonic()
step = 0
while True:
    order = torch.arange(step * BATCH, (step + 1) * BATCH) % len(images)
    optimizer.zero_grad(set_to_none=True)
    torch.nn.functional.cross_entropy(module(images[order]), labels[order]).backward()
    optimizer.step()
    step += 1
    if (now := time.monotonic()) - reported >= 0.1:
        with open(progress + ".new", "w") as f:
            f.write(f"{now} {step * BATCH}\n")
        os.rename(progress + ".new", progress)
        reported = now
