"""BERT-base, the encoder of Devlin et al. 2019: 12 layers, 768 wide, 12 heads, 110 M parameters.

Written so that tracing keeps batch and sequence length variable.
"""

import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):  # [batch, length, width] → [batch, heads, length, width / heads]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, bias):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.scale + bias, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Normalises after each residual sum, as the paper does."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, bias):
        x = self.norm1(x + self.attention(x, bias))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, vocabulary=30522, positions=512):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(width, heads, 4 * width) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        for table in (self.tokens, self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, input_ids, attention_mask):
        # One segment: next-sentence pairs are not asked for at inference.
        x = self.tokens(input_ids) + self.positions.weight[:input_ids.size(1)] + self.segments.weight[0]
        x = self.norm(x)
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pooler(x[:, 0]))
