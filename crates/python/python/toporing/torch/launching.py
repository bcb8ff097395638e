"""How calls run: now, in the background, or on a stream of a GPU."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from toporing import _native
from toporing.torch import tensors as memory
from toporing.torch.gpu import Lanes
from toporing.torch.work import Call, Done, Started, failed

_ERRORS = (_native.CommError, ValueError)


class Launching:
    """Starts what collectives and messages consist of."""

    _comm: _native.Comm
    _debug: bool
    _lanes: Lanes
    #: How many calls were made.
    _sequence = 0
    #: The calls since the begin of a batch, and its messages on GPUs.
    _batch: tuple[list[dist.Work], list[Message]] | None = None

    def _launch(
        self,
        options: Any,
        on: torch.device,
        launches: list[tuple[int, ...]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Runs collectives on memory of a device now, or in the background if the caller asks for
        that."""

        def enqueue(lane: _native.Comm, stream: int) -> None:
            for launch in launches:
                lane.run_on(launch, stream)

        def start() -> _native.Work:
            return self._comm.start(launches, keep)

        def run() -> None:
            for launch in launches:
                self._comm.run(*launch, keep)

        return self._started(options, on, (enqueue, start, run), result, keep, after)

    def _move(
        self,
        options: Any,
        on: torch.device,
        transfers: list[tuple[int, int, int, bool, None]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Runs the sends and receives of a collective together, now or in the background. Without a
        tag they match no message."""

        def enqueue(lane: _native.Comm, stream: int) -> None:
            lane.transfer_on(transfers, stream)

        def start() -> _native.Work:
            return self._comm.start_group(transfers, keep)

        def run() -> None:
            self._comm.transfer(transfers, keep)

        return self._started(options, on, (enqueue, start, run), result, keep, after)

    def _started(
        self,
        options: Any,
        on: torch.device,
        ways: tuple[Callable[..., None], Callable[[], _native.Work], Callable[[], None]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None,
    ) -> dist.Work:
        enqueue, start, run = ways
        self._sequence += 1
        if self._debug:
            say_place()
        later = getattr(options, "asyncOp", True)
        if on.type == "cuda":
            lane = self._lanes.of_all(on)
            work = lane.run(lambda it: enqueue(lane.comm, it), later, result, keep, after)
            return self._in_batch(work)
        try:
            if later:
                return self._in_batch(Started(start(), result, after))
            run()
        except _ERRORS as error:
            raise failed(error) from None
        if after is not None:
            after()
        return Done(result)

    def _message(
        self,
        on: torch.device,
        transfer: tuple[int, int, int | None, bool, int],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Starts a message. On the CPU it runs beside all others, and no order of them waits for
        each other; on a GPU it runs behind those with the same rank."""
        if self._debug:
            say_place()
        if on.type == "cuda":
            return self._message_of_gpu(on, transfer, result, keep, after)
        try:
            work = self._comm.start_transfers([transfer], keep)
            return self._in_batch(Started(work, result, after))
        except _ERRORS as error:
            raise failed(error) from None

    # Messages of GPUs

    def _message_of_gpu(
        self,
        on: torch.device,
        transfer: tuple[int, int, int | None, bool, int],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None,
    ) -> dist.Work:
        address, count, peer, sends, tag = transfer
        if peer is None:
            raise ValueError(f"a receive into a tensor on {on} needs the rank of its sender")
        if self._batch is not None:
            self._batch[1].append((on, transfer, keep, after))
            return Done(result)
        lane, other = self._lanes.of_pair(on, peer)
        numbers = [(address, count, other, sends, tag)]
        return lane.run(
            lambda stream: lane.comm.transfer_on(numbers, stream), True, result, keep, after
        )

    def start_coalescing(self) -> None:
        """Begins a batch: its messages on GPUs run together, so that no order of them can wait for
        each other."""
        self._batch = ([], [])

    def end_coalescing(self) -> dist.Work:
        """Starts the messages of the batch. What it returns waits for all calls of the batch."""
        (works, messages), self._batch = self._batch or ([], []), None
        if messages:
            lane = self._lanes.of_all(memory.one_device(on for on, _, _, _ in messages))
            transfers = [transfer for _, transfer, _, _ in messages]
            copies = [after for _, _, _, after in messages if after is not None]

            def after() -> None:
                for copy in copies:
                    copy()

            works.append(
                lane.run(
                    lambda stream: lane.comm.transfer_on(transfers, stream),
                    True, [], messages, after,
                )
            )  # fmt: skip
        return Several(works)

    def _in_batch(self, work: dist.Work) -> dist.Work:
        if self._batch is not None:
            self._batch[0].append(work)
        return work


#: A message on a GPU that waits for the end of a batch: device, transfer, what it uses, copies.
Message = tuple[torch.device, tuple[int, int, "int | None", bool, int], Any, Any]


class Several(Call):
    """Calls as one."""

    def __init__(self, works: list[dist.Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        self._release()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Exception | None:
        errors = (work.exception() for work in self._works)
        return next((error for error in errors if error is not None), None)

    def result(self) -> Any:
        return [each for work in self._works for each in work.result()]

    def get_future(self) -> torch.futures.Future:
        return torch.futures.collect_all([work.get_future() for work in self._works])


def say_place() -> None:
    """Tells the runtime which line of the user's calls, for errors in debug mode."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("toporing.", "torch.")):
            break
        frame = frame.f_back
    _native.call_site(frame.f_code.co_filename, frame.f_lineno)
