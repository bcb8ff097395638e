"""Trains a model with the ranks that torchrun starts: `torchrun --nproc-per-node 2 train_ddp.py`."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import toporing.torch  # noqa: F401

dist.init_process_group("topo")  # was: dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(20):
    batch = torch.randn(32, 10)
    loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.all_reduce(loss.detach_(), dist.ReduceOp.AVG)
if dist.get_rank() == 0:
    print(f"loss {loss:.3f}")
dist.destroy_process_group()
