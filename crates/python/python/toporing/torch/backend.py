"""The collectives of torch.distributed on a communicator."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from toporing import _native
from toporing._settings import run_plan, settings
from toporing.torch import tensors as memory
from toporing.torch.events import is_on, recorded
from toporing.torch.gpu import Lanes
from toporing.torch.launching import Launching
from toporing.torch.sparse import sum_of
from toporing.torch.store import MonitoredBarriers, Store
from toporing.torch.tensors import BYTES, OPERATIONS, PLAIN_TYPES, SUM, copy_back, size
from toporing.torch.work import Done, failed

_COLLECTIVES = {name: number for number, name in enumerate(_native.COLLECTIVES)}
BROADCAST = _COLLECTIVES["Broadcast"]
REDUCE = _COLLECTIVES["Reduce"]
ALL_GATHER = _COLLECTIVES["AllGather"]
REDUCE_SCATTER = _COLLECTIVES["ReduceScatter"]
ALL_REDUCE = _COLLECTIVES["AllReduce"]

_ERRORS = (_native.CommError, ValueError)


class _Now:
    """Options of a call that is done when it returns."""

    asyncOp = False


_NOW = _Now()

#: Groups that were not shut down. What wraps a backend may hold its C++ half alone.
_OPEN: set[Any] = set()


class Operations(Launching, MonitoredBarriers):
    """What a backend and a process group share. `_ranks` and `_rank` describe the group."""

    def _open(
        self,
        store: dist.Store,
        rank: int,
        ranks: int,
        timeout: timedelta | None,
        options: Any,
    ) -> None:
        self._rank, self._ranks = rank, ranks
        self._store = store
        chosen = settings(os.environ)
        # Before the others wait for this rank.
        self._run_plan = run = run_plan(options.plan, os.environ)
        self._blocks = options.blocks
        self._longest = 600.0 if timeout is None else timeout.total_seconds()
        make = lambda: _native.unique_id(chosen["interfaces"])  # noqa: E731

        def join(at: Store, rank: int, ranks: int, **more: Any) -> _native.Comm:
            return _native.Comm(
                at.exchange(make),
                rank,
                ranks,
                timeout=self._longest,
                join_timeout=min(self._longest, 300.0),
                **chosen,
                **more,
            )

        def join_on_gpu(name: str, part_rank: int, part: int, gpu: int) -> _native.Comm:
            at = Store(dist.PrefixStore(name, store), part_rank)
            # A pair of ranks obeys the settings of the plan.
            plan = run if run is None or part == ranks else (*run[:2], False)
            return join(at, part_rank, part, gpu=gpu, blocks=options.blocks, plan=plan)

        try:
            self._comm = join(Store(store, rank), rank, ranks, plan=run)
        except _ERRORS as error:
            raise failed(error) from None
        self._lanes = Lanes(rank, ranks, join_on_gpu)
        self._run = self._comm.run
        self._debug = chosen["debug"]
        self._token = torch.zeros(1, dtype=torch.uint8)
        _OPEN.add(self)

    # Reductions

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work | None:
        # The calls that everybody makes, at little cost; asking an operation for its kind has much.
        tensor = tensors[0]
        if tensor.is_sparse:
            return self._allreduce_sparse(tensors, opts)
        number = PLAIN_TYPES.get(tensor.dtype)
        if (
            number is not None
            and opts.reduceOp == SUM
            and not getattr(opts, "asyncOp", True)
            and tensor.is_cpu
            and tensor.is_contiguous()
            and not self._debug
            and not is_on()
        ):
            at = tensor.data_ptr()
            try:
                self._run(ALL_REDUCE, at, at, tensor.numel(), number, 0, 0, tensor)
            except _ERRORS as error:
                raise failed(error) from None
            # torch takes nothing for a call that is done.
            return None
        return self.allreduce_coalesced(tensors, opts)

    @recorded("all_reduce")
    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        launches, copies = [], []
        on = memory.one_device(tensor.device for tensor in tensors)
        for tensor in tensors:
            used = memory.contiguous(tensor)
            if used is not tensor:
                copies.append((tensor, used))
            launches.append((ALL_REDUCE, *memory.reduction(used, used, opts.reduceOp), 0))
        return self._launch(opts, on, launches, tensors, (tensors, copies), copy_back(copies))

    @recorded("sparse_all_reduce")
    def _allreduce_sparse(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        if opts.reduceOp != SUM:
            raise NotImplementedError("topo reduces sparse tensors only by SUM")
        for tensor in tensors:
            if not tensor.is_cpu:
                raise NotImplementedError("topo reduces sparse tensors on the CPU only")
            sum_of(tensor, self._gather_now)
        return Done(tensors)

    def allreduce_sparse(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        return self._allreduce_sparse(tensors, opts)

    def _gather_now(self, source: torch.Tensor) -> torch.Tensor:
        made = torch.empty((self._ranks, *source.shape), dtype=source.dtype)
        launch = (ALL_GATHER, source.data_ptr(), made.data_ptr(), size(source), BYTES, 0, 0)
        self._launch(_NOW, source.device, [launch], made, (source, made))
        return made

    @recorded("reduce")
    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        tensor = tensors[0]
        root = opts.rootRank
        used = memory.contiguous(tensor)
        copies = [(tensor, used)] if used is not tensor and root == self._rank else []
        launch = (REDUCE, *memory.reduction(used, used, opts.reduceOp), root)
        return self._launch(opts, tensor.device, [launch], tensors, used, copy_back(copies))

    @recorded("reduce_scatter_tensor", 1)
    def reduce_scatter_single(self, output: Any, source: Any, opts: Any) -> dist.Work:
        return self._reduce_scatter([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    @recorded("reduce_scatter_tensor_coalesced", 1)
    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        return self._reduce_scatter(outputs, inputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        launches, copies, keep = [], [], []
        on = memory.one_device(tensor.device for tensor in (*outputs, *inputs))
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
            launches.append((REDUCE_SCATTER, *memory.reduction(used, made, opts.reduceOp), 0))
        return self._launch(opts, on, launches, outputs, keep, copy_back(copies))

    @recorded("reduce_scatter", 1)
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        parts, output = inputs[0], outputs[0]
        memory.one_of_each(parts, self._ranks, "reduce_scatter")
        if len({part.numel() for part in parts}) > 1:
            return self._reduce_each(output, parts, opts)
        memory.equal_sizes(parts, output, "reduce_scatter")
        return self._reduce_scatter([output], [memory.joined(parts)], opts)

    def _reduce_each(self, output: Any, parts: Any, opts: Any) -> dist.Work:
        """Reduces part i to rank i. Parts of different sizes are so on all ranks."""
        memory.equal_sizes([parts[self._rank]], output, "reduce_scatter")
        on = memory.one_device(tensor.device for tensor in (output, *parts))
        # In place: what the others reduce stays as it is, and the result needs memory of its own.
        used = [memory.contiguous(part) for part in parts]
        made = memory.room(output)
        made.view(-1).copy_(used[self._rank].view(-1))
        used[self._rank] = made
        launches = [
            (REDUCE, *memory.reduction(part, part, opts.reduceOp), root)
            for root, part in enumerate(used)
        ]
        copies = [(output, made)] if made is not output else []
        return self._launch(opts, on, launches, [output], used, copy_back(copies))

    # Copies

    @recorded("broadcast")
    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        tensor = tensors[opts.rootTensor]
        root = opts.rootRank
        used = memory.contiguous(tensor) if root == self._rank else memory.room(tensor)
        copies = [(tensor, used)] if used is not tensor and root != self._rank else []
        at = used.data_ptr()
        launch = (BROADCAST, at, at, size(used), BYTES, 0, root)
        return self._launch(opts, tensor.device, [launch], tensors, used, copy_back(copies))

    @recorded("all_gather_into_tensor", 1)
    def all_gather_single(self, output: Any, source: Any, opts: Any = None) -> dist.Work:
        return self._all_gather([output], [source], opts)

    _allgather_base = all_gather_single

    @recorded("all_gather_into_tensor_coalesced", 1)
    def all_gather_single_coalesced(
        self, outputs: Any, inputs: Any, opts: Any = None
    ) -> dist.Work:
        return self._all_gather(outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        launches, copies, keep = [], [], []
        on = memory.one_device(tensor.device for tensor in (*outputs, *inputs))
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
        return self._launch(opts, on, launches, outputs, keep, copy_back(copies))

    @recorded("all_gather", 1)
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        return self._gather_lists(outputs, inputs, opts, outputs)

    @recorded("all_gather", 1)
    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        # torch gives a list for each rank here, with a tensor for each input.
        lists = [list(each) for each in zip(*outputs)]
        return self._gather_lists(lists, inputs, opts, outputs)

    def _gather_lists(self, lists: Any, inputs: Any, opts: Any, result: Any) -> dist.Work:
        launches, copies, keep = [], [], []
        on = memory.one_device(it.device for tensors in (inputs, *lists) for it in tensors)
        for parts, source in zip(lists, inputs):
            memory.one_of_each(parts, self._ranks, "all_gather")
            memory.equal_sizes(parts, source, "all_gather")
            used = memory.contiguous(source)
            if memory.adjacent(parts):
                made = parts[0]
            else:
                shape = (self._ranks, *source.shape)
                made = torch.empty(shape, dtype=source.dtype, device=on)
                copies.extend(zip(parts, made))
            keep.append((used, made))
            launches.append((ALL_GATHER, used.data_ptr(), made.data_ptr(), size(used), BYTES, 0, 0))
        return self._launch(opts, on, launches, result, (keep, lists), copy_back(copies))

    @recorded("gather", 1)
    def gather(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        source = memory.contiguous(inputs[0])
        if self._rank != opts.rootRank:
            transfer = (source.data_ptr(), size(source), opts.rootRank, True, None)
            return self._move(opts, source.device, [transfer], outputs, source)
        parts = outputs[0]
        on = memory.one_device(tensor.device for tensor in (source, *parts))
        memory.one_of_each(parts, self._ranks, "gather")
        memory.equal_sizes(parts, source, "gather")
        rooms = [memory.room(part) for part in parts]
        rooms[self._rank].copy_(source)
        transfers = [
            (room.data_ptr(), size(room), rank, False, None)
            for rank, room in enumerate(rooms)
            if rank != self._rank
        ]
        copies = [(part, room) for part, room in zip(parts, rooms) if part is not room]
        return self._move(opts, on, transfers, outputs, rooms, copy_back(copies))

    @recorded("scatter", 1)
    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> dist.Work:
        output = outputs[0]
        if self._rank != opts.rootRank:
            made = memory.room(output)
            transfer = (made.data_ptr(), size(made), opts.rootRank, False, None)
            copies = [(output, made)] if made is not output else []
            return self._move(opts, made.device, [transfer], outputs, made, copy_back(copies))
        parts = inputs[0]
        on = memory.one_device(tensor.device for tensor in (output, *parts))
        memory.one_of_each(parts, self._ranks, "scatter")
        memory.equal_sizes(parts, output, "scatter")
        used = [memory.contiguous(part) for part in parts]
        output.copy_(used[self._rank].view(output.shape))
        transfers = [
            (part.data_ptr(), size(part), rank, True, None)
            for rank, part in enumerate(used)
            if rank != self._rank
        ]
        return self._move(opts, on, transfers, outputs, used)

    # All-to-all

    @recorded("all_to_all", 1)
    def all_to_all_single(
        self, output: Any, source: Any, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> dist.Work:
        # Always as transfers: other ranks may give splits where this one gives none.
        on = memory.one_device((source.device, output.device))
        used, made = memory.contiguous(source), memory.room(output)
        copies = [(output, made)] if made is not output else []
        sent = memory.blocks(used, input_splits, self._ranks)
        received = memory.blocks(made, output_splits, self._ranks)
        return self._exchange(opts, on, sent, received, output, (used, made), copy_back(copies))

    alltoall_base = all_to_all_single

    @recorded("all_to_all", 1)
    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        on = memory.one_device(tensor.device for tensor in (*outputs, *inputs))
        memory.one_of_each(outputs, self._ranks, "all_to_all")
        memory.one_of_each(inputs, self._ranks, "all_to_all")
        rooms = [memory.room(output) for output in outputs]
        parts = [memory.contiguous(source) for source in inputs]
        copies = [(output, room) for output, room in zip(outputs, rooms) if output is not room]
        sent = [(part.data_ptr(), size(part)) for part in parts]
        received = [(room.data_ptr(), size(room)) for room in rooms]
        keep = (rooms, parts)
        return self._exchange(opts, on, sent, received, outputs, keep, copy_back(copies))

    def _exchange(
        self,
        opts: Any,
        on: torch.device,
        sent: list[tuple[int, int]],
        received: list[tuple[int, int]],
        result: Any,
        keep: Any,
        after: Callable[[], None] | None,
    ) -> dist.Work:
        """Sends block i to rank i, and receives from it; blocks are addresses and bytes."""
        transfers = [(at, count, rank, True, None) for rank, (at, count) in enumerate(sent)]
        transfers += [(at, count, rank, False, None) for rank, (at, count) in enumerate(received)]
        if sent[self._rank] == received[self._rank]:
            # The own block stays where it is.
            transfers = [it for it in transfers if it[2] != self._rank]
        return self._move(opts, on, transfers, result, keep, after)

    # Messages

    @recorded("send")
    def send(self, tensors: list[torch.Tensor], to: int, tag: int) -> dist.Work:
        used = memory.message(memory.contiguous(tensors[0]))
        transfer = (used.data_ptr(), size(used), to, True, tag)
        return self._message(used.device, transfer, tensors, used)

    @recorded("recv")
    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> dist.Work:
        return self._receive(tensors, source, tag)

    @recorded("recvAnySource")
    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> dist.Work:
        return self._receive(tensors, None, tag)

    def _receive(self, tensors: list[torch.Tensor], source: int | None, tag: int) -> dist.Work:
        tensor = tensors[0]
        made = memory.room(tensor)
        copies = [(tensor, made)] if made is not tensor else []
        made = memory.message(made)
        transfer = (made.data_ptr(), size(made), source, False, tag)
        return self._message(made.device, transfer, tensors, made, copy_back(copies))

    # Barriers

    @recorded("barrier", 1)
    def barrier(self, opts: Any = None) -> dist.Work:
        at = self._token.data_ptr()
        launch = (ALL_REDUCE, at, at, 1, BYTES, OPERATIONS[dist.ReduceOp.RedOpType.MAX], 0)
        for lane in self._lanes:
            lane.finish()
        return self._launch(opts, self._token.device, [launch], [], self._token)

    # Limits

    def set_timeout(self, timeout: timedelta) -> None:
        """Limits the waits of the calls that follow."""
        self._longest = timeout.total_seconds()
        for comm in self._comms():
            comm.set_timeout(self._longest)
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # The end

    def abort(self) -> None:
        """Makes all calls of all ranks in this group fail. Any thread may call it."""
        for comm in self._comms():
            comm.abort()

    def shutdown(self) -> None:
        """Waits for what was started, and leaves the group."""
        _OPEN.discard(self)
        try:
            for comm in self._comms():
                comm.close()
        except _ERRORS as error:
            raise failed(error) from None

    def _comms(self) -> list[_native.Comm]:
        return [*(lane.comm for lane in self._lanes), self._comm]

    # GPUs

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Joins the other ranks on their GPUs; otherwise the first call with tensors there does."""
        if device.type == "cuda":
            self._lanes.of_all(device)

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
        return True

    @property
    def supports_coalescing(self) -> bool:
        return True

