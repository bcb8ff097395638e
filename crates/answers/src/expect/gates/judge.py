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
    bandwidth = 0.0
    for number, part in enumerate(parts, 1):
        for row in map(str.split, part.splitlines()):
            if row[:1] == [str(size)]:
                figures = [row[column] for column in (7, 11) if column < len(row)]
                figures = [float(it) for it in figures if re.fullmatch(r"\d+\.?\d*", it)]
                bandwidth = max(figures, default=0.0) if number < len(parts) else 0.0
    if bandwidth <= 0:
        raise Unknown(f"{log} has no whole table with {size} bytes")
    return bandwidth


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
def bandwidth(collective, size, status):
    try:
        return measured(collective, size)
    except Unknown as error:
        why = error
    status.unknown += 1
    pytest.fail(f"UNKNOWN: {why}", pytrace=False)


@pytest.mark.parametrize(("collective", "size"), FLOORS)
def test_bus_bandwidth(collective, size, bandwidth):
    assert bandwidth >= FLOORS[collective, size]
