"""Work: what a call returns, done or not."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from toporing import _native
from toporing.torch.events import Event


#: The last call that each thread made, as `work`.
LAST = threading.local()


def failed(error: Exception | str) -> Exception:
    """The exception of torch for an error of a communicator."""
    if isinstance(error, _native.CommTimeoutError):
        # Programs look for these words of Gloo.
        return dist.DistBackendError(f"topo: Timed out waiting for another rank: {error}")
    return dist.DistBackendError(str(error))


def _seconds(timeout: timedelta | None) -> float | None:
    """A limit in seconds; torch writes "none" as 0 or less."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds()
    return seconds if seconds > 0 else None


class Call(dist.Work):
    """A call, done or not."""

    #: What keeps it alive until somebody waits for it, if anything has to.
    holder: dict[int, dist.Work] | None = None

    #: Its event, if a profiler runs.
    _event: Event | None = None

    def __init__(self) -> None:
        super().__init__()
        LAST.work = self

    def ends(self, event: Event) -> None:
        """Ends an event when it is done."""
        event.end()

    def _release(self) -> None:
        if self.holder is not None:
            self.holder.pop(id(self), None)


class Done(Call):
    """A call that was done when it returned."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    def wait(self, timeout: timedelta | None = None) -> bool:
        self._release()
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        return None

    def result(self) -> Any:
        return self._result

    def get_future(self) -> torch.futures.Future:
        future: torch.futures.Future = torch.futures.Future()
        future.set_result(self._result)
        return future


class Started(Call):
    """A call that runs in the background. `after` runs once when it is done."""

    def __init__(
        self, work: _native.Work, result: Any, after: Callable[[], None] | None = None
    ) -> None:
        super().__init__()
        self._work = work
        self._result = result
        self._after = after
        self._lock = threading.Lock() if after is not None else None
        self._future: torch.futures.Future | None = None
        if after is not None:
            # The copies are made even if nobody waits.
            work.then(self._end)

    def ends(self, event: Event) -> None:
        self._event = event
        self._work.then(event.end_here)

    def _end(self, error: str | None) -> None:
        """Makes the copies that are left, once."""
        if self._lock is None:
            return
        with self._lock:
            after, self._after = self._after, None
            if after is not None and error is None:
                after()

    def wait(self, timeout: timedelta | None = None) -> bool:
        try:
            if not self._work.wait(_seconds(timeout)):
                raise failed(f"the call was not done within {timeout}")
        except (_native.CommError, ValueError) as error:
            raise failed(error) from None
        if self._after is not None:
            self._end(None)
        elif self._lock is not None:
            # Another thread may still copy.
            with self._lock:
                pass
        if self._event is not None:
            self._event.wait()
        self._release()
        return True

    def is_completed(self) -> bool:
        if not self._work.done():
            return False
        if self._after is not None:
            self._end(self._work.error())
        # Another thread may still copy.
        return self._lock is None or not self._lock.locked()

    def is_success(self) -> bool:
        return self._work.done() and self._work.error() is None

    def exception(self) -> Exception | None:
        error = self._work.error()
        return None if error is None else failed(error)

    def synchronize(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        source = self._work.source()
        if source is None:
            raise RuntimeError("only a receive that is done has a source")
        return source

    _source_rank = source_rank

    def result(self) -> Any:
        return self._result

    def get_future(self) -> torch.futures.Future:
        if self._future is None:
            self._future = torch.futures.Future()
            self._work.then(self._complete)
        return self._future

    def _complete(self, error: str | None) -> None:
        self._end(error)
        assert self._future is not None
        if error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(failed(error))
