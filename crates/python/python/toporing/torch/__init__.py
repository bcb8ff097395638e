"""The backend "topo" of torch.distributed, for tensors on the CPU and on NVIDIA's GPUs.

    import torch.distributed as dist
    import toporing.torch

    dist.init_process_group("topo")

`pg_options=toporing.torch.Options(plan=...)` runs a plan, `TOPO_PLAN` names the file of one. Newer
versions of torch find the backend of an installed package by its name, without the import.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from os import PathLike
from typing import Any, Union

import torch.distributed as dist
from torch._C._distributed_c10d import Backend as _Backend

from toporing._expect import expect
from toporing.planning import Plan
from toporing.torch.backend import Operations
from toporing.torch.halves import install

#: Most calls of a process group that are held until somebody waits for them.
_MOST_HELD = 4096

__all__ = ["Options", "TopoBackend", "TopoProcessGroup", "register"]

#: A plan, the file of one, or what a part of a group gets: its name, its text, False.
_Planned = Union[Plan, str, "PathLike[str]", "tuple[str, str, bool]"]


@dataclass(frozen=True)
class Options:
    """What `pg_options` of a process group says."""

    #: The plan that the ranks run; all give the same.
    plan: _Planned | None = None
    #: Most thread blocks of a collective on a GPU (None: at most 32, and a quarter of those that fit;
    #: 0: all, only if no other communicator of this process runs at the same time); all give the
    #: same.
    blocks: int | None = None


class TopoBackend(Operations, _Backend):
    """One device's backend of a process group."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta | None = None,
        options: Options = Options(),
    ) -> None:
        _Backend.__init__(self, rank, size)
        self._timeout = timedelta(minutes=10) if timeout is None else timeout
        self._open(store, rank, size, timeout, options)

    @property
    def options(self) -> Any:
        """The options that a part of the group gets."""
        return _Backend.Options("topo", self._timeout)

    def split(self, store: dist.Store, ranks: list[int], opts: Any) -> TopoBackend:
        """The backend of a part of the group. Only its members call."""
        timeout = getattr(opts, "_timeout", None) or self._timeout
        name = "topo/split/" + "-".join(map(str, ranks))
        part = dist.PrefixStore(name, store)
        # Parts obey the settings of the plan; those of as many ranks run it.
        run = self._run_plan
        options = Options(None if run is None else (*run[:2], False), self._blocks)
        return TopoBackend(part, ranks.index(self._rank), len(ranks), timeout, options)


class TopoProcessGroup(Operations, dist.ProcessGroup):
    """A whole process group, for versions of torch whose backends cannot be written in Python."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta | None = None,
        options: Options = Options(),
    ) -> None:
        dist.ProcessGroup.__init__(self, rank, size)
        self._names = {"name": "", "description": ""}
        self._held: dict[int, dist.Work] = {}
        self._open(store, rank, size, timeout, options)

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._ranks

    # Older versions of torch hold a call's C++ half alone; without its Python half it never ends.

    def _launch(self, *arguments: Any) -> dist.Work:
        return self._hold(super()._launch(*arguments))

    def _move(self, *arguments: Any) -> dist.Work:
        return self._hold(super()._move(*arguments))

    def _hold(self, work: dist.Work) -> dist.Work:
        if len(self._held) >= _MOST_HELD:
            self._held.pop(next(iter(self._held)), None)
        self._held[id(work)] = work
        work.holder = self._held
        return work

    # A group without backends has no name, but functional collectives find groups by name.

    @property
    def group_name(self) -> str:
        return self._names["name"]

    @property
    def group_desc(self) -> str:
        return self._names["description"]

    def _set_group_name(self, name: str) -> None:
        self._names["name"] = name

    def _set_group_desc(self, description: str) -> None:
        self._names["description"] = description

    getGroupName, setGroupName = lambda self: self.group_name, _set_group_name
    getGroupDesc, setGroupDesc = lambda self: self.group_desc, _set_group_desc


def _has_backends_in_python() -> bool:
    """Whether a subclass of torch's `Backend` can be made."""
    try:
        type("Probe", (_Backend,), {})(0, 1)
    except TypeError:
        return False
    return True


def _make(group: Any, options: Any) -> Any:
    kind = TopoBackend if _has_backends_in_python() else TopoProcessGroup
    # Torch's own have only a timeout, which the group has, too.
    expect("pg_options", options, Options, _Backend.Options, type(None))
    given = options if isinstance(options, Options) else Options()
    return kind(group.store, group.group_rank, group.group_size, group.timeout, given)


def register() -> None:
    """Registers the backend; importing this module does it."""
    if "TOPO" not in dist.Backend._plugins:
        # Older versions of torch have no batches of messages, which GPUs need.
        in_python = _has_backends_in_python()
        devices = ["cpu", "cuda"] if in_python else ["cpu"]
        dist.Backend.register_backend("topo", _make, extended_api=True, devices=devices)
        if in_python:
            install(TopoBackend)


register()
