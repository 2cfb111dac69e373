#!/usr/bin/python3
"""A script with sluice_elastic whose parameters count how often each of 1,000 samples was used."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import sluice_elastic  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
model = torch.nn.Module()
model.used = torch.nn.Parameter(torch.zeros(1000))
# A step of 10 samples moves each of them by 10 ÷ 10.
optimizer = torch.optim.SGD(model.parameters(), lr=10)
job = sluice_elastic.join(model, optimizer, samples=1000)
for step in job.steps():
    optimizer.zero_grad()
    step.backward(model.used[step.samples].mean())
    optimizer.step()
