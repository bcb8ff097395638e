"""Adds arrays of four processes."""

import multiprocessing

import numpy
import toporing


def work(identity, rank, ranks):
    with toporing.Communicator(identity, rank, ranks) as comm:
        values = numpy.full(4, rank, dtype="f4")
        comm.all_reduce(values)
        print(f"rank {rank}: {values}")


if __name__ == "__main__":
    ranks, identity = 4, toporing.unique_id()
    spawn = multiprocessing.get_context("spawn").Process
    others = [spawn(target=work, args=(identity, rank, ranks)) for rank in range(1, ranks)]
    for other in others:
        other.start()
    work(identity, 0, ranks)
    for other in others:
        other.join()
