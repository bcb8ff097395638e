"""Collectives on arrays: `arrays.py RANKS` starts the other ranks itself."""

import array
import contextlib
import multiprocessing
import os
import sys
import time

import toporing

# Descriptors of a communicator whose ranks are processes of a host, after its first collective:
# three of memory for the others, the bootstrap's listener, its connections with both neighbors, and
# two that its thread waits for. A split gathers, with two more plans that share memory.
# Every communicator of a process shares one of each peer's process.
DESCRIPTORS, OF_SPLITS = 8, 2


def total(values, rank, ranks):
    return [sum(value + other for other in range(ranks)) for value in values]


def expect(found, expected):
    assert list(found) == list(expected), f"{list(found)} expected {list(expected)}"


def work(identity, rank, ranks):
    before = len(opened())
    with toporing.Communicator(identity, rank, ranks) as comm:
        assert (comm.rank, comm.ranks) == (rank, ranks)
        descriptors(comm, before)
        for code in "bhiqfd":
            values = array.array(code, [value + rank for value in range(8)])
            comm.all_reduce(values)
            expect(values, total(range(8), rank, ranks))
        out = array.array("i", [0] * 8)
        comm.all_reduce(array.array("i", [rank] * 8), out, op="max")
        expect(out, [ranks - 1] * 8)
        comm.reduce(out, 0)
        out = array.array("i", [rank] * 2)
        comm.broadcast(out, ranks - 1)
        expect(out, [ranks - 1] * 2)
        gathered = bytearray(4 * ranks)
        comm.all_gather(bytes([rank] * 4), gathered)
        expect(gathered, [at // 4 for at in range(4 * ranks)])
        part = array.array("f", [0.0] * 2)
        comm.reduce_scatter(array.array("f", range(2 * ranks)), part)
        expect(part, [ranks * (2 * rank + at) for at in range(2)])
        moved = bytearray(ranks)
        comm.all_to_all(bytes([10 * rank + to for to in range(ranks)]), moved)
        expect(moved, [10 * since + rank for since in range(ranks)])
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        room = array.array("q", [0] * 1000)
        comm.exchange(array.array("q", [rank] * 1000), after, room, before)
        expect(room, [before] * 1000)
        if rank == 0:
            comm.send(b"hello", 1)
        elif rank == 1:
            room = bytearray(5)
            comm.receive(room, 0)
            assert bytes(room) == b"hello"
        comm.barrier()
        half = comm.split(rank % 2)
        values = array.array("i", [rank])
        half.all_reduce(values)
        expect(values, [sum(range(rank % 2, ranks, 2))])
        half.close()
        # 16-bit floats have no name in the buffer protocol of arrays.
        halves = array.array("H", [0x3F80] * 3)
        comm.all_reduce(halves, type="bf16")
        assert halves[0] == {2: 0x4000, 4: 0x4080}[ranks]
        for wrong in (lambda: comm.all_reduce(b"read-only"),
                      lambda: comm.all_reduce(array.array("i", [1]), op="concat"),
                      lambda: comm.all_reduce(array.array("i", [1]), array.array("i", [1, 2])),
                      lambda: comm.all_gather(b"12", bytearray(3)),
                      lambda: comm.broadcast(bytearray(1), ranks)):
            try:
                wrong()
            except (ValueError, TypeError):
                continue
            raise AssertionError("a wrong argument was taken")
        from_any(comm)
        with_numpy(comm)


def descriptors(comm, before):
    """Communicators hold few descriptors, also after collectives, and none once they are closed."""
    splits = [comm.split(0) for _ in range(8)]
    for each in [comm, *splits]:
        values = array.array("f", [1.0] * 4)
        each.all_reduce(values)
        expect(values, [comm.ranks] * 4)
    of_peers = comm.ranks - 1
    expect_opened(before + DESCRIPTORS * (1 + len(splits)) + OF_SPLITS + of_peers)
    comm.barrier()
    for split in splits:
        split.close()
    expect_opened(before + DESCRIPTORS + OF_SPLITS + of_peers)


def opened():
    """What the descriptors of this process are."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        # One that has closed since is gone.
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sorted(found)


def expect_opened(most):
    # Connections on which nothing more was asked close after a moment.
    until = time.monotonic() + 60
    while len(opened()) > most and time.monotonic() < until:
        time.sleep(0.01)
    found = opened()
    assert len(found) <= most, f"{len(found)} descriptors, expected {most}: {found}"


def from_any(comm):
    if comm.rank:
        comm.send(array.array("i", [comm.rank] * 5), 0)
        return
    sources = set()
    for _ in range(1, comm.ranks):
        values = array.array("i", [0] * 5)
        source = comm.receive_any(values)
        assert list(values) == [source] * 5, (source, values)
        sources.add(source)
    assert sources == set(range(1, comm.ranks)), sources


def with_numpy(comm):
    try:
        import numpy
    except ImportError:
        print("not run: numpy is not installed")
        return
    values = numpy.full((3, 4), comm.rank, dtype="f4")
    comm.all_reduce(values)
    assert (values == sum(range(comm.ranks))).all()
    try:
        comm.all_reduce(values[:, ::2])
    except ValueError as error:
        assert "contiguous" in str(error)
    else:
        raise AssertionError("a strided array was taken")


if __name__ == "__main__":
    ranks, identity = int(sys.argv[1]), toporing.unique_id()
    spawn = multiprocessing.get_context("spawn").Process
    others = [spawn(target=work, args=(identity, rank, ranks)) for rank in range(1, ranks)]
    for other in others:
        other.start()
    work(identity, 0, ranks)
    for other in others:
        other.join(60)
        assert other.exitcode == 0, other.exitcode
