"""The gradient noise scale φ = tr(Σ) / |G|² in samples (McCandlish et al., 2018, appendix A)."""
import math

KEPT = 0.95  # of the average, at each step
LEAST_STEPS = 10


class NoiseScale:
    def __init__(self):
        self._square = self._variance = 0.0
        self._steps = 0

    def add(self, small, small_square, big, big_square):
        """small, big: samples of a worker and of the step; the squares are |g|² of their mean gradients."""
        if not big > small > 0:
            return
        square = (big * big_square - small * small_square) / (big - small)
        variance = (small_square - big_square) / (1 / small - 1 / big)
        if not math.isfinite(square + variance):
            return
        self._square = KEPT * self._square + (1 - KEPT) * square
        self._variance = KEPT * self._variance + (1 - KEPT) * variance
        self._steps += 1

    def value(self):
        """0 while it is unknown."""
        if self._steps < LEAST_STEPS or self._square <= 0:
            return 0.0
        return min(max(self._variance / self._square, 0.1), 1e7)
