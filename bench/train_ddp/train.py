#!/usr/bin/python3
"""One rank of torch's DistributedDataParallel over Gloo: the reference of bench/train.cc.

    train.py MODULE DATASET BATCH SECONDS

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are torchrun's. Rank 0 prints samples per second, after a warm-up.
"""
import os
import pathlib
import sys
import time

import numpy
import torch
import torch.distributed as dist


class WithLoss(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *arrays):
        return self.module.loss(*arrays)


def main():
    path, dataset, batch, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    arrays = [torch.from_numpy(numpy.load(f, mmap_mode="c")) for f in sorted(dataset.glob("*.npy"))]
    module = torch.nn.parallel.DistributedDataParallel(WithLoss(torch.jit.load(path).train()))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02, momentum=0.9)
    samples = len(arrays[0])

    def step(number):
        order = torch.arange(number * batch + rank, (number + 1) * batch, world) % samples
        optimizer.zero_grad(set_to_none=True)
        loss = module(*(a.index_select(0, order) for a in arrays))
        loss.backward()
        optimizer.step()
        return loss.item()

    number = 0
    for _ in range(20):
        step(number)
        number += 1
    dist.barrier()
    begun, first = time.monotonic(), number
    going = torch.ones(1)
    while going.item() > 0:
        for _ in range(10):
            loss = step(number)
            number += 1
        going[0] = float(time.monotonic() - begun < seconds)
        dist.broadcast(going, 0)
    if rank == 0:
        assert loss == loss, "the loss is not a number"
        print((number - first) * batch / (time.monotonic() - begun))


if __name__ == "__main__":
    main()
