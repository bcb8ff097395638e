"""PyTorch's tensors in memory of phantom GPUs, one rank per process.

NVIDIA's runtime library, with which torch uses GPUs, asks the driver for tables that are not
documented, and a phantom driver has none. So tensors, streams and events of this program are the
driver's own. Process groups, their dispatch by device and the backend are the real ones.
"""

import contextlib
import ctypes
import gc
import os
import sys
import time
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist

import toporing
import toporing.torch
from gpu_driver import Driver, refused

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GPU = torch.device("cuda", RANK)


class Stream:
    """As `torch.cuda.Stream`."""

    def __init__(self, device=GPU, cuda_stream=None):
        assert device == GPU
        if cuda_stream is None:
            cuda_stream = DRIVER.new_stream().value
        self.cuda_stream = cuda_stream

    def __del__(self):
        if self.cuda_stream:
            CALL("cuStreamDestroy_v2", self.handle)

    @property
    def handle(self):
        return ctypes.c_void_p(self.cuda_stream)

    def wait_event(self, event):
        CALL("cuStreamWaitEvent", self.handle, event.handle, ctypes.c_uint(0))

    def wait_stream(self, stream):
        event = Event()
        event.record(stream)
        self.wait_event(event)

    def synchronize(self):
        CALL("cuStreamSynchronize", self.handle)


class Event:
    """As `torch.cuda.Event`."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        CALL("cuEventCreate", ctypes.byref(self.handle), ctypes.c_uint(2))

    def __del__(self):
        CALL("cuEventDestroy_v2", self.handle)

    def record(self, stream):
        CALL("cuEventRecord", self.handle, stream.handle)

    def query(self):
        return CALL("cuEventQuery", self.handle, expected=(0, 600)) == 0


class Streams:
    """The current stream, as torch keeps it."""

    def __init__(self):
        self.current = Stream(cuda_stream=0)

    def current_stream(self, device=GPU):
        assert device == GPU
        return self.current

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before


class Tensor(torch.Tensor):
    """A tensor in memory of the GPU. Copies are all that it can do alone."""

    @staticmethod
    def __new__(cls, values):
        make = torch.Tensor._make_wrapper_subclass
        return make(cls, values.shape, dtype=values.dtype, device=GPU)

    def __init__(self, values):
        self.bytes = values.numel() * values.element_size()
        self.address = DRIVER.allocate(max(self.bytes, 1))
        CALL("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.address),
             ctypes.c_void_p(values.data_ptr()), ctypes.c_size_t(self.bytes),
             STREAMS.current.handle)
        # The values may end before the copy does.
        STREAMS.current.synchronize()

    def __del__(self):
        # As torch's allocator gives memory to what the stream gets later.
        STREAMS.current.synchronize()
        CALL("cuMemFree_v2", ctypes.c_uint64(self.address))

    def data_ptr(self):
        return self.address

    def on_host(self):
        """Its values, when the current stream has passed."""
        values = torch.empty(self.shape, dtype=self.dtype)
        CALL("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(values.data_ptr()),
             ctypes.c_uint64(self.address), ctypes.c_size_t(self.bytes), STREAMS.current.handle)
        STREAMS.current.synchronize()
        return values

    def copy_(self, source):
        CALL("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(self.address),
             ctypes.c_uint64(source.address), ctypes.c_size_t(self.bytes),
             STREAMS.current.handle)
        return self

    def view(self, *shape):
        assert list(*shape) == list(self.shape)
        return self

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        assert function.namespace == "c10d", function
        with torch.utils._mode_utils.no_dispatch():
            return function(*arguments, **(named or {}))


def of(*values, dtype=torch.float32):
    return Tensor(torch.tensor(values, dtype=dtype))


def expect(tensor, *values):
    found = tensor.on_host()
    assert found.tolist() == list(values), f"{found} expected {values}"


def collectives():
    x = of(RANK, 10, dtype=torch.bfloat16)
    dist.all_reduce(x)
    expect(x, sum(range(RANKS)), 10 * RANKS)
    work = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)
    assert work.wait()
    expect(x, sum(range(RANKS)), 10 * RANKS)
    assert work.is_completed() and work.is_success() and work.result()[0] is x
    # On a stream of the program, behind a copy of another one that it waits for.
    other, copied = Stream(), of(0.0, 0.0)
    with STREAMS.stream(other):
        copied.copy_(of(float(RANK), 1.0))
        dist.all_reduce(copied)
    STREAMS.current.wait_stream(other)
    expect(copied, sum(range(RANKS)), RANKS)

    y = of(RANK, 7, dtype=torch.int64)
    dist.broadcast(y, 1)
    expect(y, 1, 7)
    y = of(RANK, dtype=torch.int32)
    dist.reduce(y, 0)
    if RANK == 0:
        expect(y, sum(range(RANKS)))
    gathered = of(*[0] * 2 * RANKS)
    dist.all_gather_into_tensor(gathered, of(RANK, RANK))
    expect(gathered, *(float(at // 2) for at in range(2 * RANKS)))
    part = of(0.0)
    dist.reduce_scatter_tensor(part, of(*range(RANKS)), op=dist.ReduceOp.AVG)
    expect(part, RANK)
    moved = of(*[0] * RANKS)
    dist.all_to_all_single(moved, of(*(10 * RANK + to for to in range(RANKS))))
    expect(moved, *(10 * since + RANK for since in range(RANKS)))
    parts = [of(0) for _ in range(RANKS)] if RANK == 0 else None
    dist.gather(of(RANK), parts, 0)
    for since, each in enumerate(parts or []):
        expect(each, since)
    mine = of(0)
    dist.scatter(mine, [of(5 * to) for to in range(RANKS)] if RANK == 1 else None, 1)
    expect(mine, 5 * RANK)


def kept():
    """A call beside the caller's stream keeps its tensors until somebody waits for it."""
    came = of(*[0] * RANKS)
    mine = of(RANK)
    there = weakref.ref(mine)
    work = dist.all_gather_into_tensor(came, mine, async_op=True)
    del mine
    gc.collect()
    assert there() is not None
    work.wait()
    gc.collect()
    assert there() is None
    expect(came, *range(RANKS))


