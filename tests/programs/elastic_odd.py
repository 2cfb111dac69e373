#!/usr/bin/python3
"""A script with sluice_elastic, and with what its argument says.

    poison     the gradient of step 5 is NaN, its loss is not
    overflow   a parameter is infinite after step 5
    differ     rank 1 changes its parameters by itself
    scheduler  has one that is not joined
    norm       65 samples, batch normalization and sparse gradients
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import sluice_elastic  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)
odd = sys.argv[1]
if odd == "norm":
    model = torch.nn.Sequential(torch.nn.Embedding(100, 8, sparse=True), torch.nn.BatchNorm1d(8))
    inputs = torch.arange(65)
else:
    model = torch.nn.Sequential(torch.nn.Linear(8, 1))
    inputs = torch.randn(640, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
if odd == "scheduler":
    torch.optim.lr_scheduler.StepLR(optimizer, 10)
job = sluice_elastic.join(model, optimizer, samples=len(inputs))
for step in job.steps():
    optimizer.zero_grad()
    loss = (model(inputs[step.samples]) - 1).square().mean()
    if odd == "poison" and step.number == 5:
        loss = loss + torch.sqrt(0 * model[0].weight.sum())
    step.backward(loss)
    optimizer.step()
    if odd == "overflow" and step.number == 5:
        model[0].weight.data.mul_(1e30).mul_(1e30)
    if odd == "differ" and step.rank == 1:
        model[0].weight.data.mul_(1.01)
