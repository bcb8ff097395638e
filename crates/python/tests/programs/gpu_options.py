"""Two ranks that run the plan of `TOPO_PLAN`, if it is set, add numbers of their GPUs once:
`gpu_options.py processes` or `threads`."""

import array
import multiprocessing
import sys
import threading

import toporing
from gpu_arrays import Interface
from gpu_driver import Driver

COUNT = 16 << 10


def work(identity, rank, failed=None):
    driver = Driver(rank)
    driver.stream = driver.new_stream()
    try:
        with toporing.Communicator(identity, rank, 2, gpu=rank) as comm:
            values = Interface(driver, array.array("I", [rank + 1] * COUNT))
            comm.all_reduce(values)
            values.expect([3] * COUNT)
            while not comm.query():
                pass
        values.free()
    except toporing.CommError as error:
        if failed is None:
            raise
        failed.append(error)
    driver.call("cuStreamDestroy_v2", driver.stream)
    driver.close()


def main():
    identity, kind = toporing.unique_id(), sys.argv[1]
    if kind == "threads":
        failed = []
        other = threading.Thread(target=work, args=(identity, 1, failed))
        other.start()
        work(identity, 0, failed)
        other.join()
        assert not failed, failed
        return
    spawn = multiprocessing.get_context("spawn")
    other = spawn.Process(target=work, args=(identity, 1))
    other.start()
    work(identity, 0)
    other.join()
    assert other.exitcode == 0


if __name__ == "__main__":
    main()
