"""Arrays on GPUs as memory, by `__cuda_array_interface__` or by DLPack."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

#: DLPack's number of CUDA memory, and of memory that CUDA manages.
_CUDA, _MANAGED = 2, 13

#: Stands for a stream where an array's owner names none, so that nothing orders what uses it.
UNORDERED = -1

#: DLPack's number for a producer that is to order nothing.
_NOT_ORDERED = -1

#: The first version of the interface that has a stream.
_WITH_STREAM = 3

#: DLPack's codes of types: signed and unsigned integers, floats, bfloats, Boolean values.
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "u"}


class Memory(NamedTuple):
    """What an array on a GPU says of itself."""

    address: int
    #: Bytes of all elements, and of one.
    bytes: int
    width: int
    #: The element type, such as `f32`.
    name: str
    #: The stream that its owner uses, 0 for the legacy stream; `UNORDERED` if it names none.
    stream: int
    #: What keeps the memory.
    owner: Any
    readonly: bool


def is_of_gpu(given: Any) -> bool:
    """Whether an array is in memory of a GPU."""
    if _interface(given) is not None:
        return True
    device = getattr(given, "__dlpack_device__", None)
    return device is not None and device()[0] in (_CUDA, _MANAGED)


def ordered(streams: set[int], given: int | None) -> int:
    """The stream of a call on arrays whose owners use these streams. `given` is the caller's."""
    if given is not None:
        return given
    if UNORDERED in streams:
        raise ValueError(
            "an array's owner does not say on which stream it works (`__cuda_array_interface__` "
            "before version 3, or DLPack); give `stream=`, the handle of the stream that wrote the "
            "array and that uses the result"
        )
    if len(streams) > 1:
        raise ValueError("the arrays' owners name different streams; give one by `stream=`")
    return next(iter(streams))


def memory(given: Any) -> Memory:
    """The memory of an array on a GPU."""
    own = _by_interface(given) or _by_dlpack(given)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        # Neither protocol tells the stream that torch works on.
        return own._replace(stream=torch.cuda.current_stream(given.device).cuda_stream)
    return own


def _by_interface(given: Any) -> Memory | None:
    interface = _interface(given)
    if interface is None:
        return None
    try:
        typestr = str(interface["typestr"])
        order, kind, width = typestr[0], typestr[1], int(typestr[2:])
        shape = tuple(map(int, interface["shape"]))
        address, readonly = interface["data"]
        version, stream = int(interface.get("version", 0)), interface.get("stream")
        if stream is None and version < _WITH_STREAM:
            stream = UNORDERED
        # 1 is the legacy stream. Without a stream the data is complete, as Numba's is that works on
        # the legacy stream.
        stream = 0 if stream in (None, 1) else int(stream)
    except (KeyError, IndexError, TypeError, ValueError) as why:
        raise TypeError(f"__cuda_array_interface__ is not as CUDA's tools write it: {why!r}") from None
    if order == ">":
        raise TypeError(f"elements of type {typestr} have the byte order of another machine")
    name = {"i": "i", "u": "u", "f": "f", "b": "u"}.get(kind, kind) + str(8 * width)
    _expect_contiguous(shape, interface.get("strides"), width)
    size = _product(shape) * width
    return Memory(address or 0, size, width, name, stream, given, bool(readonly))


def _interface(given: Any) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] | None = given.__cuda_array_interface__
        return found
    except (AttributeError, TypeError, RuntimeError):
        # PyTorch raises them for memory of the host and for types that the interface lacks.
        return None


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def _expect_contiguous(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, width: int
) -> None:
    expected = width
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and stride != expected:
            raise ValueError("the array is not contiguous; copy it first")
        expected *= max(length, 1)


class _Tensor(ctypes.Structure):
    """`DLTensor`, with which a `DLManagedTensor` begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def _by_dlpack(given: Any) -> Memory:
    # The caller's stream orders the call and what follows it. The capsule frees what it holds.
    capsule = given.__dlpack__(stream=_NOT_ORDERED)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.lanes != 1 or tensor.code not in _CODES or tensor.bits % 8:
        raise TypeError(f"elements of DLPack's type {tensor.code} cannot be reduced")
    shape = tuple(tensor.shape[: tensor.ndim])
    width = tensor.bits // 8
    strides = None
    if tensor.strides:
        strides = tuple(width * stride for stride in tensor.strides[: tensor.ndim])
    _expect_contiguous(shape, strides, width)
    address = (tensor.data or 0) + tensor.byte_offset
    name = f"{_CODES[tensor.code]}{tensor.bits}"
    return Memory(address, _product(shape) * width, width, name, UNORDERED, (given, capsule), False)
