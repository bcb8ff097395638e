"""Each collective of torch.distributed on topo, beside Gloo: `collectives.py [CASE...]`.

Integers are equal to the bit, floats up to the order of summation.
"""

import torch
import torch.distributed as dist

import toporing
import toporing.torch
from cases import case, run

dist.init_process_group("topo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()
TOPO = dist.group.WORLD
GLOO = dist.new_group(list(range(RANKS)), backend="gloo")
Op = dist.ReduceOp


def values(count, dtype=torch.float32, rank=RANK):
    """Values of a rank that differ in each place."""
    generator = torch.Generator().manual_seed(1000 * rank + count)
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    # Products of four stay small.
    return torch.randint(0, 5, (count,), generator=generator).to(dtype)


def same(found, expected, what):
    """Equal, or for floats nearly equal."""
    assert found.dtype == expected.dtype and found.shape == expected.shape, what
    if not found.dtype.is_floating_point:
        assert torch.equal(found, expected), f"{what}: {found} expected {expected}"
        return
    tolerance = {torch.float64: 1e-13, torch.float32: 1e-5, torch.float16: 1e-2}
    limit = tolerance.get(found.dtype, 5e-2)
    close = torch.allclose(found.double(), expected.double(), rtol=limit, atol=limit)
    assert close, f"{what}: {found} expected {expected}"


def beside(call, *shapes, what=""):
    """Calls with clones of tensors on both backends and compares the tensors afterwards."""
    results = []
    for group in (TOPO, GLOO):
        tensors = [shape.clone() for shape in shapes]
        call(group, *tensors)
        results.append(tensors)
    for found, expected in zip(*results):
        same(found, expected, what)


@case
def all_reduce_types_and_operations():
    types = [torch.int8, torch.uint8, torch.int32, torch.int64]
    floats = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for dtype in types + floats:
        for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX):
            for count in (1, 7, 1000):
                call = lambda group, x: dist.all_reduce(x, op, group=group)
                beside(call, values(count, dtype), what=f"{dtype} {op} {count}")


@case
def all_reduce_average():
    x = values(100)
    expected = sum(values(100, rank=rank) for rank in range(RANKS)) / RANKS
    dist.all_reduce(x, Op.AVG)
    same(x, expected, "average")


@case
def all_reduce_short_integers():
    x = values(1001, torch.int16) * 1000
    expected = sum(values(1001, torch.int16, rank) * 1000 for rank in range(RANKS))
    dist.all_reduce(x)
    same(x, expected.to(torch.int16), "int16")


@case
def all_reduce_bits():
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        all_values = [values(99, dtype, rank) * 17 + rank for rank in range(RANKS)]
        for op, name in ((Op.BAND, "and"), (Op.BOR, "or"), (Op.BXOR, "xor")):
            x = all_values[RANK].clone()
            expected = all_values[0].clone()
            for other in all_values[1:]:
                expected = getattr(expected, f"__{name}__")(other)
            dist.all_reduce(x, op)
            same(x, expected, f"{dtype} {name}")


@case
def all_reduce_truth():
    all_values = torch.stack([values(50, torch.bool, rank) for rank in range(RANKS)])
    for op, expected in ((Op.MAX, all_values.any(0)), (Op.MIN, all_values.all(0)),
                         (Op.SUM, all_values.any(0)), (Op.PRODUCT, all_values.all(0))):
        x = values(50, torch.bool)
        dist.all_reduce(x, op)
        same(x, expected, f"bool {op}")


