"""Two tiny models: Triton's `simple` example, which client examples expect, and one for tests."""

from torch import nn


class AddSub(nn.Module):
    def forward(self, a, b):
        return a + b, a - b


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
