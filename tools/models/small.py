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


def thumbnails():
    """Classes of images of 32 x 32: some milliseconds each, so that a request of 64 takes no second."""
    widths, layers = (3, 32, 64, 64, 128, 128), []
    for i, (few, many) in enumerate(zip(widths, widths[1:])):
        layers += [nn.Conv2d(few, many, 3, stride=2 if i == 3 else 1, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10))
