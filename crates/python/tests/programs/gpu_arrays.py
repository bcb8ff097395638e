"""Collectives on arrays of GPUs: `gpu_arrays.py RANKS` starts the other ranks itself, 0: no GPU."""

import array
import ctypes
import multiprocessing
import sys

import toporing
from gpu_driver import Driver, refused


class Values:
    """Values in memory of a GPU."""

    def __init__(self, driver, values, address=None):
        self.driver, self.kind, self.count = driver, values.typecode, len(values)
        self.width = values.itemsize
        self.address = address or driver.allocate(self.nbytes)
        here = (ctypes.c_char * self.nbytes).from_buffer(values)
        driver.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.address), here,
                    ctypes.c_size_t(self.nbytes), driver.stream)

    @property
    def nbytes(self):
        return self.count * self.width

    def expect(self, expected):
        found = array.array(self.kind, bytes(self.nbytes))
        here = (ctypes.c_char * self.nbytes).from_buffer(found)
        self.driver.call("cuMemcpyDtoHAsync_v2", here, ctypes.c_uint64(self.address),
                         ctypes.c_size_t(self.nbytes), self.driver.stream)
        self.driver.call("cuStreamSynchronize", self.driver.stream)
        assert list(found) == list(expected), f"{list(found)} expected {list(expected)}"

    def free(self):
        self.driver.call("cuMemFree_v2", ctypes.c_uint64(self.address))


class Interface(Values):
    """As CuPy and Numba have them."""

    strides, readonly, order = None, False, "<"

    @property
    def __cuda_array_interface__(self):
        kind = self.order + {"f": "f4", "I": "u4", "H": "u2"}[self.kind]
        return {"shape": (self.count,), "typestr": kind, "data": (self.address, self.readonly),
                "strides": self.strides, "stream": self.driver.stream.value, "version": 3}


class Unnamed(Interface):
    """As PyTorch has them: version 2 has no stream."""

    @property
    def __cuda_array_interface__(self):
        return {**{key: value for key, value in super().__cuda_array_interface__.items()
                   if key != "stream"}, "version": 2}


class Elsewhere(Interface):
    """Of an owner that works on another stream."""

    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "stream": None}


class Reserved(Interface):
    """In virtual memory."""

    def __init__(self, driver, values):
        address, self.bytes = driver.reserve(len(values) * values.itemsize)
        super().__init__(driver, values, address)

    def free(self):
        self.driver.give_back(self.address, self.bytes)