def captures():
    """A program captures its own work while calls are in flight, and asks for them."""
    x, work = of(1.0), []
    for mode in range(3):
        stream, graph = Stream(), ctypes.c_void_p()
        dist.barrier()
        CALL("cuStreamBeginCapture_v2", stream.handle, ctypes.c_int(mode))
        for _ in range(4):
            work.append(dist.all_reduce(x, async_op=True))
            work[-1].is_completed()
        CALL("cuStreamEndCapture", stream.handle, ctypes.byref(graph))
        CALL("cuGraphDestroy", graph)
        dist.barrier()
    for each in work:
        each.wait()
    expect(x, RANKS ** len(work))


def arrays():
    """A tensor is an array on torch's current stream, which its protocols do not name."""
    identity = [toporing.unique_id() if RANK == 0 else None]
    dist.broadcast_object_list(identity)
    with toporing.Communicator(identity[0], RANK, RANKS, gpu=RANK) as comm:
        with STREAMS.stream(Stream()):
            x = of(*range(100))
            y = of(*[0] * 100)
            y.copy_(x)
            comm.all_reduce(y)
            expect(y, *(RANKS * at for at in range(100)))
        CALL("cuCtxSynchronize")


def messages():
    after, before = (RANK + 1) % RANKS, (RANK - 1) % RANKS
    # Everybody sends first, more than FIFOs hold; only a batch may.
    long = Tensor(torch.full((1 << 20,), float(RANK)))
    came = Tensor(torch.zeros(1 << 20))
    batch = [dist.P2POp(dist.isend, long, after), dist.P2POp(dist.irecv, came, before)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert came.on_host().eq(before).all()
    # One batch of tensors on the CPU, as before.
    came = torch.zeros(3)
    batch = [dist.P2POp(dist.isend, torch.full((3,), float(RANK)), after),
             dist.P2POp(dist.irecv, came, before)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert came.tolist() == [before] * 3
    if RANK == 0:
        dist.send(of(3, 4), 1)
        dist.isend(of(5, 6), 1).wait()
    elif RANK == 1:
        x, y = of(0, 0), of(0, 0)
        dist.recv(x, 0)
        work = dist.irecv(y, 0)
        work.wait()
        expect(x, 3, 4)
        expect(y, 5, 6)


def objects_and_groups():
    # On the CPU.
    found = [None] * RANKS
    dist.all_gather_object(found, RANK)
    assert found == list(range(RANKS))
    dist.barrier()
    one = dist.new_group([RANK], use_local_synchronization=True)
    x = of(4)
    dist.all_reduce(x, group=one)
    expect(x, 4)
    dist.destroy_process_group(one)


def refusals():
    x = of(1)
    here = torch.ones(1)
    refused(lambda: dist.all_gather_into_tensor(torch.zeros(RANKS), x), ValueError, "one device")
    refused(lambda: dist.recv(x), ValueError, "needs the rank")
    dist.all_reduce(here)
    assert here.tolist() == [RANKS]


def missing():
    """A rank that does not call ends the call of the others, not their host."""
    group = dist.new_group(timeout=timedelta(seconds=3))
    x = of(1)
    dist.all_reduce(x, group=group)
    store = dist.distributed_c10d._get_default_store()
    if RANK != 0:
        store.wait(["over"])
        return
    work = dist.all_reduce(x, group=group, async_op=True)
    until = time.monotonic() + 30
    while not work.is_completed() or work.exception() is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    refused(work.wait, dist.DistBackendError, "")
    refused(lambda: dist.all_reduce(x, group=group), dist.DistBackendError, "")
    store.set("over", "")


if not toporing.torch._has_backends_in_python():
    print("not run: this version of torch has no backends in Python")
else:
    DRIVER = Driver(RANK)
    CALL = DRIVER.call
    STREAMS = Streams()
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream, torch.cuda.stream = STREAMS.current_stream, STREAMS.stream
    torch.cuda.get_device_capability = lambda device: (9, 0)
    dist.init_process_group("topo")
    if sys.argv[1:] == ["once"]:
        # With the plan of `TOPO_PLAN`, if it is set.
        x = of(*[RANK] * (16 << 10))
        dist.all_reduce(x)
        expect(x, *[float(sum(range(RANKS)))] * (16 << 10))
        del x
    else:
        for part in (collectives, kept, captures, arrays, messages, objects_and_groups, refusals,
                     missing):
            part()
    dist.destroy_process_group()
    gc.collect()
    DRIVER.close()
