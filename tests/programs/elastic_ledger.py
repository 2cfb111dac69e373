#!/usr/bin/python3
"""A script with sluice_elastic whose parameters count how often each of 1,003 samples was used: a use in epoch e
counts 0.9^e, by a scheduler that counts steps."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import sluice_elastic  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
model = torch.nn.Module()
model.used = torch.nn.Parameter(torch.zeros(1003))
# A step of 10 samples moves each of them by 10 ÷ 10.
optimizer = torch.optim.SGD(model.parameters(), lr=10)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=101, gamma=0.9)
job = sluice_elastic.join(model, optimizer, samples=1003, scheduler=scheduler)
for step in job.steps():
    time.sleep(0.003)  # so that a worker joins before the end
    optimizer.zero_grad()
    step.backward(model.used[step.samples].mean())
    optimizer.step()
    scheduler.step()
