"""Which memory calls touch: `memory.py RANKS`, whose ranks are two threads."""

import array
import sys
import threading
import time

import toporing

LONG = 60.0


def wrong_types(comm):
    """A type that is wider or narrower than the elements, or differs from the output's."""
    behind = bytearray([1 + comm.rank]) * 4096
    first = memoryview(behind)[:64]
    double, byte = array.array("d", [1.0] * 8), array.array("b", [1] * 64)
    ints = array.array("i", [1] * 8)
    for call, why in (
        (lambda: comm.all_reduce(first, type="f64"), "an element of f64 has 8 bytes"),
        (lambda: comm.all_reduce(bytearray(64), type="f64"), "the array has 1"),
        (lambda: comm.all_reduce(bytearray(7), type="f32"), "an element of f32 has 4 bytes"),
        (lambda: comm.all_reduce(double, type="u8"), "the array has 8"),
        (lambda: comm.all_reduce(bytes(64), bytearray(64), type="f64"), "f64 has 8 bytes"),
        (lambda: comm.reduce(bytearray(64), 0, type="f32"), "f32 has 4 bytes"),
        (lambda: comm.reduce_scatter(bytes(64), bytearray(32), type="bf16"), "bf16 has 2 bytes"),
        # Equal bytes of different types.
        (lambda: comm.all_reduce(double, byte), "the output has elements of i8, expected f64"),
        (lambda: comm.reduce_scatter(double, byte[:32]), "the input has elements of f64"),
        (lambda: comm.reduce(ints, comm.rank, double[:4]), "the output has elements of f64"),
    ):
        refused(call, ValueError, why)
    assert set(behind) == {1 + comm.rank}, "memory behind the array was written"
    # What moves only is bytes, whatever its elements are.
    comm.broadcast(double, 0)
    both = bytearray(16)
    comm.all_gather(array.array("d", [comm.rank]), both)
    assert list(memoryview(both).cast("d")) == [0.0, 1.0], both
    rows = memoryview(bytearray([1] * 12)).cast("B", (3, 4))
    comm.all_reduce(rows)
    assert bytes(rows) == bytes([2] * 12)


def wrong_kinds(comm):
    """Arguments of a wrong kind are `TypeError` in every call."""
    own = bytearray(4)
    for call in (
        lambda: comm.all_reduce(None),
        lambda: comm.all_reduce([1]),
        lambda: comm.all_reduce("text"),
        lambda: comm.all_reduce(own, op=5),
        lambda: comm.all_reduce(own, op=None),
        lambda: comm.all_reduce(own, type=5),
        lambda: comm.all_reduce(own, type=[]),
        lambda: comm.reduce(own, "0"),
        lambda: comm.reduce(own, comm.rank, 5),
        lambda: comm.broadcast(own, None),
        lambda: comm.broadcast(5, 0),
        lambda: comm.all_gather(own, 5),
        lambda: comm.all_to_all(None, own),
        lambda: comm.reduce_scatter(own, {}),
        lambda: comm.send(5, 0),
        lambda: comm.send(own, "1"),
        lambda: comm.receive(own, 0.5),
        lambda: comm.receive(own, 0, tag="x"),
        lambda: comm.receive_any(None),
        lambda: comm.exchange(own, 0, None, 0),
        lambda: comm.split("red"),
        lambda: comm.register(None),
        lambda: comm.deregister("x"),
        lambda: toporing.Communicator(5, 0, 1),
        lambda: toporing.Communicator("x", "0", 1),
        lambda: toporing.Communicator("x", 0, 1, plan=5),
        lambda: toporing.Communicator("x", 0, 1, gpu="0"),
    ):
        refused(call, TypeError, "")


