"""Collectives of processes on arrays."""

from __future__ import annotations

import ctypes
import os
from types import TracebackType
from typing import Any

from toporing import _native
from toporing._expect import expect
from toporing._settings import run_plan, settings
from toporing.arrays import Array, array, raw
from toporing.gpu_arrays import is_of_gpu, ordered
from toporing.planning import Plan

_COLLECTIVES = {name: number for number, name in enumerate(_native.COLLECTIVES)}
_OPERATIONS = {name: number for number, name in enumerate(_native.OPERATIONS)}


class Communicator:
    """One rank's membership in a group of ranks, which are processes on one host or several.

    All ranks call the same collectives in the same order. Arrays are anything with the buffer
    protocol, such as numpy's; `type` names the elements where the protocol has no name, such as
    `bf16`. It is as wide as they are. An array cannot be resized while a call uses it.

    With `gpu`, collectives also take arrays in its memory (`__cuda_array_interface__` or DLPack).
    They are enqueued on `stream`, a handle of the driver, or else on the stream that the arrays'
    owners name, and the call returns: PyTorch's current stream, or the one in version 3 of the
    interface. An array whose owner names none takes `stream`. Keep the arrays until the stream has
    passed; `query` says whether all has ended, and why it failed.

    `CommError` says that a rank failed or left; then only closing is left. Ctrl-C ends a
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
        gpu: int | None = None,
        blocks: int | None = None,
    ) -> None:
        """Joins the other ranks. One rank's process made `identity` with `unique_id`, and it is
        that rank's secret with the others. Times are in seconds.

        `plan` is a plan or the file of one, whose channels, NICs and proxies are used; without it
        the file that `TOPO_PLAN` names, if that has as many ranks. All ranks give the same.

        `gpu` is CUDA's number of this rank's GPU. All ranks give one, or none does. `blocks` is the
        most thread blocks of a collective on it (None: at most 32, and a quarter of those that fit;
        0: all, only if no other communicator of this process runs at the same time), equal on all
        ranks."""
        self._comm = _native.Comm(
            identity,
            rank,
            ranks,
            timeout=timeout,
            join_timeout=join_timeout,
            plan=run_plan(plan, os.environ),
            gpu=gpu,
            blocks=blocks,
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

    def register(self, memory: Any) -> int:
        """Registers an array in memory of the GPU, a window; returns its number. All ranks call it together, in
        the same order with collectives. Collectives on parts of it, at the same place on all ranks, then run
        where they are, reduced and stored by the switch (NVLS). It takes virtual memory, such as `ncclMemAlloc`
        makes and PyTorch's symmetric memory is; otherwise `ValueError` says on all ranks why not."""
        if not is_of_gpu(memory):
            raise TypeError("only memory of a GPU can be registered")
        own = raw(memory, written=True)
        return self._comm.register(own.address, own.bytes)

    def deregister(self, window: int) -> None:
        """Ends a registration, on all ranks in the same order."""
        self._comm.deregister(window)

    def query(self) -> bool:
        """Whether all collectives and messages on arrays of the GPU have ended. Raises `CommError` if one has
        failed; its output is undefined then."""
        return self._comm.query()

    def all_reduce(
        self, values: Any, output: Any = None, *, op: str = "sum", type: str | None = None,
        stream: int | None = None,
    ) -> None:
        """Reduces the values of all ranks, into `output` or in place."""
        self._reduce("AllReduce", values, output, op, type, stream=stream)

    def reduce(
        self, values: Any, root: int, output: Any = None, *, op: str = "sum",
        type: str | None = None, stream: int | None = None,
    ) -> None:
        """Reduces the values of all ranks to the root, into its `output` or in place; arrays of a
        GPU in place only."""
        if output is not None and self.rank != root:
            raise ValueError("only the root of a reduction has an output")
        if output is None:
            return self._reduce("Reduce", values, None, op, type, root, stream)
        source, to = array(values, type, written=False), array(output, type, written=True)
        if source.stream is not None or to.stream is not None:
            raise ValueError("a reduction of arrays of a GPU is in place; copy the root's before")
        self._alike("reduce", "output", to, 1, source)
        # In place on all ranks or on none: the root copies.
        ctypes.memmove(to.address, source.address, to.bytes)
        self._run("Reduce", to, to, to.elements, op, root)

    def broadcast(self, values: Any, root: int, *, stream: int | None = None) -> None:
        """Copies the root's values to all ranks."""
        own = raw(values, written=self.rank != root)
        self._run("Broadcast", own, own, own.elements, "sum", root, stream)

    def all_gather(self, values: Any, output: Any, *, stream: int | None = None) -> None:
        """Copies the values of all ranks to `output`, in rank order."""
        source, to = raw(values, written=False), raw(output, written=True)
        self._alike("all_gather", "output", to, self.ranks, source)
        self._run("AllGather", source, to, source.elements, stream=stream)

    def reduce_scatter(
        self, values: Any, output: Any, *, op: str = "sum", type: str | None = None,
        stream: int | None = None,
    ) -> None:
        """Reduces the values of all ranks; each rank gets its part of the result."""
        source, to = array(values, type, written=False), array(output, type, written=True)
        self._alike("reduce_scatter", "input", source, self.ranks, to)
        self._run("ReduceScatter", source, to, to.elements, op, stream=stream)

    def all_to_all(self, values: Any, output: Any, *, stream: int | None = None) -> None:
        """Sends part i of the values to rank i; part i of the output is from rank i."""
        source, to = raw(values, written=False), raw(output, written=True)
        self._alike("all_to_all", "output", to, 1, source)
        if source.bytes % self.ranks:
            raise ValueError(
                f"all_to_all: {source.bytes} bytes are no multiple of {self.ranks} ranks"
            )
        self._run("AllToAll", source, to, source.elements // self.ranks, stream=stream)

    def send(self, values: Any, to: int, *, tag: int = 0, stream: int | None = None) -> None:
        """Sends values to a rank, which receives as many bytes with the same tag."""
        self._transfer([(raw(values, written=False), to, True)], tag, stream)

    def receive(self, values: Any, source: int, *, tag: int = 0, stream: int | None = None) -> None:
        """Receives values from a rank. Messages between two ranks keep their order within a tag."""
        self._transfer([(raw(values, written=True), source, False)], tag, stream)

    def receive_any(self, values: Any, *, tag: int = 0) -> int:
        """Receives the next message of any other rank with this tag, and returns that rank. All
        messages that may come are as long as `values`, of at least one byte."""
        own = self._host(values, written=True)
        numbers = (own.address, own.bytes, None, False, tag)
        work = self._comm.start_transfers([numbers], own)
        work.wait()
        sender = work.source()
        assert sender is not None, "a receive that has ended knows its sender"
        return sender

    def exchange(
        self, values: Any, to: int, output: Any, source: int, *, tag: int = 0,
        stream: int | None = None,
    ) -> None:
        """Sends to one rank and receives from another at once, so that no order can deadlock."""
        own, room = raw(values, written=False), raw(output, written=True)
        self._transfer([(own, to, True), (room, source, False)], tag, stream)

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
        self, what: str, values: Any, output: Any, op: str, type: str | None, root: int = 0,
        stream: int | None = None,
    ) -> None:
        source = array(values, type, written=output is None)
        to = source if output is None else array(output, type, written=True)
        if output is not None:
            self._alike("all_reduce", "output", to, 1, source)
        self._run(what, source, to, source.elements, op, root, stream)

    @staticmethod
    def _host(values: Any, *, written: bool) -> Array:
        own = raw(values, written=written)
        if own.stream is not None:
            raise TypeError("a receive from any rank takes no array of a GPU; name the rank")
        return own

    def _transfer(
        self, transfers: list[tuple[Array, int, bool]], tag: int, stream: int | None
    ) -> None:
        """Runs transfers together: each an array, the other rank, and whether it sends."""
        numbers = [(own.address, own.bytes, peer, sends, tag) for own, peer, sends in transfers]
        on_gpu = [own.stream for own, _, _ in transfers if own.stream is not None]
        if not on_gpu:
            if stream is not None:
                raise TypeError("a stream is for arrays in memory of a GPU")
            self._comm.start_group(numbers, transfers).wait()
            return
        if len(on_gpu) < len(transfers):
            raise TypeError("one array is in memory of a GPU and the other is not; copy one of them")
        self._comm.transfer_on(numbers, ordered(set(on_gpu), stream))

    def _run(
        self, what: str, source: Array, to: Array, count: int, op: str = "sum", root: int = 0,
        stream: int | None = None,
    ) -> None:
        expect("op", op, str)
        operation = _OPERATIONS.get(op)
        if operation is None:
            raise ValueError(f"there is no operation {op!r}, only {', '.join(_OPERATIONS)}")
        addresses = (source.address, to.address)
        if (source.stream is None) != (to.stream is None):
            raise TypeError("one array is in memory of a GPU and the other is not; copy one of them")
        if source.stream is not None and to.stream is not None:
            numbers = (_COLLECTIVES[what], *addresses, count, source.element, operation, root)
            return self._comm.run_on(numbers, ordered({source.stream, to.stream}, stream))
        if stream is not None:
            raise TypeError("a stream is for arrays in memory of a GPU")
        numbers = (_COLLECTIVES[what], *addresses, count, source.element, operation, root)
        self._comm.run(*numbers, (source, to))

    @staticmethod
    def _alike(what: str, name: str, one: Array, times: int, other: Array) -> None:
        """Refuses arrays of different types, or of another size than `times` that of the other."""
        if one.type != other.type:
            raise ValueError(
                f"{what}: the {name} has elements of {one.type}, expected {other.type}"
            )
        expected = times * other.bytes
        if one.bytes != expected:
            raise ValueError(f"{what}: the {name} has {one.bytes} bytes, expected {expected}")
