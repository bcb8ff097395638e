"""A group with a backend for each kind of device: `mixed.py [detail]`, with torch's debug mode."""

import os
import sys

if "detail" in sys.argv:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"

import torch
import torch.distributed as dist

import toporing.torch

if not toporing.torch._has_backends_in_python():
    print("not run: this version of torch has no backends in Python")
    sys.exit(0)
# No GPU is needed: nothing runs on the other backend.
dist.init_process_group("cpu:topo,cuda:gloo")
x = torch.ones(3)
dist.all_reduce(x)
assert x.tolist() == [dist.get_world_size()] * 3
work = dist.all_reduce(x, async_op=True)
work.wait()
found = [None] * dist.get_world_size()
dist.all_gather_object(found, dist.get_rank())
assert found == list(range(dist.get_world_size()))
dist.barrier()
dist.destroy_process_group()
