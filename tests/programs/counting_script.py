#!/usr/bin/python3
"""A script that knows torchrun's variables and nothing else: it counts to COUNT with the others, and goes on
from its own checkpoint in JOB_ARTIFACTS.

    counting_script.py COUNT
"""
import os
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
folder = os.environ["JOB_ARTIFACTS"]
files = [int(f[len("at-"):]) for f in os.listdir(folder) if f.startswith("at-")]
begin = torch.tensor([max(files, default=0)])
dist.broadcast(begin, 0)
print(f"rank {rank} of {world}, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}, from {int(begin)}", flush=True)
for number in range(int(begin), int(sys.argv[1])):
    ones = torch.ones(1)
    dist.all_reduce(ones)
    assert ones.item() == world
    time.sleep(0.01)
    if rank == 0 and number % 10 == 9:
        open(os.path.join(folder, f"at-{number + 1}"), "w").close()
