"""Arrays as memory, by the buffer protocol (numpy's, `array.array`, `bytearray`, `memoryview`), or
on a GPU (CuPy's, Numba's, PyTorch's)."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from toporing import _native
from toporing.gpu_arrays import is_of_gpu, memory

_NUMBERS = {name: number for number, name in enumerate(_native.TYPES)}

#: The formats of the buffer protocol that say how many bytes an integer has only on this machine.
_INTEGERS = {"b": "i", "B": "u", "h": "i", "H": "u", "i": "i", "I": "u", "l": "i", "L": "u",
             "q": "i", "Q": "u", "?": "u", "c": "u"}
_FLOATS = {"e": "f16", "f": "f32", "d": "f64"}


class Array(NamedTuple):
    """An array's memory."""

    #: The owner of the memory.
    owner: Any
    address: int
    count: int
    #: The number of the element type.
    element: int
    #: Bytes of an element.
    width: int
    #: In memory of a GPU: the stream that its owner uses, 0 for the legacy stream.
    stream: int | None = None


def _element(view: memoryview, name: str | None) -> int:
    if name is None:
        code = view.format.lstrip("@=<") if view.format else "B"
        width = view.itemsize * 8
        name = f"{_INTEGERS[code]}{width}" if code in _INTEGERS else _FLOATS.get(code)
        if name is None:
            raise TypeError(
                f"elements of format {view.format!r} cannot be reduced; name their type, one of "
                f"{', '.join(_native.TYPES)}"
            )
    if name not in _NUMBERS:
        raise TypeError(f"there is no element type {name!r}, only {', '.join(_native.TYPES)}")
    return _NUMBERS[name]


def of_gpu(given: Any, type: str | None, *, written: bool) -> Array:
    """The memory of an array on a GPU."""
    address, count, name, stream, owner, readonly = memory(given)
    if written and readonly:
        raise ValueError("the array cannot be written, and the result goes there")
    width = int(name.lstrip("uibf")) // 8
    if type is not None:
        if type not in _NUMBERS:
            raise TypeError(f"there is no element type {type!r}, only {', '.join(_native.TYPES)}")
        total, width = count * width, int(type.lstrip("uibf")) // 8
        count, name = total // width, type
    if name not in _NUMBERS:
        raise TypeError(
            f"elements of type {name} cannot be reduced; name their type, one of "
            f"{', '.join(_native.TYPES)}"
        )
    return Array(owner, address if count else 0, count, _NUMBERS[name], width, stream)


def array(given: Any, type: str | None = None, *, written: bool) -> Array:
    """The memory of an array. A type names elements that the buffer protocol has not, such as
    `bf16` in an array of 16-bit integers."""
    if is_of_gpu(given):
        return of_gpu(given, type, written=written)
    view = memoryview(given)
    if not view.c_contiguous:
        raise ValueError("the array is not contiguous; copy it first")
    if written and view.readonly:
        raise ValueError("the array cannot be written, and the result goes there")
    element = _element(view, type)
    if view.readonly:
        given = bytearray(view.cast("B"))
        count, width = view.nbytes // view.itemsize, view.itemsize
        view = memoryview(given)
    else:
        count, width = view.nbytes // view.itemsize, view.itemsize
    if view.nbytes == 0:
        return Array(given, 0, 0, element, width)
    address = ctypes.addressof(ctypes.c_char.from_buffer(view.cast("B")))
    return Array(given, address, count, element, width)
