"""Events of torch's profilers, named as those of Gloo: `topo:all_reduce`."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable

import torch
from torch.autograd import profiler

#: Longest wait for another thread to end an event, in seconds.
_LONGEST = 10.0


def is_on() -> bool:
    """Whether a profiler runs."""
    return getattr(profiler, "_is_profiler_enabled", False)


def recorded(name: str, which: int = 0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Records calls of a method as events, with the shapes of the tensors of one argument: a
    tensor, a list or a list of lists."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if not is_on():
                return method(self, *arguments, **named)
            given = arguments[which] if which < len(arguments) else ()
            event = Event(name, _flat(given))
            try:
                work = method(self, *arguments, **named)
            except BaseException:
                event.end()
                raise
            work.ends(event)
            return work

        return call

    return decorate


def _flat(given: Any) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [_plain(given)]
    if not isinstance(given, (list, tuple)):
        return []
    return [tensor for each in given for tensor in _flat(each)]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers move as pairs."""
    is_complex = tensor.is_complex() and not tensor.is_conj()
    return torch.view_as_real(tensor) if is_complex else tensor


class Event:
    """An event that began. Another thread ends it, which makes it an asynchronous one."""

    def __init__(self, name: str, tensors: list[torch.Tensor]) -> None:
        enter = torch.autograd._record_function_with_args_enter
        self._handle = enter(f"topo:{name}", *tensors)
        self._ended = threading.Event()

    def end_here(self, _error: str | None = None) -> None:
        """Ends it in this thread."""
        torch.autograd._record_function_with_args_exit(self._handle)
        self._ended.set()

    def end(self) -> None:
        """Ends it in another thread."""
        thread = threading.Thread(target=self.end_here)
        thread.start()
        thread.join()

    def wait(self) -> None:
        """Waits until another thread has ended it."""
        self._ended.wait(_LONGEST)
