"""Trains a model on topo and on Gloo: losses and parameters agree. `training.py ddp|fsdp`."""

import sys

import torch
import torch.distributed as dist
from torch import nn

import toporing.torch  # noqa: F401

STEPS = 20

dist.init_process_group("topo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(list(range(RANKS)), backend="gloo")


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


def batches():
    generator = torch.Generator().manual_seed(100 + RANK)
    return [torch.randn(16, 32, generator=generator)] * STEPS


def train(wrapped, parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    losses = []
    for batch in batches():
        loss = (wrapped(batch) - batch[:, :8]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def ddp(group):
    inner = model()
    wrapped = nn.parallel.DistributedDataParallel(inner, process_group=group)
    losses = train(wrapped, wrapped.parameters())
    return losses, [parameter.detach() for parameter in inner.parameters()]


def fsdp(group):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    inner = model()
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in inner:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(inner, mesh=mesh)
    losses = train(inner, inner.parameters())
    return losses, [parameter.full_tensor().detach() for parameter in inner.parameters()]


def main():
    kind = {"ddp": ddp, "fsdp": fsdp}[sys.argv[1]]
    try:
        ours, theirs = kind(dist.group.WORLD), kind(GLOO)
    except ImportError as error:
        print(f"not run: this version of torch lacks it: {error}")
        return dist.destroy_process_group()
    assert sum(ours[0][-5:]) < sum(ours[0][:5]), "the loss does not fall"
    worst = 0.0
    for one, other in zip(ours[0], theirs[0]):
        worst = max(worst, abs(one - other))
    for one, other in zip(ours[1], theirs[1]):
        worst = max(worst, float((one - other).abs().max()))
    # With two ranks there is one order of summation.
    limit = 0.0 if RANKS == 2 else 1e-5
    assert worst <= limit, f"differs by {worst}"
    if RANK == 0:
        print(f"largest difference of losses and parameters after {STEPS} steps: {worst:.3g}")
    dist.barrier()
    dist.destroy_process_group()


main()
