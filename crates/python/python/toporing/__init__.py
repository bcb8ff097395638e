"""Plans of NCCL without GPUs, and collectives of processes on CPUs.

`plan` decides as NCCL would on a machine; `Communicator` runs collectives on arrays;
`toporing.torch` is a backend of torch.distributed.
"""

from __future__ import annotations

from toporing import _native
from toporing._native import (
    CommError,
    CommTimeoutError,
    PlanError,
    free_unique_id,
    unique_id,
)
from toporing.answer import Answer
from toporing.comm import Communicator
from toporing.planning import (
    Attempt,
    Bound,
    Candidate,
    Channels,
    Cost,
    Explanation,
    Hop,
    Link,
    Machine,
    Path,
    Plan,
    Search,
    bound,
    diagnose,
    doctor,
    explain,
    log,
    machines,
    matrix,
    nccl_versions,
    plan,
    results,
    step,
)

__version__: str = _native.__version__

__all__ = [
    "Answer",
    "Attempt",
    "Bound",
    "Candidate",
    "Channels",
    "CommError",
    "CommTimeoutError",
    "Communicator",
    "Cost",
    "Explanation",
    "Hop",
    "Link",
    "Machine",
    "Path",
    "Plan",
    "PlanError",
    "Search",
    "__version__",
    "bound",
    "diagnose",
    "doctor",
    "explain",
    "log",
    "machines",
    "matrix",
    "nccl_versions",
    "plan",
    "results",
    "step",
    "free_unique_id",
    "unique_id",
]
