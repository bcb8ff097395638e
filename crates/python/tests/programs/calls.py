"""What torch asks of calls beside their results: futures, polling, events, parts of groups, and the
kinds of calls that few programs make: `calls.py [CASE...]`."""

import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import toporing.torch
from cases import case, run

if not toporing.torch._has_backends_in_python():
    print("not run: this version of torch has no backends in Python")
    sys.exit(0)
dist.init_process_group("topo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
SUM = sum(range(RANKS))


def expect(found, expected, what=""):
    assert torch.equal(found, expected), f"{what}: {found} expected {expected}"


def raises(call, *words):
    try:
        call()
    except RuntimeError as error:
        assert all(word in str(error) for word in words), f"{error}, expected {words}"
        return
    raise AssertionError(f"no error with {words}")


@case
def a_callback_waits():
    def start(value):
        return dist.all_reduce(torch.full((4,), value), async_op=True)

    def again(future):
        # Three waits inside each other, as PowerSGD has two.
        inner = start(float(future.value()[0][0])).get_future().then(
            lambda it: start(float(it.value()[0][0])).get_future().wait()[0]
        )
        return inner.wait()

    for _ in range(3):
        found = start(1.0).get_future().then(again).wait()
        expect(found, torch.full((4,), float(RANKS**3)), "callback")


@case
def callbacks_keep_their_order():
    for _ in range(20):
        called, futures = [], []
        for number in range(8):
            work = dist.all_reduce(torch.ones(4), async_op=True)
            futures.append(work.get_future().then(lambda _, number=number: called.append(number)))
        # A thread that computes keeps others waiting for the interpreter.
        while len(called) < 8:
            sum(range(1000))
        assert called == sorted(called), called
        for future in futures:
            future.wait()


@case
def calls_of_a_callback_wait_for_their_turn():
    def again(future):
        time.sleep(0.005 * RANK)
        value = future.value()[0].clone()
        dist.all_reduce(value)
        return value

    starts = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(4)]
    for future in [it.get_future().then(again) for it in starts]:
        expect(future.wait(), torch.full((4,), float(RANKS**2)))


@case
def power_sgd():
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    state = power.PowerSGDState(None, 1, start_powerSGD_iter=2)
    model.register_comm_hook(state, power.powerSGD_hook)
    for _ in range(4):
        model(torch.ones(2, 64)).sum().backward()


@case
def polling():
    x = torch.full((8,), float(RANK))
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        pass
    assert work.is_success() and work.exception() is None
    expect(x, torch.full((8,), float(SUM)), "polled")
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    y = torch.empty(8)
    works = [dist.irecv(y, before), dist.isend(torch.full((8,), float(RANK)), after)]
    for work in works:
        work.wait()
        assert work.is_completed()
    expect(y, torch.full((8,), float(before)), "received")


@case
def events():
    def shapes(profiled, name):
        found = [it for it in profiled.function_events if it.name == f"topo:{name}"]
        assert all(it.is_async for it in found), name
        return [it.input_shapes for it in found]

    other = RANK ^ 1
    x, parts = torch.ones(3, 2), [torch.ones(5) for _ in range(RANKS)]
    with torch.autograd.profiler.profile(record_shapes=True) as profiled:
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.all_gather(parts, parts[0].clone())
        dist.broadcast(x, 0)
        dist.barrier()
        dist.reduce(torch.ones(2, dtype=torch.complex64), 0)
        sending = dist.isend(x, other)
        dist.recv(torch.ones(3, 2), other)
        sending.wait()
    assert shapes(profiled, "all_reduce") == [[[3, 2]], [[3, 2]]]
    assert shapes(profiled, "all_gather") == [[[5]]]
    assert shapes(profiled, "broadcast") == [[[3, 2]]]
    assert shapes(profiled, "reduce") == [[[2, 2]]]
    assert shapes(profiled, "send") == shapes(profiled, "recv") == [[[3, 2]]]
    assert len(shapes(profiled, "barrier")) == 1


