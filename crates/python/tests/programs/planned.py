"""Process groups that run a plan."""

import os
import tempfile

import torch
import torch.distributed as dist

import toporing
import toporing.torch

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def total(group=None):
    x = torch.full((1000,), float(RANK + 1))
    dist.all_reduce(x, group=group)
    return float(x[0])


def main():
    plan = toporing.plan("dgx-a100", gpus=range(RANKS))
    dist.init_process_group("topo", pg_options=toporing.torch.Options(plan=plan))
    everyone = RANKS * (RANKS + 1) / 2
    assert total() == everyone
    # A part of the world has no plan.
    first = dist.new_group([0])
    if RANK == 0:
        assert total(first) == 1.0
    dist.barrier()
    dist.destroy_process_group()

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(plan.json)
        file.flush()
        os.environ["TOPO_PLAN"] = file.name
        # Another port may be taken meanwhile; all ranks have one parent.
        name = f"topo-planned-{os.getppid()}-{os.environ['MASTER_PORT']}"
        store = dist.FileStore(os.path.join(tempfile.gettempdir(), name), RANKS)
        dist.init_process_group("topo", store=store, rank=RANK, world_size=RANKS)
        assert total() == everyone
        dist.barrier()
        dist.destroy_process_group()


main()
