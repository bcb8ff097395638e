"""Tensors as memory: element types, operations, copies of tensors that are not contiguous."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
import torch.distributed as dist

from toporing import _native

_TYPE_NUMBERS = {name: number for number, name in enumerate(_native.TYPES)}
_OPERATION_NUMBERS = {name: number for number, name in enumerate(_native.OPERATIONS)}

_TYPE_NAMES = {
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    # The operations on it are those on bytes that are 0 or 1.
    "bool": "u8",
}

#: Numbers of the types that can be reduced.
TYPES: dict[torch.dtype, int] = {
    getattr(torch, ours): _TYPE_NUMBERS[name]
    for ours, name in _TYPE_NAMES.items()
    if name in _TYPE_NUMBERS and hasattr(torch, ours)
}

#: Those on which the operations are the runtime's.
PLAIN_TYPES = {dtype: number for dtype, number in TYPES.items() if dtype is not torch.bool}

#: The number of bytes as a type, for what only moves.
BYTES = _TYPE_NUMBERS["u8"]

_KINDS = dist.ReduceOp.RedOpType

#: torch's sum; the runtime's is the default of a call.
SUM = _KINDS.SUM

_OPERATION_NAMES = {
    _KINDS.SUM: "sum",
    _KINDS.PRODUCT: "prod",
    _KINDS.MIN: "min",
    _KINDS.MAX: "max",
    _KINDS.AVG: "avg",
    _KINDS.BAND: "band",
    _KINDS.BOR: "bor",
    _KINDS.BXOR: "bxor",
}

#: Numbers of the operations, by torch's own.
OPERATIONS: dict[Any, int] = {
    kind: _OPERATION_NUMBERS[name]
    for kind, name in _OPERATION_NAMES.items()
    if name in _OPERATION_NUMBERS
}

_SUM, _MINIMUM, _MAXIMUM = (OPERATIONS[kind] for kind in (_KINDS.SUM, _KINDS.MIN, _KINDS.MAX))

#: What the operations are on truth values.
_TRUTH_OPERATIONS = {
    _KINDS.SUM: _MAXIMUM,
    _KINDS.PRODUCT: _MINIMUM,
    _KINDS.MIN: _MINIMUM,
    _KINDS.MAX: _MAXIMUM,
    _KINDS.BAND: _MINIMUM,
    _KINDS.BOR: _MAXIMUM,
}


def operation(of: Any, dtype: torch.dtype) -> int:
    """The number of an operation of torch on a type."""
    kind = of.op
    numbers = _TRUTH_OPERATIONS if dtype is torch.bool else OPERATIONS
    number = numbers.get(kind)
    if number is None:
        raise NotImplementedError(f"topo does not reduce {dtype} by {kind.name}")
    return number


def element(dtype: torch.dtype) -> int:
    """The number of a type that can be reduced."""
    number = TYPES.get(dtype)
    if number is None:
        known = ", ".join(str(it).removeprefix("torch.") for it in TYPES)
        raise NotImplementedError(f"topo does not reduce {dtype}, only {known}")
    return number


def reduction(source: torch.Tensor, made: torch.Tensor, by: Any) -> tuple[int, ...]:
    """Addresses, count, type and operation of a reduction; `made` has the counted elements.

    Complex numbers are pairs of real ones, which only sums and averages may take apart.
    """
    if made.dtype.is_complex and by.op in (_KINDS.SUM, _KINDS.AVG):
        source, made = torch.view_as_real(source), torch.view_as_real(made)
    number = operation(by, made.dtype)
    addresses = (source.data_ptr(), made.data_ptr())
    return (*addresses, made.numel(), element(made.dtype), number)


def check(tensor: torch.Tensor) -> None:
    """Refuses tensors whose memory cannot be used."""
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(
            f"topo moves tensors on the CPU and on NVIDIA's GPUs, and this one is on "
            f"{tensor.device}; make a group with a backend for it"
        )
    if tensor.is_sparse or tensor.layout is not torch.strided:
        raise ValueError(f"topo moves dense tensors, and this one is {tensor.layout}")


def one_device(devices: Iterable[torch.device]) -> torch.device:
    """The device of all tensors of a call."""
    found = set(devices)
    if len(found) > 1:
        names = " and ".join(sorted(map(str, found)))
        raise ValueError(f"the tensors of a call are on {names}; copy them to one device")
    return found.pop() if found else torch.device("cpu")


def size(tensor: torch.Tensor) -> int:
    """Bytes of its elements."""
    return tensor.numel() * tensor.element_size()


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy."""
    check(tensor)
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def room(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or contiguous memory of its shape, which is copied to it later."""
    check(tensor)
    if tensor.is_contiguous():
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def adjacent(tensors: list[torch.Tensor]) -> bool:
    """Whether contiguous tensors follow each other in memory."""
    at = tensors[0].data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.data_ptr() != at:
            return False
        at += size(tensor)
    return True


def one_of_each(tensors: list[torch.Tensor], ranks: int, what: str) -> None:
    """Refuses lists that have not one tensor of each rank."""
    if len(tensors) != ranks:
        raise ValueError(
            f"{what}: the list has {len(tensors)} tensors, expected one of each of {ranks} ranks"
        )


def equal_sizes(tensors: list[torch.Tensor], like: torch.Tensor, what: str) -> None:
    """Refuses lists whose tensors differ in type or size."""
    for at, tensor in enumerate(tensors):
        if tensor.dtype != like.dtype or tensor.numel() != like.numel():
            raise ValueError(
                f"{what}: tensor {at} of the list is {tensor.numel()} {tensor.dtype}, expected "
                f"{like.numel()} {like.dtype}"
            )


def copy_back(copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None] | None:
    """What copies results to tensors that are not contiguous; `None` if there are none."""
    if not copies:
        return None

    def copy() -> None:
        with torch.no_grad():
            for to, source in copies:
                to.copy_(source.view(to.shape))

    return copy


def joined(parts: list[torch.Tensor]) -> torch.Tensor:
    """Tensors as one: without a copy if they follow each other in """
    if adjacent(parts):
        first = parts[0]
        return first.as_strided((len(parts) * first.numel(),), (1,))
    return torch.cat([contiguous(part).view(-1) for part in parts])


def blocks(tensor: torch.Tensor, splits: list[int], ranks: int) -> list[tuple[int, int]]:
    """Addresses and bytes of the rows for each rank; no splits: equal parts."""
    at, rows = tensor.data_ptr(), tensor.size(0)
    width = size(tensor) // max(rows, 1)
    if not splits:
        if rows % ranks:
            raise ValueError(
                f"all_to_all: {rows} rows are no multiple of {ranks} ranks; give split sizes"
            )
        part = rows // ranks * width
        return [(at + part * rank, part) for rank in range(ranks)]
    if len(splits) != ranks or sum(splits) != rows or min(splits) < 0:
        raise ValueError(
            f"all_to_all: the split sizes {list(splits)} do not divide {rows} rows among "
            f"{ranks} ranks"
        )
    parts = [count * width for count in splits]
    return [(at + sum(parts[:rank]), part) for rank, part in enumerate(parts)]


def message(tensor: torch.Tensor) -> torch.Tensor:
    """What a message moves. One byte stands in for an empty message, which has no source."""
    return tensor if tensor.numel() else torch.empty(1, dtype=torch.uint8, device=tensor.device)
