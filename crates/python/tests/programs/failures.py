"""What a rank must survive: `failures.py CASE`, with two ranks."""

import os
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

import toporing.torch  # noqa: F401

# A shell may have started the tests in the background, where SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

RANK = int(os.environ["RANK"])
PORT = int(os.environ["MASTER_PORT"])

#: Longest time until a failure is reported.
SOON = 2.0


def join(**options):
    """Joins, and connects the ranks for the collectives that the cases call."""
    dist.init_process_group("topo", **options)
    for _ in range(2):
        total(1)
        exchange()


def exchange():
    dist.all_to_all_single(torch.empty(4), torch.ones(4))


def total(value):
    x = torch.full((4,), float(value))
    dist.all_reduce(x)
    return float(x[0])


def rejoin():
    """Leaves a group that failed; a new one works in the same process."""
    dist.destroy_process_group()
    # Another port may be taken meanwhile; both ranks have one parent.
    name = f"topo-rejoin-{os.getppid()}-{PORT}"
    store = dist.FileStore(os.path.join(tempfile.gettempdir(), name), 2)
    dist.init_process_group("topo", store=store, rank=RANK, world_size=2)
    assert total(RANK + 1) == 3.0
    dist.barrier()
    dist.destroy_process_group()


def fails(call, *texts, within=SOON):
    """Expects an error of torch's kind that has these texts, soon."""
    began = time.monotonic()
    try:
        call()
    except dist.DistBackendError as error:
        for text in texts:
            assert text in str(error), str(error)
    else:
        raise AssertionError("no error")
    took = time.monotonic() - began
    assert took < within, f"took {took} s"


def tell(event):
    """Lets the other rank continue, which waits for this event."""
    dist.distributed_c10d._get_default_store().set(event, "")


def wait_for(event):
    dist.distributed_c10d._get_default_store().wait([event], timedelta(seconds=60))


def total_again():
    """Calls until one fails: the first may have all the data of the rank that failed."""
    while True:
        total(1)


def interrupt(call):
    """Rank 0 is interrupted in a call that rank 1 never makes."""
    join()
    if RANK == 1:
        wait_for("interrupted")
        fails(total_again)
        return rejoin()
    sent = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    try:
        threading.Timer(0.7, send).start()
        call()
    except KeyboardInterrupt:
        took = time.monotonic() - sent[0]
        assert took < SOON, f"took {took} s"
        tell("interrupted")
    else:
        raise AssertionError("not interrupted")
    rejoin()


def interrupt_of_a_call():
    interrupt(lambda: total(1))


def interrupt_of_an_exchange():
    interrupt(exchange)


def interrupt_of_a_first_call():
    interrupt(lambda: dist.broadcast(torch.ones(1000), 1))


def interrupt_of_a_wait():
    interrupt(lambda: dist.all_reduce(torch.ones(4), async_op=True).wait())


def killed():
    join()
    if RANK == 1:
        wait_for("calls")
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    tell("calls")
    fails(lambda: total(1), "rank 1", within=SOON + 0.7)
    assert time.monotonic() - began > 0.1
    dist.destroy_process_group()


def leaves_without_destroying():
    join()
    x = torch.ones(1 << 20)
    dist.all_reduce(x, async_op=True)
    total(1)
    print("leaves", flush=True)


def leaves_with_work():
    """Work that never ends does not keep a process."""
    join()
    if RANK == 0:
        dist.all_reduce(torch.ones(10), async_op=True).get_future()
    print("leaves", flush=True)


def forks():
    join()
    child = os.fork()
    if child == 0:
        fails(lambda: total(1), "fork")
        sys.exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    assert total(RANK) == 1.0
    dist.destroy_process_group()


def mismatched():
    os.environ["TOPO_DEBUG"] = "1"
    join()
    count = 5 if RANK == 0 else 6
    fails(lambda: dist.all_reduce(torch.ones(count)), "disagree", "5 f32", "6 f32")
    # Wrong arguments leave the group usable.
    assert total(1) == 2.0
    dist.destroy_process_group()


def mismatched_without_debug_mode():
    join()
    assert total(1) == 2.0
    count = 5 if RANK == 0 else 6
    fails(lambda: [dist.all_reduce(torch.ones(count)), total(1)], "calls another collective")
    rejoin()


def late():
    join(timeout=timedelta(seconds=2))
    if RANK == 1:
        wait_for("timed out")
        fails(total_again)
        return rejoin()
    fails(lambda: total(1), within=2 + SOON)
    tell("timed out")
    rejoin()


def aborts():
    join()
    if RANK == 0:
        group = dist.group.WORLD
        backend = group if hasattr(group, "_comm") else group._get_backend(torch.device("cpu"))
        threading.Timer(0.5, backend.abort).start()
    if RANK == 1:
        time.sleep(1)
    fails(total_again)
    rejoin()


def missing_at_a_barrier():
    join()
    if isinstance(dist.group.WORLD, toporing.torch.TopoProcessGroup):
        print("not run: this version of torch has monitored barriers for Gloo alone")
        return dist.destroy_process_group()
    if RANK == 1:
        time.sleep(3)
        return
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=1))
    except RuntimeError as error:
        assert "Rank 1" in str(error), error
    else:
        raise AssertionError("no error")


globals()[sys.argv[1]]()
