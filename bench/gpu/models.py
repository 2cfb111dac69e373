"""ResNet-50, BERT-base and GPT-2 small in plain PyTorch, with random weights: the shapes are what costs time."""
import torch
from torch import nn

TOKENS = 128  # of a sequence


class Bottleneck(nn.Module):
    def __init__(self, inside, planes, stride):
        super().__init__()
        out = 4 * planes
        self.body = nn.Sequential(
            nn.Conv2d(inside, planes, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), nn.ReLU(),
            nn.Conv2d(planes, out, 1, bias=False), nn.BatchNorm2d(out),
        )
        same = inside == out and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for stage, (planes, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            layers.append(Bottleneck(inside, planes, 2 if stage > 0 and block == 0 else 1))
            inside = 4 * planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000))


class Transformer(nn.Module):
    """Twelve layers of 768. Causal: as GPT-2, norms first, and words for the last token; else as BERT."""

    def __init__(self, words, positions, causal):
        super().__init__()
        self.words = nn.Embedding(words, 768)
        self.positions = nn.Embedding(positions, 768)
        layer = lambda: nn.TransformerEncoderLayer(768, 12, 3072, 0.1, "gelu", batch_first=True, norm_first=causal)
        self.layers = nn.ModuleList(layer() for _ in range(12))
        self.norm = nn.LayerNorm(768)
        self.head = nn.Linear(768, words if causal else 768, bias=False)
        ahead = torch.full((TOKENS, TOKENS), float("-inf")).triu(1) if causal else None
        self.register_buffer("ahead", ahead)

    def forward(self, tokens):
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(place)
        for layer in self.layers:
            x = layer(x, self.ahead)
        return self.head(self.norm(x[:, -1 if self.ahead is not None else 0]))


def make(name, batch, device):
    """(model, a batch for it) on the device."""
    torch.manual_seed(1)
    if name == "resnet50":
        return resnet50().to(device), torch.randn(batch, 3, 224, 224, device=device)
    net = {"bert": lambda: Transformer(30522, 512, False), "gpt2": lambda: Transformer(50257, 1024, True)}[name]()
    return net.to(device), torch.randint(30000, (batch, TOKENS), device=device)


NAMES = ("resnet50", "bert", "gpt2")
