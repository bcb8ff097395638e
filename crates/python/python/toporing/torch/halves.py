"""Calls of process groups return the Python half of a call.

torch wraps what a backend in Python returns in a C++ half, which asks the Python half to wait and
for a future, and for nothing else. So `is_completed`, `source_rank` and others would not work.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch
import torch.distributed as dist

from toporing import _native
from toporing.torch.work import LAST

#: The methods of a process group that return work.
_CALLS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "barrier", "gather", "scatter",
    "allgather", "allgather_coalesced", "_allgather_base", "all_gather_single",
    "all_gather_single_coalesced", "allgather_into_tensor_coalesced",
    "reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
    "alltoall", "alltoall_base", "all_to_all_single", "send", "recv", "recv_anysource",
    "_end_coalescing",
)  # fmt: skip


def _returns_half(ask: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(ask)
    def call(*arguments: Any, **named: Any) -> Any:
        LAST.work = None
        work = ask(*arguments, **named)
        made, LAST.work = LAST.work, None
        # Other backends make no work of ours.
        return work if made is None or work is None else made

    return call


def _splits_members(ask: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """torch asks ranks that are in no part to split, too; a backend in Python cannot refuse."""

    @functools.wraps(ask)
    def split(group: dist.ProcessGroup, ranks: Any, *arguments: Any, **named: Any) -> Any:
        ours = any(isinstance(group._get_backend(it), kind) for it in group._device_types)
        if ours and group.rank() not in ranks:
            return None
        return ask(group, ranks, *arguments, **named)

    return split


def _gives_turn(ask: Callable[..., Any]) -> Callable[..., Any]:
    """A callback that waits for a future lets others be called meanwhile."""

    @functools.wraps(ask)
    def wait(future: torch.futures.Future) -> Any:
        _native.give_turn()
        return ask(future)

    return wait


def install(kind: type) -> None:
    """Lets process groups with backends of this kind return Python halves."""
    for name in _CALLS:
        ask = getattr(dist.ProcessGroup, name, None)
        if ask is not None:
            setattr(dist.ProcessGroup, name, _returns_half(ask))
    torch._C.Future.wait = _gives_turn(torch._C.Future.wait)
    if hasattr(dist.ProcessGroup, "split_group"):
        split = dist.ProcessGroup.split_group
        dist.ProcessGroup.split_group = _splits_members(split, kind)
