"""Calls on tensors in memory of GPUs, which run in the order of streams."""

from __future__ import annotations

import ctypes
from collections import deque
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Callable, Iterator, Protocol

import torch

from toporing import _native
from toporing.torch.work import Call, failed

_ERRORS = (_native.CommError, ValueError)


#: `CU_STREAM_CAPTURE_MODE_RELAXED`
_RELAXED = 2


@contextmanager
def _beside_captures() -> Iterator[None]:
    """Lets this thread ask for events without making another thread's capture of a graph invalid."""
    exchange = ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    mode = ctypes.c_int(_RELAXED)
    exchange(ctypes.byref(mode))
    try:
        yield
    finally:
        exchange(ctypes.byref(mode))


def _has_passed(event: Any) -> bool:
    with _beside_captures():
        return event.query()


class Kept:
    """What a call beside the caller's stream uses, until that stream waits for the call or its
    event has passed."""

    def __init__(self, passed: Any, what: Any) -> None:
        self._passed, self._what = passed, what

    def drop(self) -> None:
        """Drops it."""
        self._what = None

    def is_over(self) -> bool:
        """Whether it was dropped, or may be."""
        return self._what is None or _has_passed(self._passed)


class Join(Protocol):
    """Joins the others of a part of a group, with memory of a GPU."""

    def __call__(self, name: str, rank: int, ranks: int, gpu: int) -> _native.Comm: ...


class Lane:
    """A communicator whose calls run on streams of a GPU."""

    def __init__(self, comm: _native.Comm, device: torch.device) -> None:
        self.comm = comm
        self.device = device
        self._beside = torch.cuda.Stream(device)
        #: For calls for which nobody has waited.
        self._kept: deque[Kept] = deque()

    def run(
        self,
        enqueue: Callable[[int], None],
        beside: bool,
        result: Any,
        keep: Any,
        after: Callable[[], None] | None,
    ) -> Enqueued:
        """Enqueues a call behind the work of the current stream: on that stream, or beside it, so
        that the stream continues until somebody waits. `after` is enqueued behind the call."""
        stream = current = torch.cuda.current_stream(self.device)
        if beside:
            stream = self._beside
            stream.wait_stream(current)
        with torch.cuda.stream(stream):
            try:
                enqueue(stream.cuda_stream)
            except _ERRORS as error:
                raise failed(error) from None
            if after is not None:
                after()
            passed = torch.cuda.Event()
            passed.record(stream)
        while self._kept and self._kept[0].is_over():
            self._kept.popleft()
        kept = Kept(passed, keep if beside else None)
        if beside:
            self._kept.append(kept)
        return Enqueued(self, stream, passed, result, kept)

    def finish(self) -> None:
        """Waits on the host for the current stream; says whether a call has failed."""
        torch.cuda.current_stream(self.device).synchronize()
        self.check()

    def check(self) -> None:
        """Raises the error of a call that has failed."""
        try:
            self.comm.query()
        except _ERRORS as error:
            raise failed(error) from None


class Lanes:
    """Those of a group: one of all its ranks, and one for each pair of ranks with messages. Ranks
    join when they first need them, and then wait for each other on the host."""

    def __init__(self, rank: int, ranks: int, join: Join) -> None:
        self._rank, self._ranks = rank, ranks
        self._join = join
        self._lanes: dict[tuple[int, ...], Lane] = {}
        self._device: torch.device | None = None

    def of_all(self, device: torch.device) -> Lane:
        """That of all ranks."""
        return self._lane((), device, self._rank, self._ranks)

    def of_pair(self, device: torch.device, peer: int) -> tuple[Lane, int]:
        """That of this rank and another one, and the other's number in it."""
        low, high = min(self._rank, peer), max(self._rank, peer)
        if low == high:
            return self._lane((low,), device, 0, 1), 0
        own = int(self._rank == high)
        return self._lane((low, high), device, own, 2), 1 - own

    def _lane(self, key: tuple[int, ...], device: torch.device, rank: int, ranks: int) -> Lane:
        self._device = self._device or device
        if self._device != device:
            raise ValueError(
                f"this rank's tensors of the group were on {self._device} so far, and this one is "
                f"on {device}; a rank has one GPU in a group"
            )
        lane = self._lanes.get(key)
        if lane is None:
            name = "-".join(map(str, key)) or "all"
            try:
                comm = self._join(f"topo/gpu/{name}", rank, ranks, device.index)
            except _ERRORS as error:
                raise failed(error) from None
            lane = self._lanes[key] = Lane(comm, device)
        return lane

    def __iter__(self) -> Any:
        return iter(list(self._lanes.values()))


class Enqueued(Call):
    """A call on a stream of a GPU. Waiting for it lets the current stream wait, not the host."""

    def __init__(self, lane: Lane, stream: Any, passed: Any, result: Any, kept: Kept) -> None:
        super().__init__()
        self._lane = lane
        self._stream = stream
        self._passed = passed
        self._result = result
        self._kept = kept

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._lane.check()
        torch.cuda.current_stream(self._lane.device).wait_event(self._passed)
        # What the stream gets from now on runs behind the call, also where it reuses the memory.
        self._kept.drop()
        self._release()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return _has_passed(self._passed)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        try:
            self._lane.check()
        except Exception as error:
            return error
        return None

    def result(self) -> Any:
        return self._result

    def get_future(self) -> torch.futures.Future:
        future: torch.futures.Future = torch.futures.Future(devices=[self._lane.device])
        # Who waits for the future waits for what this stream has got so far.
        with torch.cuda.stream(self._stream):
            future.set_result(self._result)
        return future
