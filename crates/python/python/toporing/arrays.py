"""Arrays as memory, by the buffer protocol (numpy's, `array.array`, `bytearray`, `memoryview`), or
on a GPU (CuPy's, Numba's, PyTorch's)."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from toporing import _native
from toporing.gpu_arrays import is_of_gpu, memory

_NUMBERS = {name: number for number, name in enumerate(_native.TYPES)}

#: Bytes of an element of each type.
_WIDTHS = {name: int(name.lstrip("uibf")) // 8 for name in _native.TYPES}

#: The formats of the buffer protocol that say how many bytes an integer has only on this machine.
_INTEGERS = {"b": "i", "B": "u", "h": "i", "H": "u", "i": "i", "I": "u", "l": "i", "L": "u",
             "q": "i", "Q": "u", "?": "u", "c": "u"}
_FLOATS = {"e": "f16", "f": "f32", "d": "f64"}


class Array(NamedTuple):
    """An array's memory."""

    #: What holds the memory as long as it lives: a view of the array, which cannot be resized
    #: meanwhile, or the owner of memory of a GPU.
    owner: Any
    address: int
    #: Bytes of all elements.
    bytes: int
    #: The name of the element type.
    type: str
    #: In memory of a GPU: the stream that its owner uses, 0 for the legacy stream.
    stream: int | None = None

    @property
    def element(self) -> int:
        """The number of the element type."""
        return _NUMBERS[self.type]

    @property
    def elements(self) -> int:
        """How many elements of its type the memory has."""
        return self.bytes // _WIDTHS[self.type]


def array(given: Any, type: str | None = None, *, written: bool) -> Array:
    """The memory of an array. A type names elements that the buffer protocol has not, such as
    `bf16` in an array of 16-bit integers; they are as wide as the array's own."""
    if is_of_gpu(given):
        found = memory(given)
        type = _type(found.name, f"type {found.name}", found.width, type)
        return _of_gpu(found, type, written)
    view = memoryview(given)
    code = view.format.lstrip("@=<") if view.format else "B"
    own = f"{_INTEGERS[code]}{8 * view.itemsize}" if code in _INTEGERS else _FLOATS.get(code)
    type = _type(own, f"format {view.format!r}", view.itemsize, type)
    return _of_host(view, type, written)


def raw(given: Any, *, written: bool) -> Array:
    """The memory of an array as bytes, whatever its elements are."""
    if is_of_gpu(given):
        return _of_gpu(memory(given), "u8", written)
    return _of_host(memoryview(given), "u8", written)


def _type(own: str | None, shown: str, width: int, given: str | None) -> str:
    """The type of elements of `width` bytes: the one that is given, or the array's own."""
    names = ", ".join(_native.TYPES)
    if given is None:
        if own is None or _WIDTHS.get(own) != width:
            raise TypeError(
                f"elements of {shown} cannot be reduced; name their type, one of {names}"
            )
        return own
    if given not in _WIDTHS:
        raise TypeError(f"there is no element type {given!r}, only {names}")
    if _WIDTHS[given] != width:
        raise ValueError(
            f"type: an element of {given} has {_WIDTHS[given]} bytes, and one of the array has "
            f"{width}; give a view of the array whose elements are as wide"
        )
    return given


def _of_host(view: memoryview, type: str, written: bool) -> Array:
    if not view.c_contiguous:
        raise ValueError("the array is not contiguous; copy it first")
    if view.readonly:
        _refuse_written(written)
        view = memoryview(bytearray(view))
    if view.nbytes == 0:
        return Array(view, 0, 0, type)
    return Array(view, ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes, type)


def _of_gpu(found: Any, type: str, written: bool) -> Array:
    if found.readonly:
        _refuse_written(written)
    address = found.address if found.bytes else 0
    return Array(found.owner, address, found.bytes, type, found.stream)


def _refuse_written(written: bool) -> None:
    if written:
        raise ValueError("the array cannot be written, and the result goes there")
