"""Tiny models: Triton's `simple` example, which client examples expect, and two for measurements."""

import torch
from torch import nn


class AddSub(nn.Module):
    def forward(self, a, b):
        return a + b, a - b


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


class Chain(nn.Module):
    """50,000 operators that do next to nothing: what remains is the cost of an operator."""

    def forward(self, x):
        for _ in range(50_000):
            x = torch.neg(x)
        return x
