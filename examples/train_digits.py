#!/usr/bin/python3
"""Trains a small network on ten classes of images: a plain PyTorch script, but for five lines.

Its data set (training_script.yaml) is a folder with images.npy and labels.npy, as tools/make_training makes it.
"""
import os
import pathlib

import numpy
import sluice_elastic  # (1)
import torch

dataset = pathlib.Path(os.environ["JOB_DATASET"])
images = torch.from_numpy(numpy.load(dataset / "images.npy"))
labels = torch.from_numpy(numpy.load(dataset / "labels.npy"))
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(32 * 4 * 4, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

job = sluice_elastic.join(model, optimizer, samples=len(labels))  # (2)
for step in job.steps():  # (3) in place of the loops over epochs and batches
    mine = step.samples  # (4) the indices of this worker's part
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
    step.backward(loss)  # (5) in place of loss.backward()
    optimizer.step()
