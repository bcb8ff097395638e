"""The cases of a program. All ranks run them in order: all, or those that the arguments name."""

import os
import sys
import traceback

import torch.distributed as dist

_CASES = []


def case(function):
    """Adds a case."""
    _CASES.append(function)
    return function


def run():
    """Runs the cases and leaves the group. A case that fails ends the process."""
    rank, wanted = dist.get_rank(), sys.argv[1:]
    for function in _CASES:
        if wanted and function.__name__ not in wanted:
            continue
        try:
            function()
        except Exception:
            print(f"rank {rank}: {function.__name__} failed", flush=True)
            traceback.print_exc()
            # Ranks that fail alone would leave the others waiting.
            os._exit(1)
        if rank == 0:
            print("passed:", function.__name__, flush=True)
    dist.barrier()
    dist.destroy_process_group()
