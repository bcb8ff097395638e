"""The driver's own functions, for programs with arrays in memory of a GPU."""

import ctypes


class Driver:
    """The driver, with the context of a GPU."""

    def __init__(self, gpu):
        self.library, self.gpu = ctypes.CDLL("libcuda.so.1"), gpu
        self.call("cuInit", ctypes.c_uint(0))
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ctypes.c_int(gpu))
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments, expected=(0,)):
        error = getattr(self.library, name)(*arguments)
        assert error in expected, f"{name}: {error}"
        return error

    def new_stream(self):
        """A stream that the legacy stream does not wait for."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(1))
        return stream

    def allocate(self, count):
        """The address of so many bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def reserve(self, count):
        """The address of so many bytes, rounded up to granules, that a multicast can be bound to."""
        granule = 2 << 20
        count = -(-count // granule) * granule
        # `CUmemAllocationProp`: pinned memory of the GPU, with descriptors. `CUmemAccessDesc`.
        kind = (ctypes.c_int * 8)(1, 1, 1, self.gpu)
        access = (ctypes.c_int * 3)(1, self.gpu, 3)
        memory, address = ctypes.c_uint64(), ctypes.c_uint64()
        size, zero = ctypes.c_size_t(count), ctypes.c_uint64()
        self.call("cuMemCreate", ctypes.byref(memory), size, kind, zero)
        self.call("cuMemAddressReserve", ctypes.byref(address), size, ctypes.c_size_t(), zero, zero)
        self.call("cuMemMap", address, size, ctypes.c_size_t(), memory, zero)
        self.call("cuMemSetAccess", address, size, access, ctypes.c_size_t(1))
        self.call("cuMemRelease", memory)
        return address.value, count

    def give_back(self, address, count):
        self.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(count))
        self.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(count))

    def close(self):
        self.call("cuDevicePrimaryCtxRelease_v2", ctypes.c_int(self.gpu))


def refused(call, error, why):
    """Expects an error with these words."""
    try:
        call()
    except error as found:
        assert why in str(found), found
        return
    raise AssertionError(f"taken, although {why}")
