#!/usr/bin/python3
"""Prints the parts that sluice_elastic's rule gives each rank, for some sizes."""
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from sluice_elastic.samples import shard, step_size  # noqa: E402

for samples, batch, world, least in itertools.product((1, 2, 3, 65, 67, 100), (1, 2, 3, 7, 64), (1, 2, 3, 8), (1, 2)):
    first = 0
    while first < samples:
        count = step_size(first, batch, samples)
        for rank in range(world):
            print(*shard(first, count, rank, world, least))
        first += count