class Tensor(ctypes.Structure):
    """`DLManagedTensor` without what only its owner uses."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Packed(Values):
    """As PyTorch has them: bfloats in memory that the interface cannot name."""

    def __dlpack_device__(self):
        return 2, self.driver.gpu

    def __dlpack__(self, *, stream=None):
        # The caller names the stream that orders.
        assert stream == -1
        self.shape = (ctypes.c_int64 * 2)(1, self.count)
        code = {"H": 4, "f": 2}[self.kind]
        self.tensor = Tensor(self.address - 8, 2, self.driver.gpu, 2, code, 8 * self.width, 1,
                             self.shape, None, 8)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


def work(identity, rank, ranks):
    driver = Driver(rank)
    driver.stream = driver.new_stream()
    with toporing.Communicator(identity, rank, ranks, gpu=rank) as comm:
        def of(kind, values, type=Interface):
            made.append(type(driver, array.array(kind, values)))
            return made[-1]

        made = []
        values = of("f", [value + rank for value in range(100)])
        comm.all_reduce(values)
        values.expect(ranks * value + sum(range(ranks)) for value in range(100))
        out = of("I", [0] * 8)
        comm.all_reduce(of("I", [rank] * 8), out, op="max")
        out.expect([ranks - 1] * 8)
        comm.broadcast(out, 0)
        gathered = of("I", [7] * 4 * ranks)
        comm.all_gather(of("I", [rank] * 4), gathered, stream=driver.stream.value)
        gathered.expect(at // 4 for at in range(4 * ranks))
        part = of("f", [0.0] * 2)
        comm.reduce_scatter(of("f", range(2 * ranks)), part)
        part.expect(ranks * (2 * rank + at) for at in range(2))
        moved = of("I", [0] * ranks)
        comm.all_to_all(of("I", [10 * rank + to for to in range(ranks)]), moved)
        moved.expect(10 * since + rank for since in range(ranks))
        came = of("I", [0] * 5)
        after, before = (rank + 1) % ranks, (rank - 1) % ranks
        comm.exchange(of("I", [rank] * 5), after, came, before)
        came.expect([before] * 5)
        if rank == 0:
            comm.send(came, 1)
        elif rank == 1:
            comm.receive(came, 0, stream=driver.stream.value)
            came.expect([ranks - 1] * 5)
        comm.reduce(values, 0)
        # Their owners name no stream, so nothing would order the call.
        halves, ones = of("H", [0x3F80] * 3, Packed), of("f", [1.0] * 8, Unnamed)
        for unordered in (halves, ones):
            refused(lambda: comm.all_reduce(unordered), ValueError, "give `stream=`")
            refused(lambda: comm.send(unordered, 0), ValueError, "give `stream=`")
        refused(lambda: comm.all_reduce(of("f", [0.0] * 8), ones), ValueError, "give `stream=`")
        refused(lambda: comm.all_reduce(of("f", [1.0] * 8, Elsewhere), of("f", [0.0] * 8)), ValueError,
                "name different streams")
        comm.all_reduce(halves, stream=driver.stream.value)
        halves.expect([{2: 0x4000, 4: 0x4080}[ranks]] * 3)
        comm.all_reduce(ones, stream=driver.stream.value)
        ones.expect([ranks] * 8)
        while not comm.query():
            pass

        # So long that the switch reduces it, where it is.
        whole = Reserved(driver, array.array("I", [rank] * (300 << 10)))
        window = comm.register(whole)
        before = driver.library.topo_phantom_multicasts()
        comm.all_reduce(whole)
        whole.expect([sum(range(ranks))] * whole.count)
        assert driver.library.topo_phantom_multicasts() > before
        comm.deregister(window)
        for call, error, why in (
            (lambda: comm.register(values), ValueError, "cuMemCreate"),
            (lambda: comm.register(bytearray(8)), TypeError, "only memory of a GPU"),
            (lambda: comm.deregister(window), ValueError, f"no window {window}"),
        ):
            refused(call, error, why)
        whole.free()

        read_only, apart = of("f", [0.0]), of("f", [0.0] * 4)
        read_only.readonly, apart.strides = True, (8,)
        odd = of("H", [1])
        turned, unknown = of("f", [0.0]), of("f", [0.0])
        turned.order, unknown.order = ">", ""
        for call, error, why in (
            (lambda: comm.all_reduce(read_only), ValueError, "cannot be written"),
            (lambda: comm.all_reduce(apart), ValueError, "not contiguous"),
            (lambda: comm.all_reduce(odd), TypeError, "u16 cannot be reduced"),
            (lambda: comm.all_reduce(odd, type="f32"), ValueError, "f32 has 4 bytes"),
            (lambda: comm.all_reduce(values, type="u8"), ValueError, "u8 has 1 bytes"),
            (lambda: comm.all_reduce(values, out), ValueError, "elements of u32, expected f32"),
            (lambda: comm.all_reduce(turned), TypeError, "byte order"),
            (lambda: comm.all_reduce(unknown), TypeError, "__cuda_array_interface__"),
            (lambda: comm.all_reduce(values, array.array("f", [0] * 100)), TypeError, "copy one"),
            (lambda: comm.receive_any(values), TypeError, "name the rank"),
            (lambda: comm.exchange(values, 0, bytearray(400), 0), TypeError, "copy one"),
            (lambda: comm.send(values, ranks), ValueError, "does not exist"),
            (lambda: comm.all_reduce(bytearray(1), stream=1), TypeError, "a stream is for"),
            (lambda: comm.all_reduce(values, op="BitAnd"), ValueError, ""),
        ):
            refused(call, error, why)
        # Collectives on memory of the host work as without a GPU.
        here = array.array("i", [rank])
        comm.all_reduce(here)
        assert list(here) == [sum(range(ranks))]
        driver.call("cuCtxSynchronize")
        for each in made:
            each.free()
    driver.call("cuStreamDestroy_v2", driver.stream)
    driver.close()


def main():
    ranks = int(sys.argv[1])
    identity = toporing.unique_id()
    if ranks == 0:
        refused(lambda: toporing.Communicator(identity, 0, 1, gpu=0), toporing.CommError,
                "there is no NVIDIA driver")
        return
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=work, args=(identity, rank, ranks)) for rank in range(1, ranks)]
    for other in others:
        other.start()
    work(identity, 0, ranks)
    for other in others:
        other.join()
        assert other.exitcode == 0


if __name__ == "__main__":
    main()
