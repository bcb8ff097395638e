@HEAD@"""Judges what nccl-tests printed: NCCL_TESTS_OUTPUT names a folder with all_reduce.log and so on.

A size below its floor fails. A size that cannot be judged (no log, no whole table, another number
of GPUs) is UNKNOWN: pytest counts an error instead of a failure, and where nothing fails, it ends
with status 3 instead of 1.
"""

import os
import pathlib
import re

import pytest

RANKS = @RANKS@
FLOORS = {
@FLOORS@}
UNKNOWN_STATUS = 3


class Unknown(Exception):
    """Why a size cannot be judged."""


def measured(collective, size):
    log = pathlib.Path(os.environ.get("NCCL_TESTS_OUTPUT", ".")) / f"{collective}.log"
    if not log.is_file():
        raise Unknown(f"there is no file {log}")
    text = log.read_text(errors="replace")
    ranks = len(set(re.findall(r"^.*#\s+Rank\s+(\d+)\s", text, re.MULTILINE)))
    if ranks != RANKS:
        raise Unknown(f"{log} is of {ranks} GPUs, and the floors are those of {RANKS}")
    # The program prints an average at its end: rows without one after them may be cut.
    parts = re.split(r"#\s*Avg bus bandwidth", text)
    bandwidth, damaged = 0.0, False
    for number, part in enumerate(parts, 1):
        for row in map(str.split, part.splitlines()):
            if row[:1] == [str(size)]:
                gbps = row[7] if len(row) > 7 else ""
                whole = number < len(parts) and re.fullmatch(r"\d+\.?\d*", gbps)
                bandwidth = float(gbps) if whole else 0.0
                counts = row[8::4] if whole else []
                damaged = damaged or any(re.fullmatch(r"0*[1-9]\d*", it) for it in counts)
    if bandwidth <= 0:
        raise Unknown(f"{log} has no whole table with {size} bytes")
    return bandwidth, damaged


class Status:
    """Gives UNKNOWN an exit status of its own."""

    def __init__(self):
        self.unknown = 0

    def pytest_sessionfinish(self, session):
        if self.unknown and session.testsfailed == self.unknown:
            session.exitstatus = UNKNOWN_STATUS


@pytest.fixture(scope="session")
def status(request):
    plugin = Status()
    request.config.pluginmanager.register(plugin)
    return plugin


@pytest.fixture
def measurement(collective, size, status):
    try:
        return measured(collective, size)
    except Unknown as error:
        why = error
    status.unknown += 1
    pytest.fail(f"UNKNOWN: {why}", pytrace=False)


@pytest.mark.parametrize(("collective", "size"), FLOORS)
def test_bus_bandwidth(collective, size, measurement):
    bandwidth, damaged = measurement
    assert not damaged, f"wrong elements at {size} bytes"
    assert bandwidth >= FLOORS[collective, size]
