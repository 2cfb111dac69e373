"""Whether numbers are sound: finite, and the same on all ranks."""
import math

import torch

TOLERANCE = 1e-3  # of a parameter's own size; what rounding alone adds up to is far below
COMPARED = 4096  # numbers of all parameters together, other ones at each comparison


def all_finite(tensor):
    if tensor.numel() == 0 or not tensor.is_floating_point():
        return True
    if tensor.dtype == torch.float16:  # which torch's CPU kernels do not compare
        tensor = tensor.float()
    return all(math.isfinite(float(bound)) for bound in torch.aminmax(tensor.detach()))


def not_finite(named):
    """Returns the name of the first tensor with a number that is not finite; None if there is none."""
    return next((name for name, t in named if not all_finite(t)), None)


def nan_in(named):
    """Returns the name of the first tensor with NaN; None if there is none."""
    return next((name for name, t in named
                 if torch.is_tensor(t) and t.is_floating_point() and bool(t.isnan().any())), None)


class Comparison:
    """Some numbers of each parameter, with their squares, which the ranks sum in place."""

    def __init__(self, named, turn):
        """turn: which numbers; the same on all ranks."""
        named = [(name, p) for name, p in named if p.is_floating_point()]
        self._names, pieces = [], []
        for name, p in named:
            flat = p.detach().reshape(-1)
            stride = -(-flat.numel() // max(1, COMPARED // len(named)))
            piece = flat[turn % max(1, stride)::max(1, stride)]
            self._names.append((name, piece.numel(), torch.finfo(p.dtype).eps))
            pieces.append(piece.to("cpu", torch.float64))
        mine = torch.cat(pieces)
        self.sums = torch.cat([mine, mine * mine])

    def differing(self, world):
        """Returns the name of a parameter that is not the same on all ranks; None if all agree."""
        mean, square = (self.sums / world).chunk(2)
        spread = (square - mean * mean).clamp(min=0).sqrt()
        sizes = [count for _, count, _ in self._names]
        for (name, count, eps), m, s in zip(self._names, mean.split(sizes), spread.split(sizes)):
            if count > 0 and bool((s > max(TOLERANCE, 8 * eps) * (m.abs() + m.square().mean().sqrt())).any()):
                return name
        return None