@case
def strided_tensors():
    x = torch.arange(24.0).reshape(4, 6).t()[1:] + RANK
    beside(lambda group, x: dist.broadcast(x, 1, group=group), x, what="broadcast")
    for is_async in (False, True):
        y = (torch.arange(24.0).reshape(4, 6) + RANK).t()[1:]
        work = dist.all_reduce(y, async_op=is_async)
        if is_async:
            work.wait()
        expected = torch.arange(24.0).reshape(4, 6).t()[1:] * RANKS + sum(range(RANKS))
        same(y, expected, "strided")
    wide = torch.zeros(2 * RANKS, 5)[:, ::2]
    dist.all_gather_into_tensor(wide, torch.full((2, 3), float(RANK)))
    assert [int(row[0]) for row in wide] == [at // 2 for at in range(2 * RANKS)], wide


@case
def all_reduce_nothing_and_much():
    dist.all_reduce(torch.empty(0))
    for count in (1 << 18, (1 << 20) + 3):
        beside(lambda group, x: dist.all_reduce(x, group=group), values(count), what=str(count))


@case
def background_and_futures():
    xs = [torch.full((8,), float(at + RANK)) for at in range(20)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    for work in works:
        work.wait()
    for at, x in enumerate(xs):
        same(x, torch.full((8,), float(at * RANKS + sum(range(RANKS)))), "background")
    x = torch.ones(8)
    future = dist.all_reduce(x, async_op=True).get_future()
    assert torch.equal(future.then(lambda it: it.value()[0] * 2).wait(), torch.full((8,), 2.0 * RANKS))
    x = torch.ones(8)
    work = dist.all_reduce(x, async_op=True)
    del work
    dist.barrier()
    assert torch.equal(x, torch.full((8,), float(RANKS)))


@case
def all_gather_kinds():
    def into(group, x, out):
        dist.all_gather_into_tensor(out, x, group=group)

    def lists(group, x, out):
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, x, group=group)
        out.copy_(torch.cat(parts))

    def views(group, x, out):
        dist.all_gather(list(out.chunk(RANKS)), x, group=group)

    for dtype in (torch.float32, torch.int16, torch.bool):
        for count in (1, 33, 4096):
            shapes = (values(count, dtype), torch.zeros(count * RANKS, dtype=dtype))
            if dtype is not torch.int16:
                beside(lists, *shapes, what="lists")
                beside(views, *shapes, what="views")
                beside(into, *shapes, what="into")
            else:
                into(TOPO, *shapes)
                expected = torch.cat([values(count, dtype, rank) for rank in range(RANKS)])
                same(shapes[1], expected, "int16")


@case
def reduce_scatter_kinds():
    source = values(12 * RANKS)
    total = sum(values(12 * RANKS, rank=rank) for rank in range(RANKS))
    expected = total.chunk(RANKS)[RANK]
    out = torch.empty(12)
    dist.reduce_scatter_tensor(out, source)
    same(out, expected, "tensor")
    for parts in (list(source.chunk(RANKS)), [part.clone() for part in source.chunk(RANKS)]):
        out = torch.empty(12)
        dist.reduce_scatter(out, parts)
        same(out, expected, "lists")
    dist.reduce_scatter_tensor(out, source, Op.AVG)
    same(out, expected / RANKS, "average")


@case
def roots():
    for root in range(RANKS):
        beside(lambda group, x: dist.broadcast(x, root, group=group), values(77), what="broadcast")
        x = values(77)
        dist.reduce(x, root)
        if RANK == root:
            same(x, sum(values(77, rank=rank) for rank in range(RANKS)), "reduce")
        else:
            same(x, values(77), "reduce leaves other ranks alone")


@case
def gather_and_scatter():
    for root in range(RANKS):
        parts = [torch.empty(9) for _ in range(RANKS)] if RANK == root else None
        dist.gather(values(9), parts, root)
        for rank, part in enumerate(parts or []):
            same(part, values(9, rank=rank), "gather")
        parts = [values(9, rank=10 + rank) for rank in range(RANKS)] if RANK == root else None
        out = torch.empty(9)
        dist.scatter(out, parts, root)
        same(out, values(9, rank=10 + RANK), "scatter")


@case
def all_to_all_kinds():
    single = lambda group, x, out: dist.all_to_all_single(out, x, group=group)
    beside(single, values(3 * RANKS), torch.zeros(3 * RANKS), what="equal")
    # Rank r sends r + to + 1 rows to each rank.
    sends = [RANK + to + 1 for to in range(RANKS)]
    receives = [since + RANK + 1 for since in range(RANKS)]
    split = lambda group, x, out: dist.all_to_all_single(out, x, receives, sends, group=group)
    shapes = (values(2 * sum(sends)).view(-1, 2), torch.zeros(sum(receives), 2))
    beside(split, *shapes, what="unequal")
    parts = [torch.full((RANK + to + 1,), 10.0 * RANK + to) for to in range(RANKS)]
    rooms = [torch.empty(since + RANK + 1) for since in range(RANKS)]
    dist.all_to_all(rooms, parts)
    for since, room in enumerate(rooms):
        same(room, torch.full((since + RANK + 1,), 10.0 * since + RANK), "lists")


@case
def objects():
    found = [None] * RANKS
    dist.all_gather_object(found, {"rank": RANK, "text": "x" * RANK})
    assert found == [{"rank": rank, "text": "x" * rank} for rank in range(RANKS)]
    found = [{"root": 0} if RANK == 0 else None, RANK]
    dist.broadcast_object_list(found, 0)
    assert found == [{"root": 0}, 0]
    out = [None]
    dist.scatter_object_list(out, [f"to {at}" for at in range(RANKS)] if RANK == 0 else None, 0)
    assert out == [f"to {RANK}"]
    found = [None] * RANKS if RANK == 0 else None
    dist.gather_object(RANK * 10, found, 0)
    assert found is None or found == [10 * rank for rank in range(RANKS)]


@case
def messages():
    other = RANK ^ 1
    if RANK % 2 == 0:
        dist.send(torch.full((100_000,), float(RANK)), other)
    else:
        x = torch.empty(100_000)
        assert dist.recv(x, other) == other
        assert bool((x == other).all())
    # Any order of sends and receives on both sides, larger than any buffer in between.
    count = 1_000_000
    for order in (0, 1):
        x, y = torch.full((count,), float(RANK)), torch.empty(count)
        sends = dist.P2POp(dist.isend, x, other)
        receives = dist.P2POp(dist.irecv, y, other)
        flip = (RANK + order) % 2
        both = [receives, sends] if flip else [sends, receives]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        assert bool((y == other).all())
    x, y = torch.full((count,), float(RANK)), torch.empty(count)
    sending = dist.isend(x, other)
    receiving = dist.irecv(y, other)
    receiving.wait()
    sending.wait()
    assert bool((y == other).all())
    # Several messages between a pair keep their order.
    ys = [torch.empty(3) for _ in range(5)]
    works = [dist.isend(torch.full((3,), float(at)), other) for at in range(5)]
    works += [dist.irecv(y, other) for y in ys]
    for work in reversed(works):
        work.wait()
    assert [int(y[0]) for y in ys] == list(range(5))


@case
def messages_around_a_ring():
    y = torch.empty(50_000)
    works = [dist.isend(torch.full((50_000,), float(RANK)), (RANK + 1) % RANKS)]
    works.append(dist.irecv(y, (RANK - 1) % RANKS))
    for work in works:
        work.wait()
    assert bool((y == (RANK - 1) % RANKS).all())


@case
def messages_beside_collectives():
    # The message is sent after a collective that the receive does not hold up.
    y, x = torch.empty(20_000), torch.full((20_000,), float(RANK))
    receiving = dist.irecv(y, (RANK - 1) % RANKS)
    dist.all_reduce(x)
    sending = dist.isend(x + RANK, (RANK + 1) % RANKS)
    receiving.wait()
    sending.wait()
    assert bool((y == sum(range(RANKS)) + (RANK - 1) % RANKS).all())
    # A collective in the background, which another rank calls after it has received.
    if RANK == 0:
        summing = dist.all_reduce(x, async_op=True)
        dist.isend(y, 1).wait()
        summing.wait()
    else:
        if RANK == 1:
            assert dist.recv(y, 0) == 0
        dist.all_reduce(x)
    assert bool((x == RANKS * sum(range(RANKS))).all())


@case
def receive_from_any():
    if RANK == 0:
        sources = set()
        for _ in range(RANKS - 1):
            x = torch.empty(10)
            source = dist.recv(x)
            assert bool((x == source).all())
            sources.add(source)
        assert sources == set(range(1, RANKS))
    else:
        dist.send(torch.full((10,), float(RANK)), 0)
    dist.barrier()
    # Started before anything is sent, while the sends are started one after the other.
    xs = [torch.empty(100_000) for _ in range(RANKS - 1)]
    if RANK == 0:
        works = [dist.irecv(x) for x in xs]
        for work in works:
            work.wait()
        assert sorted(int(x[-1]) for x in xs) == list(range(1, RANKS))
    else:
        dist.isend(torch.full((100_000,), float(RANK)), 0).wait()
    # A group that does not begin with rank 0 counts its own ranks; torch gives those of the job.
    last = dist.new_group([RANKS - 1, 0])
    if RANK == 0:
        x = torch.empty(1)
        assert dist.recv(x, group=last) == RANKS - 1 and x[0] == RANKS - 1
    elif RANK == RANKS - 1:
        dist.send(torch.full((1,), float(RANK)), 0, group=last)
    if last != dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(last)


@case
def tags_match_messages():
    if RANK > 1:
        return
    other = RANK ^ 1
    tags = [5, 1, 3]
    sent = [torch.full((100,), float(RANK * 10 + tag)) for tag in tags]
    got = {tag: torch.zeros(100) for tag in tags}
    # The receives are started in another order than the sends.
    receives = [dist.irecv(got[tag], other, tag=tag) for tag in sorted(tags)]
    sends = [dist.isend(x, other, tag=tag) for x, tag in zip(sent, tags)]
    for work in receives + sends:
        work.wait()
    for tag in tags:
        assert got[tag].eq(other * 10 + tag).all(), (tag, got[tag])
    # A receive from any rank takes the message of its tag.
    last = [torch.zeros(4), torch.zeros(4)]
    sends = [dist.isend(torch.full((4,), float(tag)), other, tag=tag) for tag in (7, 6)]
    assert dist.recv(last[0], tag=6) == other and dist.recv(last[1], tag=7) == other
    for work in sends:
        work.wait()
    assert last[0].eq(6).all() and last[1].eq(7).all()


@case
def coalescing():
    xs = [torch.full((8,), float(at + RANK)) for at in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for x in xs:
            dist.all_reduce(x)
    manager.wait()
    for at, x in enumerate(xs):
        same(x, torch.full((8,), float(at * RANKS + sum(range(RANKS)))), "coalesced")
    outs = [torch.empty(4 * RANKS) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for at, out in enumerate(outs):
            dist.all_gather_into_tensor(out, torch.full((4,), float(RANK + at)))
    manager.wait()
    for at, out in enumerate(outs):
        assert out.view(RANKS, 4)[:, 0].tolist() == [float(rank + at) for rank in range(RANKS)]


@case
def functional():
    import torch.distributed._functional_collectives as functional

    x = functional.all_reduce(torch.full((8,), float(RANK)), "sum", dist.group.WORLD)
    same(x + 0, torch.full((8,), float(sum(range(RANKS)))), "functional all_reduce")
    x = functional.all_gather_tensor(torch.full((2,), float(RANK)), 0, dist.group.WORLD)
    assert (x + 0).tolist() == [float(at // 2) for at in range(2 * RANKS)]
    x = functional.reduce_scatter_tensor(torch.ones(2 * RANKS), "sum", 0, dist.group.WORLD)
    assert (x + 0).tolist() == [float(RANKS)] * 2


@case
def groups():
    pair = dist.new_group([0, 1])
    rest = dist.new_group(list(range(RANKS)))
    x = torch.ones(4)
    if RANK < 2:
        dist.all_reduce(x, group=pair)
        assert bool((x == 2).all())
    dist.all_reduce(x, group=rest)
    dist.barrier(rest)
    dist.barrier()


@case
def meshes():
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (RANKS // 2, 2), mesh_dim_names=("outer", "inner"))
    x = torch.ones(4)
    dist.all_reduce(x, group=mesh.get_group("inner"))
    assert bool((x == 2).all())


@case
def threads_with_groups_of_their_own():
    import threading

    groups = [dist.new_group(list(range(RANKS))) for _ in range(3)]
    sums = [torch.full((1000,), float(RANK + at)) for at in range(3)]

    def work(at):
        for _ in range(20):
            x = torch.full((1000,), float(RANK + at))
            dist.all_reduce(x, group=groups[at])
            sums[at] = x

    threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, x in enumerate(sums):
        assert bool((x == at * RANKS + sum(range(RANKS))).all())


@case
def barriers():
    from datetime import timedelta

    dist.barrier()
    dist.barrier(async_op=True).wait()
    # Older versions of torch have it for Gloo alone.
    if not isinstance(dist.group.WORLD, toporing.torch.TopoProcessGroup):
        dist.monitored_barrier(timeout=timedelta(seconds=20))


@case
def wrong_arguments():
    for call in (lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), Op.MAX),
                 lambda: dist.broadcast(torch.ones(2).to_sparse(), 0),
                 lambda: dist.all_gather_into_tensor(torch.empty(3), torch.empty(2)),
                 lambda: dist.all_to_all_single(torch.empty(4), torch.empty(4), [9, 9], [2, 2])):
        try:
            call()
        except (ValueError, RuntimeError, NotImplementedError):
            continue
        raise AssertionError("a wrong argument was taken")
    dist.all_reduce(torch.ones(1))


run()
