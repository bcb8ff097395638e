"""Runs torch's own `distributed_test.py` on a backend: `distributed.py BACKEND RANKS [REGEX]`.

Prints a line of JSON for each test: its name, `pass`, `fail` or `skip`, the seconds and the reason.
Tests that torch marks as Gloo's run for topo, too, and those of all-to-all that it marks as MPI's run
for both. Ranks are forked, which saves an import of torch for each. `cargo xtask torch-suite` runs it
for topo and Gloo and compares them.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

#: Longest run of a test, in seconds.
LONGEST = 60

BACKEND, RANKS = sys.argv[1], int(sys.argv[2])
PATTERN = re.compile(sys.argv[3] if len(sys.argv) > 3 else "")
FOLDER = tempfile.mkdtemp()
os.environ.update(
    BACKEND=BACKEND,
    WORLD_SIZE=str(RANKS),
    TEMP_DIR=FOLDER,
    OMP_NUM_THREADS="1",
    MASTER_ADDR="127.0.0.1",
    GLOO_SOCKET_IFNAME="lo",
)

import torch  # noqa: E402
from torch.testing._internal import common_distributed as common  # noqa: E402

if BACKEND == "topo":
    import toporing.torch  # noqa: F401
    for backends in common.DistTestCases.backend_feature.values():
        if "gloo" in backends:
            backends.add("topo")
# Small worlds are what runs here.
common.skip_if_small_worldsize = lambda test: test
common.TIMEOUT_DEFAULT = LONGEST
common.TIMEOUT_OVERRIDE.clear()


def load():
    """The module of the tests, as if it were written for the backend."""
    name = "torch.testing._internal.distributed.distributed_test"
    with open(importlib.util.find_spec(name).origin) as source:
        text = source.read()
    if BACKEND == "topo":
        text = text.replace('"gloo"', '"topo"').replace("dist.Backend.GLOO", '"topo"')
        text = text.replace("return dist.is_gloo_available()", "return True")
    text = text.replace('BACKEND != "mpi", "Only MPI', 'False, "Only MPI')
    path = os.path.join(FOLDER, "distributed_test_of_backend.py")
    with open(path, "w") as copy:
        copy.write(text)
    spec = importlib.util.spec_from_file_location("distributed_test_of_backend", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


MODULE = load()


class Suite(MODULE.TestDistBackend, MODULE.DistributedTest._DistTestBase):
    """The tests, each with forked ranks."""

    def setUp(self):
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


@contextlib.contextmanager
def captured(log):
    """Sends what this process and its children print to a file."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(log.fileno(), 1), os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
            os.close(copy)


def run(name):
    result, since = unittest.TestResult(), time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        with captured(log):
            Suite(name).run(result)
        log.seek(0)
        said = log.read()
    errors = [text for _, text in result.failures + result.errors]
    state = "skip" if result.skipped or "sandcastle" in said.lower() else "pass"
    why = "".join(reason for _, reason in result.skipped)
    if errors:
        # The last error is that of the rank that failed first.
        lines = re.findall(r"^(?:\[.*\] )?(\w+(?:Error|Exception): .+)", said + errors[0], re.M)
        state, why = "fail", (lines or errors)[-1][:300]
    seconds = round(time.monotonic() - since, 1)
    print(json.dumps({"test": name, "state": state, "seconds": seconds, "why": why}), flush=True)


if __name__ == "__main__":
    sys.modules["__main__"].Suite = Suite
    for name in unittest.TestLoader().getTestCaseNames(Suite):
        if PATTERN.search(name):
            run(name)
    shutil.rmtree(FOLDER)
