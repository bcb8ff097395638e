"""What ranks do through torch's store: meeting, and barriers that say who is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable

import torch.distributed as dist


class Store:
    """How the ranks of a group meet: rank 0 writes the id, the others read it."""

    def __init__(self, store: dist.Store, rank: int) -> None:
        self._store = store
        self._rank = rank

    def exchange(self, make: Callable[[], str]) -> str:
        """The id of the next communicator. A store may outlive a group, so ids are counted: each
        rank counts its own joins."""
        number = self._store.add(f"topo/joins/{self._rank}", 1)
        key = f"topo/id/{number}"
        if self._rank == 0:
            made = make()
            self._store.set(key, made)
            return made
        return self._store.get(key).decode()


class MonitoredBarriers:
    """Barriers through the store, which need no communicator."""

    _store: dist.Store
    _rank: int
    _ranks: int
    #: How many there were.
    _barriers = 0

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier through the store, which says which ranks did not come."""
        timeout = opts if isinstance(opts, timedelta) else opts.timeout
        self._barriers += 1
        prefix = f"topo/barrier/{self._barriers}"
        if self._rank != 0:
            self._store.set(f"{prefix}/{self._rank}", "here")
            verdict = self._await_key(f"{prefix}/verdict", timeout * 2)
            if verdict is None:
                verdict = f"rank 0 did not reach it within {2 * timeout.total_seconds():g} s"
            if verdict:
                # Programs look for the words of Gloo in this text and the next ones.
                raise RuntimeError(
                    f"Rank {self._rank} successfully reached monitoredBarrier, but received "
                    f"errors while waiting for send/recv from rank 0: {verdict}"
                )
        else:
            verdict = self._await_ranks(prefix, timeout, wait_all_ranks)
            self._store.set(f"{prefix}/verdict", verdict)
            if verdict:
                raise RuntimeError(verdict)

    def _await_ranks(self, prefix: str, timeout: timedelta, all_ranks: bool) -> str:
        """Rank 0 waits for the others; returns what is wrong, or an empty text."""
        missing = []
        limit = f"{timeout / timedelta(milliseconds=1):g} ms"
        if timeout <= timedelta(0):
            return f"Rank 0 timed out in monitoredBarrier after {limit}"
        left = timeout
        for rank in range(1, self._ranks):
            if self._await_key(f"{prefix}/{rank}", left) is None:
                missing.append(str(rank))
                if not all_ranks:
                    break
                left = timedelta(milliseconds=1)
        if not missing:
            return ""
        who = "Rank" if len(missing) == 1 else "Ranks"
        return f"{who} {', '.join(missing)} failed to pass monitoredBarrier in {limit}"

    def _await_key(self, key: str, timeout: timedelta) -> str | None:
        try:
            self._store.wait([key], timeout)
        except RuntimeError:
            return None
        return self._store.get(key).decode()
