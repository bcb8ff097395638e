"""Collectives of processes on arrays."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from toporing import _native
from toporing._settings import run_plan, settings
from toporing.arrays import Array, array
from toporing.planning import Plan

_COLLECTIVES = {name: number for number, name in enumerate(_native.COLLECTIVES)}
_OPERATIONS = {name: number for number, name in enumerate(_native.OPERATIONS)}


class Communicator:
    """One rank's membership in a group of ranks, which are processes on one host or several.

    All ranks call the same collectives in the same order. Arrays are anything with the buffer
    protocol, such as numpy's; `type` names the elements where the protocol has no name, such as
    `bf16`. `CommError` says that a rank failed or left; then only closing is left. Ctrl-C ends a
    call within a second, and the communicator with it.
    """

    def __init__(
        self,
        identity: str,
        rank: int,
        ranks: int,
        *,
        timeout: float = 600.0,
        join_timeout: float = 60.0,
        plan: Plan | str | os.PathLike[str] | None = None,
    ) -> None:
        """Joins the other ranks. One rank's process made `identity` with `unique_id`, and it is
        that rank's secret with the others. Times are in seconds.

        `plan` is a plan or the file of one, whose channels, NICs and proxies are used; without it
        the file that `TOPO_PLAN` names, if that has as many ranks. All ranks give the same."""
        self._comm = _native.Comm(
            identity,
            rank,
            ranks,
            timeout=timeout,
            join_timeout=join_timeout,
            plan=run_plan(plan, os.environ),
            **settings(os.environ),
        )

    @property
    def rank(self) -> int:
        """The own rank."""
        return self._comm.rank

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self._comm.ranks

    @property
    def transports(self) -> list[str]:
        """How this rank reaches each rank: `P2P` (itself), `SHM` or `NET`."""
        return self._comm.transports

    @property
    def channels(self) -> int:
        """Over how many channels collectives may run: those of the plan, if there is one."""
        return self._comm.channels

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abort()
        self.close()

    def all_reduce(
        self, values: Any, output: Any = None, *, op: str = "sum", type: str | None = None
    ) -> None:
        """Reduces the values of all ranks, into `output` or in place."""
        self._reduce("AllReduce", values, output, op, type)

    def reduce(
        self, values: Any, root: int, output: Any = None, *, op: str = "sum",
        type: str | None = None,
    ) -> None:
        """Reduces the values of all ranks to the root, into its `output` or in place."""
        if output is not None and self.rank != root:
            raise ValueError("only the root of a reduction has an output")
        if output is None:
            return self._reduce("Reduce", values, None, op, type, root)
        source, to = array(values, type, written=False), array(output, type, written=True)
        # In place on all ranks or on none: the root copies.
        memoryview(output).cast("B")[:] = memoryview(values).cast("B")
        self._run("Reduce", to, to, source.count, op, root)

    def broadcast(self, values: Any, root: int) -> None:
        """Copies the root's values to all ranks."""
        own = array(values, "u8", written=self.rank != root)
        self._run("Broadcast", own, own, own.count * own.width, "sum", root)

    def all_gather(self, values: Any, output: Any) -> None:
        """Copies the values of all ranks to `output`, in rank order."""
        source, to = array(values, "u8", written=False), array(output, "u8", written=True)
        self._sizes("all_gather", "output", to, self.ranks, source)
        self._run("AllGather", source, to, source.count * source.width)

    def reduce_scatter(
        self, values: Any, output: Any, *, op: str = "sum", type: str | None = None
    ) -> None:
        """Reduces the values of all ranks; each rank gets its part of the result."""
        source, to = array(values, type, written=False), array(output, type, written=True)
        self._sizes("reduce_scatter", "input", source, self.ranks, to)
        self._run("ReduceScatter", source, to, to.count, op)

    def all_to_all(self, values: Any, output: Any) -> None:
        """Sends part i of the values to rank i; part i of the output is from rank i."""
        source, to = array(values, "u8", written=False), array(output, "u8", written=True)
        self._sizes("all_to_all", "output", to, 1, source)
        total = source.count * source.width
        if total % self.ranks:
            raise ValueError(f"all_to_all: {total} bytes are no multiple of {self.ranks} ranks")
        self._run("AllToAll", source, to, total // self.ranks)

    def send(self, values: Any, to: int, *, tag: int = 0) -> None:
        """Sends values to a rank, which receives as many bytes with the same tag."""
        own = array(values, "u8", written=False)
        numbers = (own.address, own.count * own.width, to, True, tag)
        self._comm.start_group([numbers], own).wait()

    def receive(self, values: Any, source: int, *, tag: int = 0) -> None:
        """Receives values from a rank. Messages between two ranks keep their order within a tag."""
        own = array(values, "u8", written=True)
        numbers = (own.address, own.count * own.width, source, False, tag)
        self._comm.start_group([numbers], own).wait()

    def receive_any(self, values: Any, *, tag: int = 0) -> int:
        """Receives the next message of any other rank with this tag, and returns that rank. All
        messages that may come are as long as `values`, of at least one byte."""
        own = array(values, "u8", written=True)
        numbers = (own.address, own.count * own.width, None, False, tag)
        work = self._comm.start_transfers([numbers], own)
        work.wait()
        return work.source()

    def exchange(
        self, values: Any, to: int, output: Any, source: int, *, tag: int = 0
    ) -> None:
        """Sends to one rank and receives from another at once, so that no order can deadlock."""
        own, room = array(values, "u8", written=False), array(output, "u8", written=True)
        sends = (own.address, own.count * own.width, to, True, tag)
        receives = (room.address, room.count * room.width, source, False, tag)
        self._comm.start_group([sends, receives], (own, room)).wait()

    def barrier(self) -> None:
        """Waits until all ranks are here."""
        self.all_reduce(bytearray(1), op="max")

    def split(self, color: int, order: int = 0) -> Communicator | None:
        """A communicator of the ranks with this color, ordered by `order` and then by rank; none
        for a color below 0. All ranks call it together."""
        part = self._comm.split(color, order)
        if part is None:
            return None
        made = Communicator.__new__(Communicator)
        made._comm = part
        return made

    def abort(self) -> None:
        """Makes all calls of all ranks with this communicator fail soon. Any thread may call it."""
        self._comm.abort()

    def close(self) -> None:
        """Leaves the other ranks."""
        self._comm.close()

    def _reduce(
        self, what: str, values: Any, output: Any, op: str, type: str | None, root: int = 0
    ) -> None:
        source = array(values, type, written=output is None)
        to = source if output is None else array(output, type, written=True)
        if output is not None:
            self._sizes("all_reduce", "output", to, 1, source)
        self._run(what, source, to, source.count, op, root)

    def _run(
        self, what: str, source: Array, to: Array, count: int, op: str = "sum", root: int = 0
    ) -> None:
        operation = _OPERATIONS.get(op)
        if operation is None:
            raise ValueError(f"there is no operation {op!r}, only {', '.join(_OPERATIONS)}")
        addresses = (source.address, to.address)
        self._comm.run(_COLLECTIVES[what], *addresses, count, source.element, operation, root)

    @staticmethod
    def _sizes(what: str, name: str, one: Array, times: int, other: Array) -> None:
        found, expected = one.count * one.width, times * other.count * other.width
        if found != expected:
            raise ValueError(f"{what}: the {name} has {found} bytes, expected {expected}")
