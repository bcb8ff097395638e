"""The compiled module: communicators on memory at addresses, answers of the planner as JSON."""

from os import PathLike
from typing import Any, Callable, Sequence

__version__: str

#: Names of the element types, operations and collectives, in the order of their numbers.
TYPES: list[str]
OPERATIONS: list[str]
COLLECTIVES: list[str]

class CommError(RuntimeError): ...
class CommTimeoutError(CommError): ...

def unique_id(interfaces: str | None = None) -> str: ...
def answer(request: bytes) -> str: ...
def read(path: str | PathLike[str]) -> str: ...

class Work:
    def wait(self, seconds: float | None = None) -> bool: ...
    def done(self) -> bool: ...
    def error(self) -> str | None: ...
    def then(self, function: Callable[[str | None], Any]) -> None: ...

class Comm:
    rank: int
    ranks: int
    def __new__(
        cls,
        id: str,
        rank: int,
        ranks: int,
        *,
        timeout: float = 600.0,
        join_timeout: float = 60.0,
        interfaces: str | None = None,
        host_id: str | None = None,
        debug: bool = False,
    ) -> Comm: ...
    def run(
        self,
        collective: int,
        input: int,
        output: int,
        count: int,
        element: int,
        operation: int = 0,
        root: int = 0,
    ) -> None: ...
    def start(
        self, collectives: Sequence[tuple[int, ...]], keep: Any = None
    ) -> Work: ...
    def transfer(self, transfers: Sequence[tuple[int, int, int, bool]]) -> None: ...
    def start_transfers(
        self, transfers: Sequence[tuple[int, int, int, bool]], keep: Any = None
    ) -> Work: ...
    def split(self, color: int, order: int) -> Comm | None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...
