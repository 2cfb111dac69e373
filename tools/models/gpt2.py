"""GPT-2 small, the decoder of Radford et al. 2019: 12 layers, 768 wide, 12 heads, 124 M parameters.

Answers the next token's logits. Written so that tracing keeps batch and sequence length variable.
"""

import math

import torch
from torch import nn


class Block(nn.Module):
    """Normalises before each part, with a causal mask."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x, future):
        split = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)]
        q, k, v = split
        weights = torch.softmax(q @ k.transpose(-1, -2) * self.scale + future, dim=-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x, future):
        x = x + self.attend(self.norm1(x), future)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt2(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, positions=1024):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("future", torch.full((positions, positions), -10000.0).triu(1))
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, input_ids):
        n = input_ids.size(1)
        x = self.tokens(input_ids) + self.positions.weight[:n]
        for block in self.blocks:
            x = block(x, self.future[:n, :n])
        return nn.functional.linear(self.norm(x[:, -1]), self.tokens.weight)
