"""The collectives of torch.distributed on a communicator."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from toporing import _native
from toporing._settings import settings
from toporing.torch import tensors as memory
from toporing.torch.store import MonitoredBarriers, Store
from toporing.torch.tensors import BYTES, OPERATIONS, PLAIN_TYPES, SUM, size
from toporing.torch.work import Done, Started, failed

_COLLECTIVES = {name: number for number, name in enumerate(_native.COLLECTIVES)}
BROADCAST = _COLLECTIVES["Broadcast"]
REDUCE = _COLLECTIVES["Reduce"]
ALL_GATHER = _COLLECTIVES["AllGather"]
REDUCE_SCATTER = _COLLECTIVES["ReduceScatter"]
ALL_REDUCE = _COLLECTIVES["AllReduce"]
ALL_TO_ALL = _COLLECTIVES["AllToAll"]

_ERRORS = (_native.CommError, ValueError)


#: Groups that were not shut down. What wraps a backend may hold its C++ half alone.
_OPEN: set[Any] = set()


class Operations(MonitoredBarriers):
    """What a backend and a process group share. `_ranks` and `_rank` describe the group."""

    def _open(self, store: dist.Store, rank: int, ranks: int, timeout: timedelta | None) -> None:
        self._rank, self._ranks = rank, ranks
        self._store = store
        self._sequence = 0
        chosen = settings(os.environ)
        longest = 600.0 if timeout is None else timeout.total_seconds()
        make = lambda: _native.unique_id(chosen["interfaces"])  # noqa: E731
        identity = Store(store, rank).exchange(make)
        try:
            self._comm = _native.Comm(
                identity, rank, ranks, timeout=longest, join_timeout=min(longest, 300.0), **chosen
            )
        except _ERRORS as error:
            raise failed(str(error)) from None
        self._run = self._comm.run
        self._debug = chosen["debug"]
        self._token = torch.zeros(1, dtype=torch.uint8)
        _OPEN.add(self)

    # Launching

    def _launch(
        self,
        options: Any,
        launches: list[tuple[int, ...]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Runs collectives now, or in the background if the caller asks for that."""
        self._sequence += 1
        if self._debug:
            _say_place()
        try:
            if getattr(options, "asyncOp", True):
                return Started(self._comm.start(launches, keep), result, after)
            for launch in launches:
                self._run(*launch)
        except _ERRORS as error:
            raise failed(str(error)) from None
        if after is not None:
            after()
        return Done(result)

    def _move(
        self,
        options: Any,
        transfers: list[tuple[int, int, int, bool]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Runs sends and receives together, now or in the background."""
        self._sequence += 1
        if self._debug:
            _say_place()
        try:
            if getattr(options, "asyncOp", True):
                return Started(self._comm.start_group(transfers, keep), result, after)
            self._comm.transfer(transfers)
        except _ERRORS as error:
            raise failed(str(error)) from None
        if after is not None:
            after()
        return Done(result)

    # Reductions

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work | None:
        # The calls that everybody makes, at little cost; asking an operation for its kind has much.
        tensor = tensors[0]
        number = PLAIN_TYPES.get(tensor.dtype)
        if (
            number is not None
            and opts.reduceOp == SUM
            and not getattr(opts, "asyncOp", True)
            and tensor.is_cpu
            and tensor.is_contiguous()
            and not self._debug
        ):
            at = tensor.data_ptr()
            try:
                self._run(ALL_REDUCE, at, at, tensor.numel(), number)
            except _ERRORS as error:
                raise failed(str(error)) from None
            # torch takes nothing for a call that is done.
            return None
        return self.allreduce_coalesced(tensors, opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        launches, copies = [], []
        for tensor in tensors:
            used = memory.contiguous(tensor)
            if used is not tensor:
                copies.append((tensor, used))
            operation = memory.operation(opts.reduceOp, tensor.dtype)
            at = used.data_ptr()
            element = memory.element(used.dtype)
            launches.append((ALL_REDUCE, at, at, used.numel(), element, operation, 0))
        return self._launch(opts, launches, tensors, (tensors, copies), _copy_back(copies))

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        tensor = tensors[0]
        root = opts.rootRank
        used = memory.contiguous(tensor)
        copies = [(tensor, used)] if used is not tensor and root == self._rank else []
        operation = memory.operation(opts.reduceOp, tensor.dtype)
        at = used.data_ptr()
        launch = (REDUCE, at, at, used.numel(), memory.element(used.dtype), operation, root)
        return self._launch(opts, [launch], tensors, used, _copy_back(copies))

    def reduce_scatter_single(self, output: Any, source: Any, opts: Any) -> dist.Work:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        launches, copies, keep = [], [], []
        for output, source in zip(outputs, inputs):
            if source.numel() != output.numel() * self._ranks or source.dtype != output.dtype:
                raise ValueError(
                    f"reduce_scatter: the input has {source.numel()} {source.dtype}, expected "
                    f"{self._ranks} * {output.numel()} {output.dtype}"
                )
            used, made = memory.contiguous(source), memory.room(output)
            if made is not output:
                copies.append((output, made))
            keep.append((used, made))
            operation = memory.operation(opts.reduceOp, output.dtype)
            element = memory.element(output.dtype)
            addresses = (used.data_ptr(), made.data_ptr())
            launches.append((REDUCE_SCATTER, *addresses, made.numel(), element, operation, 0))
        return self._launch(opts, launches, outputs, keep, _copy_back(copies))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        parts, output = inputs[0], outputs[0]
        memory.equal_sizes(parts, output, "reduce_scatter")
        return self.reduce_scatter_single(output, _joined(parts), opts)

    # Copies

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        tensor = tensors[opts.rootTensor]
        root = opts.rootRank
        used = memory.contiguous(tensor) if root == self._rank else memory.room(tensor)
        copies = [(tensor, used)] if used is not tensor and root != self._rank else []
        at = used.data_ptr()
        launch = (BROADCAST, at, at, size(used), BYTES, 0, root)
        return self._launch(opts, [launch], tensors, used, _copy_back(copies))

    def all_gather_single(self, output: Any, source: Any, opts: Any = None) -> dist.Work:
        return self.all_gather_single_coalesced([output], [source], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> dist.Work:
        launches, copies, keep = [], [], []
        for output, source in zip(outputs, inputs):
            if output.numel() != source.numel() * self._ranks or source.dtype != output.dtype:
                raise ValueError(
                    f"all_gather: the output has {output.numel()} {output.dtype}, expected "
                    f"{self._ranks} * {source.numel()} {source.dtype}"
                )
            used, made = memory.contiguous(source), memory.room(output)
            if made is not output:
                copies.append((output, made))
            keep.append((used, made))
            launches.append((ALL_GATHER, used.data_ptr(), made.data_ptr(), size(used), BYTES, 0, 0))
        return self._launch(opts, launches, outputs, keep, _copy_back(copies))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        return self._gather_lists(outputs, inputs, opts, outputs)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        # torch gives a list for each rank here, with a tensor for each input.
        lists = [list(each) for each in zip(*outputs)]
        return self._gather_lists(lists, inputs, opts, outputs)

    def _gather_lists(self, lists: Any, inputs: Any, opts: Any, result: Any) -> dist.Work:
        launches, copies, keep = [], [], []
        for parts, source in zip(lists, inputs):
            memory.equal_sizes(parts, source, "all_gather")
            used = memory.contiguous(source)
            if memory.adjacent(parts):
                made = parts[0]
            else:
                made = torch.empty((self._ranks, *source.shape), dtype=source.dtype)
                copies.extend(zip(parts, made))
            keep.append((used, made))
            launches.append((ALL_GATHER, used.data_ptr(), made.data_ptr(), size(used), BYTES, 0, 0))
        return self._launch(opts, launches, result, (keep, lists), _copy_back(copies))

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        source = memory.contiguous(inputs[0])
        if self._rank != opts.rootRank:
            transfer = (source.data_ptr(), size(source), opts.rootRank, True)
            return self._move(opts, [transfer], outputs, source)
        parts = outputs[0]
        memory.equal_sizes(parts, source, "gather")
        rooms = [memory.room(part) for part in parts]
        rooms[self._rank].copy_(source)
        transfers = [
            (room.data_ptr(), size(room), rank, False)
            for rank, room in enumerate(rooms)
            if rank != self._rank
        ]
        copies = [(part, room) for part, room in zip(parts, rooms) if part is not room]
        return self._move(opts, transfers, outputs, rooms, _copy_back(copies))

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        output = outputs[0]
        if self._rank != opts.rootRank:
            made = memory.room(output)
            transfer = (made.data_ptr(), size(made), opts.rootRank, False)
            copies = [(output, made)] if made is not output else []
            return self._move(opts, [transfer], outputs, made, _copy_back(copies))
        parts = inputs[0]
        memory.equal_sizes(parts, output, "scatter")
        used = [memory.contiguous(part) for part in parts]
        output.copy_(used[self._rank].view(output.shape))
        transfers = [
            (part.data_ptr(), size(part), rank, True)
            for rank, part in enumerate(used)
            if rank != self._rank
        ]
        return self._move(opts, transfers, outputs, used)

    # All-to-all

    def all_to_all_single(
        self, output: Any, source: Any, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> dist.Work:
        used, made = memory.contiguous(source), memory.room(output)
        copies = [(output, made)] if made is not output else []
        if not output_splits and not input_splits:
            for name, tensor in (("input", used), ("output", made)):
                if tensor.numel() % self._ranks:
                    raise ValueError(
                        f"all_to_all: {tensor.numel()} elements of the {name} are no multiple of "
                        f"{self._ranks} ranks; give split sizes"
                    )
            addresses = (used.data_ptr(), made.data_ptr())
            launch = (ALL_TO_ALL, *addresses, size(used) // self._ranks, BYTES, 0, 0)
            return self._launch(opts, [launch], output, (used, made), _copy_back(copies))
        parts = used.split(_splits(input_splits, used, self._ranks))
        rooms = made.split(_splits(output_splits, made, self._ranks))
        return self._exchange(opts, rooms, parts, output, _copy_back(copies))

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        rooms = [memory.room(output) for output in outputs]
        parts = [memory.contiguous(source) for source in inputs]
        copies = [(output, room) for output, room in zip(outputs, rooms) if output is not room]
        return self._exchange(opts, rooms, parts, outputs, _copy_back(copies))

    def _exchange(
        self, opts: Any, rooms: Any, parts: Any, result: Any, after: Any
    ) -> dist.Work:
        """Sends part i to rank i, and receives from it into room i."""
        own = self._rank
        rooms[own].view(-1).copy_(parts[own].view(-1))
        transfers = []
        for step in range(1, self._ranks):
            to, since = (own + step) % self._ranks, (own - step) % self._ranks
            transfers.append((parts[to].data_ptr(), size(parts[to]), to, True))
            transfers.append((rooms[since].data_ptr(), size(rooms[since]), since, False))
        return self._move(opts, transfers, result, (rooms, parts), after)

    # Messages

    def send(self, tensors: list[torch.Tensor], to: int, tag: int) -> dist.Work:
        _check_tag(tag)
        used = memory.contiguous(tensors[0])
        return self._message((used.data_ptr(), size(used), to, True), tensors, used)

    def recv(self, tensors: list[torch.Tensor], source: int | None, tag: int) -> dist.Work:
        _check_tag(tag)
        tensor = tensors[0]
        made = memory.room(tensor)
        copies = [(tensor, made)] if made is not tensor else []
        transfer = (made.data_ptr(), size(made), source, False)
        return self._message(transfer, tensors, made, _copy_back(copies))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> dist.Work:
        return self.recv(tensors, None, tag)

    def _message(
        self,
        transfer: tuple[int, int, int | None, bool],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None = None,
    ) -> dist.Work:
        """Starts a message, which runs beside all others: no order of them waits for each other."""
        if self._debug:
            _say_place()
        try:
            return Started(self._comm.start_transfers([transfer], keep), result, after)
        except _ERRORS as error:
            raise failed(str(error)) from None

    # Barriers

    def barrier(self, opts: Any = None) -> dist.Work:
        at = self._token.data_ptr()
        launch = (ALL_REDUCE, at, at, 1, BYTES, OPERATIONS[dist.ReduceOp.RedOpType.MAX], 0)
        return self._launch(opts, [launch], [], self._token)

    # Limits

    def set_timeout(self, timeout: timedelta) -> None:
        """Limits the waits of the calls that follow."""
        self._comm.set_timeout(timeout.total_seconds())

    _set_default_timeout = set_timeout

    # The end

    def abort(self) -> None:
        """Makes all calls of all ranks in this group fail. Any thread may call it."""
        self._comm.abort()

    def shutdown(self) -> None:
        """Waits for what was started, and leaves the group."""
        _OPEN.discard(self)
        try:
            self._comm.close()
        except _ERRORS as error:
            raise failed(str(error)) from None

    # Facts

    def _set_sequence_number_for_group(self) -> None:
        """All ranks begin with 0."""

    def _get_sequence_number_for_group(self) -> int:
        """How many calls were made, for torch's debug mode."""
        return self._sequence

    def getBackendName(self) -> str:
        return "topo"

    def name(self) -> str:
        return "topo"

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False


def _copy_back(copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None] | None:
    """What copies results to tensors that are not contiguous; `None` if there are none."""
    if not copies:
        return None

    def copy() -> None:
        with torch.no_grad():
            for to, source in copies:
                to.copy_(source.view(to.shape))

    return copy


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Tensors as one: without a copy if they follow each other in memory."""
    if memory.adjacent(parts):
        first = parts[0]
        return first.as_strided((len(parts) * first.numel(),), (1,))
    return torch.cat([memory.contiguous(part).view(-1) for part in parts])


def _splits(given: list[int], tensor: torch.Tensor, ranks: int) -> list[int]:
    """Rows for each rank; none given: equal parts."""
    if not given:
        rows = tensor.size(0)
        if rows % ranks:
            raise ValueError(
                f"all_to_all: {rows} rows are no multiple of {ranks} ranks; give split sizes"
            )
        return [rows // ranks] * ranks
    if len(given) != ranks or sum(given) != tensor.size(0):
        raise ValueError(
            f"all_to_all: the split sizes {list(given)} do not divide {tensor.size(0)} rows among "
            f"{ranks} ranks"
        )
    return list(given)


def _say_place() -> None:
    """Tells the runtime which line of the user's calls, for errors in debug mode."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("toporing.", "torch.")):
            break
        frame = frame.f_back
    _native.call_site(frame.f_code.co_filename, frame.f_lineno)


def _check_tag(tag: int) -> None:
    if tag != 0:
        raise NotImplementedError(
            f"topo has no tags (found {tag}): messages between two ranks arrive in the order in "
            "which they were sent; leave the tag out"
        )
