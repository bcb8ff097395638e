"""Steps of training on topo under PyTorch's profiler: `steps.py ddp|fsdp|tp FOLDER STEPS`.

Each rank writes `FOLDER/rankN.json`, the trace of its steps; `cargo xtask torch-steps` runs it on hosts
with limited networks and compares the traces with what `topo step` predicts.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.distributed.device_mesh import init_device_mesh
from torch.profiler import ProfilerActivity, profile, schedule

import toporing.torch  # noqa: F401

KIND, FOLDER, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3])
WARM_UP = 2
WIDTH, LAYERS, BATCH = 960, 6, 256

torch.set_num_threads(1)
dist.init_process_group("topo", timeout=timedelta(seconds=120))
RANK, RANKS = dist.get_rank(), dist.get_world_size()


class Block(nn.Module):
    """Two layers, as those of a transformer after attention."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def ddp(model):
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=16)


def fsdp(model):
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def tp(model):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (RANKS,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in model:
        parallelize_module(block, mesh, plan)
    return model


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(LAYERS // 2)])
    wrapped = {"ddp": ddp, "fsdp": fsdp, "tp": tp}[KIND](model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    # All ranks of tensor parallelism have the same batch.
    torch.manual_seed(100 if KIND == "tp" else 100 + RANK)
    batch = torch.randn(BATCH, WIDTH)

    def step():
        wrapped(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = schedule(wait=0, warmup=WARM_UP, active=STEPS, repeat=1)
    # Other threads end the events of calls.
    threads = _ExperimentalConfig(profile_all_threads=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=steps,
        record_shapes=True,
        experimental_config=threads,
    ) as profiler:
        for _ in range(WARM_UP + STEPS):
            step()
            profiler.step()
    profiler.export_chrome_trace(f"{FOLDER}/rank{RANK}.json")
    dist.barrier()
    dist.destroy_process_group()


main()