@case
def parts_of_a_group():
    halves = [[0, 1], list(range(2, RANKS))] if RANKS > 2 else [[1, 0]]
    group = dist.split_group(None, halves)
    x = torch.full((3,), float(RANK))
    dist.all_reduce(x, group=group)
    expect(x, torch.full((3,), float(sum(halves[RANK // 2]))), "half")
    # The same again, and a part without most ranks.
    dist.barrier(dist.split_group(None, halves))
    alone = dist.split_group(None, [[0]])
    assert (alone is dist.GroupMember.NON_GROUP_MEMBER) == (RANK != 0)


@case
def complex_numbers():
    x = torch.full((3,), complex(RANK, 1), dtype=torch.complex128)
    dist.reduce(x, 1)
    if RANK == 1:
        expect(x, torch.full((3,), complex(SUM, RANKS), dtype=torch.complex128), "reduce")
    made = torch.zeros(2, dtype=torch.complex64)
    dist.reduce_scatter_tensor(made, torch.full((2 * RANKS,), 1 + 2j, dtype=torch.complex64))
    expect(made, torch.full((2,), RANKS * (1 + 2j), dtype=torch.complex64), "reduce_scatter")


@case
def unequal_parts():
    # Twice, with other memory for inputs and outputs that are not contiguous.
    for stride in (1, 2):
        parts = [torch.full((at + 1,), float(RANK + at)) for at in range(RANKS)]
        before = [part.clone() for part in parts]
        made = torch.zeros(stride * (RANK + 1))[::stride]
        dist.reduce_scatter(made, parts)
        expect(made, torch.full((RANK + 1,), float(SUM + RANKS * RANK)), "reduce_scatter")
        for part, kept in zip(parts, before):
            expect(part, kept, "input")


@case
def splits_on_some_ranks():
    x, made = torch.full((2 * RANKS,), float(RANK)), torch.empty(2 * RANKS)
    splits = [2] * RANKS if RANK else None
    dist.all_to_all_single(made, x, splits, splits)
    expect(made, torch.arange(RANKS).repeat_interleave(2).float(), "all_to_all")


@case
def empty_splits():
    # Each rank sends to rank 0 alone. Twice: then all ranks are connected.
    for _ in range(2):
        x, made = torch.full((3,), float(RANK)), torch.empty(3 * RANKS if RANK == 0 else 0)
        received = [3 if RANK == 0 else 0] * RANKS
        dist.all_to_all_single(made, x, received, [3] + [0] * (RANKS - 1))
        if RANK == 0:
            expect(made, torch.arange(RANKS).repeat_interleave(3).float(), "all_to_all")


@case
def messages_match_no_collective():
    """The messages are sent before collectives that move blocks as long, and received after."""
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    every, own = torch.arange(RANKS).float(), torch.full((1,), float(RANK))

    def lists(of, root):
        return list(of.split(1)) if RANK == root else None

    def all_to_all_single(made):
        dist.all_to_all_single(made, own.repeat(RANKS))

    def all_to_all(made):
        dist.all_to_all(list(made.split(1)), list(own.repeat(RANKS).split(1)))

    def gather(made):
        for root in range(RANKS):
            dist.gather(own, lists(made, root), root)

    def scatter(made):
        for root in range(RANKS):
            dist.scatter(made[root : root + 1], lists(own.repeat(RANKS), root), root)

    for call in (all_to_all_single, all_to_all, gather, scatter):
        made, received = torch.empty(RANKS), torch.empty(1)
        sending = dist.isend(torch.full((1,), -1.0), after)
        call(made)
        dist.recv(received, before)
        sending.wait()
        expect(made, every, call.__name__)
        expect(received, torch.full((1,), -1.0), f"message beside {call.__name__}")


@case
def threads_of_one_group():
    """Threads wait for each other, and none may keep the interpreter meanwhile."""
    threads, messages, errors = 4, 200, []

    def exchange():
        try:
            for _ in range(messages):
                if RANK == 0:
                    dist.send(torch.ones(1), 1)
                elif RANK == 1:
                    dist.recv(torch.empty(1), 0)
        except RuntimeError as error:
            errors.append(error)

    running = [threading.Thread(target=exchange) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not errors, errors[0]


@case
def empty_messages():
    if RANK == 0:
        sources = {dist.recv(torch.empty(0)) for _ in range(1, RANKS)}
        assert sources == set(range(1, RANKS)), sources
    else:
        dist.send(torch.empty(0), 0)


@case
def sparse_sums():
    # Rank r has elements 0 to r, the first twice; rank 0 of the second has none.
    for first in (0, 1):
        at = [0, *range(RANK + 1)] if RANK >= first else []
        values = torch.ones(len(at), 2)
        x = torch.sparse_coo_tensor(torch.tensor([at]).long(), values, (RANKS, 2))
        dist.all_reduce(x)
        expected = torch.zeros(RANKS, 2)
        for rank in range(first, RANKS):
            expected[: rank + 1] += 1
            expected[0] += 1
        expect(x.to_dense(), expected, "sparse")


@case
def lists_without_a_tensor_of_each_rank():
    one, behind = torch.zeros(2, 4)
    own = torch.ones(4)
    lists = ([one], [one] * (RANKS + 1))
    for parts in lists:
        for call in (
            lambda: dist.all_gather(parts, own),
            lambda: dist.gather(own, parts, dst=RANK),
            lambda: dist.scatter(own, parts, src=RANK),
            lambda: dist.reduce_scatter(own, parts),
            lambda: dist.all_to_all(parts, [own] * RANKS),
            lambda: dist.all_to_all([own] * RANKS, parts),
        ):
            try:
                call()
            except (ValueError, RuntimeError) as error:
                assert "the list has" in str(error), error
            else:
                raise AssertionError(f"a list of {len(parts)} tensors was taken")
    expect(behind, torch.zeros(4), "memory behind a short list")


@case
def late_barriers():
    group = dist.new_group(timeout=timedelta(seconds=1))
    if RANK == 0:
        raises(lambda: dist.barrier(group), " Timed out ")
    dist.barrier()
    limit = timedelta(seconds=1)
    if RANK == 0:
        failure = "Rank 1 failed to pass monitoredBarrier in 1000 ms"
        raises(lambda: dist.monitored_barrier(timeout=limit), failure)
    elif RANK != 1:
        text = f"Rank {RANK} successfully reached monitoredBarrier, but received errors"
        raises(lambda: dist.monitored_barrier(timeout=limit), text)


run()
