"""Collectives of torch.distributed on topo beside Gloo: batches in turn, in the same processes.

`peers.py ROUNDS SECONDS [OPERATION...]`; `cargo xtask torch-peers` runs it. SECONDS are those of a
batch at most. Each figure is the median of the rounds, each the slowest rank's mean of a batch, µs.
`sent`: bytes that all ranks together send through the loopback device in a call, by bytes of the
message; what ranks copy in memory is not in it.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import toporing.torch
from toporing.torch.backend import ALL_REDUCE

ROUNDS, SECONDS = int(sys.argv[1]), float(sys.argv[2])
WANTED = sys.argv[3:] or ["overheads", "all_reduce", "all_gather", "reduce_scatter"]
SIZES = [1 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]

dist.init_process_group("topo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
TOPO = dist.group.WORLD
GLOO = dist.new_group(list(range(RANKS)), backend="gloo")


def calls(operation, group, size):
    """The call for this size: bytes of the whole message."""
    count = size // 4
    if operation == "all_reduce":
        tensor = torch.zeros(count)
        return lambda: dist.all_reduce(tensor, group=group)
    whole, part = torch.zeros(count), torch.zeros(count // RANKS)
    if operation == "all_gather":
        return lambda: dist.all_gather_into_tensor(whole, part, group=group)
    if group is TOPO:
        return lambda: dist.reduce_scatter_tensor(part, whole, group=group)
    # Gloo has it for lists alone in most versions of torch.
    parts = list(whole.chunk(RANKS))

    def reduce_scatter():
        try:
            dist.reduce_scatter_tensor(part, whole, group=group)
        except RuntimeError:
            dist.reduce_scatter(part, parts, group=group)

    return reduce_scatter


def timed(call, times):
    dist.barrier(GLOO)
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times * 1e6


def medians(choices):
    """Times of choices in turn, median and least of the slowest rank's, µs."""
    counts = {}
    for name, call in choices.items():
        call()
        once = timed(call, 2) / 1e6
        count = torch.tensor([max(1, min(500, int(SECONDS / max(once, 1e-6))))])
        dist.broadcast(count, 0, group=GLOO)
        counts[name] = int(count)
    rounds = []
    for _ in range(ROUNDS):
        rounds.append([timed(call, counts[name]) for name, call in choices.items()])
    times = torch.tensor(rounds, dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX, group=GLOO)
    return times.median(0).values.tolist(), times.min(0).values.tolist()


def sent(call, size, times=5):
    """Bytes through the loopback device in a call, by bytes of the message."""
    def counter():
        try:
            with open("/sys/class/net/lo/statistics/tx_bytes") as file:
                return int(file.read())
        except OSError:
            return None

    call()
    dist.barrier(GLOO)
    before = counter()
    dist.barrier(GLOO)
    for _ in range(times):
        call()
    dist.barrier(GLOO)
    after = counter()
    dist.barrier(GLOO)
    return "" if None in (before, after) else f"{(after - before) / times / size:.2f}"


def show(*cells):
    if RANK == 0:
        print("| " + " | ".join(str(it) for it in cells) + " |", flush=True)


def overheads():
    tensor, other = torch.zeros(2), torch.zeros(2)
    run = dist.group.WORLD._get_backend(torch.device("cpu"))._comm.run
    address = tensor.data_ptr()
    times, least = medians({
        "runtime": lambda: run(ALL_REDUCE, address, address, 2, 8, 0),
        "topo": lambda: dist.all_reduce(tensor),
        "topo, async and wait": lambda: dist.all_reduce(tensor, async_op=True).wait(),
        "topo, future": lambda: dist.all_reduce(tensor, async_op=True).get_future().wait(),
        "gloo": lambda: dist.all_reduce(other, group=GLOO),
        "gloo, async and wait": lambda: dist.all_reduce(other, group=GLOO, async_op=True).wait(),
    })
    names = ["runtime", "topo", "topo, async and wait", "topo, future", "gloo", "gloo, async"]
    for name, median, minimum in zip(names, times, least):
        show(RANKS, "all_reduce of 8 B", name, f"{median:.1f}", f"{minimum:.1f}")


def main():
    titles = ["gloo", "topo", "ratio", "ratio of least", "gloo sent", "topo sent"]
    show("ranks", "operation", "bytes", *titles)
    for operation in WANTED:
        if operation == "overheads":
            overheads()
            continue
        product, count = 1.0, 0
        for size in SIZES:
            choices = {"gloo": calls(operation, GLOO, size), "topo": calls(operation, TOPO, size)}
            (gloo, topo), (least_gloo, least_topo) = medians(choices)
            ratios = f"{gloo / topo:.2f}", f"{least_gloo / least_topo:.2f}"
            moved = [sent(call, size) for call in choices.values()]
            show(RANKS, operation, size, f"{gloo:.1f}", f"{topo:.1f}", *ratios, *moved)
            product, count = product * gloo / topo, count + 1
        show(RANKS, operation, "geometric mean", "", "", f"{product ** (1 / count):.2f}", *3 * [""])
    dist.barrier(GLOO)
    dist.destroy_process_group()


if "OMP_NUM_THREADS" not in os.environ:
    sys.exit("set OMP_NUM_THREADS, equal for both")
main()