#: Calls in which rank 0 waits for rank 1: the bytes of two arrays, and the call of each rank.
CALLS = {
    "all_reduce": (8, 8, lambda comm, one, _: comm.all_reduce(one)),
    "all_reduce, output": (8, 8, lambda comm, one, two: comm.all_reduce(one, two)),
    "reduce": (8, 8, lambda comm, one, _: comm.reduce(one, 0)),
    "reduce, output": (
        8, 8, lambda comm, one, two: comm.reduce(one, 0, two if comm.rank == 0 else None)
    ),
    "broadcast": (8, 8, lambda comm, one, _: comm.broadcast(one, 1)),
    "all_gather": (8, 16, lambda comm, one, two: comm.all_gather(one, two)),
    "reduce_scatter": (16, 8, lambda comm, one, two: comm.reduce_scatter(one, two)),
    "all_to_all": (8, 8, lambda comm, one, two: comm.all_to_all(one, two)),
    "exchange": (
        8, 8, lambda comm, one, two: comm.exchange(one, 1 - comm.rank, two, 1 - comm.rank)
    ),
    "receive": (
        8, 8, lambda comm, one, _: comm.send(one, 0) if comm.rank else comm.receive(one, 1)
    ),
    "receive_any": (
        8, 8, lambda comm, one, _: comm.send(one, 0) if comm.rank else comm.receive_any(one)
    ),
}

#: Arrays that only the waiting rank's call gives to the runtime.
USED = {"all_reduce": 1, "reduce": 1, "broadcast": 1, "receive": 1, "receive_any": 1}


def in_call(thread):
    """Whether a thread has given its arrays to the runtime."""
    frame = sys._current_frames().get(thread.ident)
    if frame is None:
        return False
    name = frame.f_code.co_name
    return name in ("_run", "_transfer") or name == "receive_any" and "work" in frame.f_locals


def resized(identity):
    """An array cannot be resized while a call waits, and can afterwards."""
    started, may_join = {}, {}
    arrays = {}
    failed = []

    def rank_of(rank):
        try:
            with toporing.Communicator(identity, rank, 2, timeout=LONG) as comm:
                # The first call of a kind connects, and the second runs in this thread.
                for turn in range(2):
                    for name, (one, two, call) in CALLS.items():
                        mine = bytearray(one), bytearray(two)
                        if rank == 0:
                            arrays[name, turn] = mine
                            started[name, turn].set()
                        else:
                            assert may_join[name, turn].wait(LONG)
                        call(comm, *mine)
                        for each in mine:
                            each.clear()
        except BaseException as error:
            failed.append((rank, error))
            raise

    for turn in range(2):
        for name in CALLS:
            started[name, turn], may_join[name, turn] = threading.Event(), threading.Event()
    ranks = [threading.Thread(target=rank_of, args=(rank,), daemon=True) for rank in range(2)]
    for each in ranks:
        each.start()
    for key, event in started.items():
        assert event.wait(LONG) and not failed, failed
        until = time.monotonic() + LONG
        while not in_call(ranks[0]) and not failed:
            assert time.monotonic() < until, key
            time.sleep(0.001)
        for each in arrays[key][: USED.get(key[0], 2)]:
            refused(each.clear, BufferError, "")
        may_join[key].set()
    for each in ranks:
        each.join(LONG)
        assert not each.is_alive() and not failed, failed


def refused(call, error, why):
    try:
        call()
    except error as found:
        assert why in str(found), found
        return
    raise AssertionError(f"taken, expected {error.__name__} {why}")


def with_two(identity, work):
    """Runs a function on the communicators of two ranks."""
    failed = []

    def rank_of(rank):
        try:
            with toporing.Communicator(identity, rank, 2, timeout=LONG) as comm:
                work(comm)
        except BaseException as error:
            failed.append((rank, error))
            raise

    ranks = [threading.Thread(target=rank_of, args=(rank,), daemon=True) for rank in range(2)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join(2 * LONG)
        assert not each.is_alive() and not failed, failed


if __name__ == "__main__":
    with_two(toporing.unique_id(), wrong_types)
    with_two(toporing.unique_id(), wrong_kinds)
    resized(toporing.unique_id())
