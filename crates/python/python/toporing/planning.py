"""What NCCL decides on a machine, without GPUs: plans, costs, bounds, paths.

    plan = toporing.plan("dgx-h100", hosts=2, settings={"NCCL_ALGO": "Ring"})
    plan.cost("all-reduce", 1 << 20).time_us

A topology is the name of a built-in machine (`machines()` lists them), the path of a file of NCCL
(`NCCL_TOPO_DUMP_FILE`), or its bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Mapping, Sequence, Union

from toporing import _native

Topology = Union[str, bytes, "PathLike[str]"]


class PlanError(ValueError):
    """The topology cannot be read or planned, or an option is wrong. The text names file and line."""


@dataclass(frozen=True)
class Machine:
    """A machine that is built in."""

    name: str
    title: str
    summary: str


@dataclass(frozen=True)
class Channels:
    """The channels of one kind of graph on a host."""

    #: `ring`, `tree`, `collnet chain` and others.
    kind: str
    count: int
    #: GB/s of each channel inside a host.
    bandwidth_gbps: float
    #: GB/s of each channel between hosts.
    network_gbps: float


@dataclass(frozen=True)
class Attempt:
    """One attempt of a search."""

    asks: str
    found: str
    next: str
    bandwidth_gbps: float


@dataclass(frozen=True)
class Search:
    """How the channels of a graph were found."""

    kind: str
    story: str
    attempts: list[Attempt]


@dataclass(frozen=True)
class Candidate:
    """An algorithm with a protocol."""

    choice: str
    time_us: float


@dataclass(frozen=True)
class Cost:
    """What NCCL chooses for a collective of a size, and what it expects."""

    collective: str
    bytes: int
    #: Algorithm and protocol; none if nothing can run.
    choice: str | None
    time_us: float | None
    #: Bus bandwidth, GB/s.
    bus_gbps: float | None
    channels: int | None
    candidates: list[Candidate]


@dataclass(frozen=True)
class Bound:
    """What no schedule of a collective exceeds on the links of a job."""

    operation: str
    #: GB/s, proved.
    bound_gbps: float
    #: GB/s that NCCL's channels reach.
    nccl_gbps: float | None
    #: What limits it.
    limit: str


@dataclass(frozen=True)
class Hop:
    """A link of a path."""

    source: str
    to: str
    link: str
    bandwidth_gbps: float
    #: Type of the path up to here.
    so_far: str
    #: Whether it is the narrowest link.
    narrowest: bool


@dataclass(frozen=True)
class Path:
    """A path between two devices."""

    type: str
    bandwidth_gbps: float
    hops: list[Hop]
    reason: str


@dataclass(frozen=True)
class Explanation:
    """Why two devices are as far apart as they are."""

    source: str
    to: str
    widest: Path
    #: The path that NCCL takes in its place, and why.
    diverted: tuple[Path, str] | None
    #: What NCCL decides about the pair: P2P, GPUDirect RDMA.
    verdicts: Any


@dataclass(frozen=True)
class Plan:
    """Everything that NCCL decides for a job."""

    name: str
    summary: str
    nccl_version: str
    ranks: int
    channels: list[Channels]
    searches: list[Search]
    costs: list[Cost]
    #: Names of the devices of a host, for `explain`.
    devices: list[str]
    #: What is odd about the file or the settings.
    notes: list[str]
    #: The plan as `topo plan --json` writes it.
    json: str = field(repr=False)
    #: The graphs as NCCL's `NCCL_GRAPH_FILE`, if they can be written.
    graph_xml: str | None = field(repr=False)
    #: A picture of a host.
    svg: str = field(repr=False)
    _job: dict[str, Any] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The plan as Python values."""
        return json.loads(self.json)

    def cost(self, collective: str, bytes: int) -> Cost:
        """What NCCL chooses for a collective (`all-reduce`, `all-gather`, `reduce-scatter`,
        `broadcast`, `reduce`) of this size."""
        request = {"do": "cost", "job": self._job, "collective": collective, "bytes": bytes}
        return _cost(collective, _answer(request))

    def bound(self) -> list[Bound]:
        """What no schedule exceeds on this job."""
        return _bounds(_answer({"do": "bound", "job": self._job}))

    def explain(self, source: str, to: str) -> Explanation:
        """Why two devices are as far apart as they are: `plan.explain("GPU0", "NIC1")`."""
        return _explanation(_answer({"do": "path", "job": self._job, "from": source, "to": to}))


def machines() -> list[Machine]:
    """The machines that are built in."""
    return [Machine(**it) for it in _answer({"do": "machines"})["machines"]]


def nccl_versions() -> list[str]:
    """The versions of NCCL that are known."""
    return list(_answer({"do": "machines"})["versions"])


def plan(
    topology: Topology,
    *,
    hosts: int = 1,
    settings: Mapping[str, str] | None = None,
    nccl_version: str | None = None,
    gpus: Sequence[int] = (),
    nvlink_domain: bool = False,
    without: Sequence[str] = (),
    degrade: Sequence[str] = (),
) -> Plan:
    """Plans a job.

    `hosts` are equal hosts; `settings` are variables of NCCL; `gpus` are the device numbers of each
    host, all if empty; `nvlink_domain` says that all hosts form one NVLink domain; `without` names
    devices and links that are taken away, and `degrade` slower links as `LINK=SHARE`.
    """
    job = {
        "file": _file(topology),
        "hosts": hosts,
        "nvlink_domain": nvlink_domain,
        "gpus": list(gpus),
        "nccl": nccl_version,
        "set": [[name, str(value)] for name, value in (settings or {}).items()],
        "without": list(without),
        "degrade": list(degrade),
    }
    answer = _answer({"do": "plan", "job": job})
    return Plan(
        name=answer["name"],
        summary=_text(answer["summary"]),
        nccl_version=answer["version"],
        ranks=answer["ranks"],
        channels=[Channels(**it) for it in answer["channels"]],
        searches=[_search(it) for it in answer["trails"]],
        costs=_costs(answer["costs"]),
        devices=answer["devices"],
        notes=answer["notes"],
        json=answer["plan"],
        graph_xml=answer["graph"],
        svg=answer["picture"],
        _job=job,
    )


def bound(topology: Topology, **options: Any) -> list[Bound]:
    """What no schedule exceeds; options are those of `plan`."""
    return plan(topology, **options).bound()


def explain(topology: Topology, source: str, to: str, **options: Any) -> Explanation:
    """Why two devices are as far apart as they are; options are those of `plan`."""
    return plan(topology, **options).explain(source, to)


def _file(topology: Topology) -> dict[str, str]:
    if isinstance(topology, (bytes, bytearray)):
        try:
            return {"name": "topology", "text": bytes(topology).decode()}
        except UnicodeDecodeError as error:
            raise PlanError(f"the topology is no text: {error}") from None
    if isinstance(topology, str) and topology in {it.name for it in machines()}:
        return {"name": topology}
    path = fspath(topology)
    return {"name": path, "text": _native.read(path)}


def _answer(request: Mapping[str, Any]) -> Any:
    answer = json.loads(_native.answer(json.dumps(request).encode()))
    if isinstance(answer, dict) and "error" in answer:
        raise PlanError(answer["error"])
    return answer


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _search(answer: Mapping[str, Any]) -> Search:
    attempts = [
        Attempt(it["asks"], it["found"], it["next"], it["bandwidth_gbps"])
        for it in answer["attempts"]
    ]
    return Search(answer["kind"], _text(answer["story"]), attempts)


def _cost(collective: str, size: Mapping[str, Any]) -> Cost:
    candidates = [Candidate(choice, time) for choice, time in size["candidates"]]
    known = {name: size[name] for name in ("bytes", "choice", "time_us", "bus_gbps", "channels")}
    return Cost(collective=collective, candidates=candidates, **known)


def _costs(answer: Any) -> list[Cost]:
    rows = [(_option(row["collective"]), row["sizes"]) for row in answer or []]
    return [_cost(collective, size) for collective, sizes in rows for size in sizes]


def _option(collective: str) -> str:
    """The name as `cost` takes it: `AllReduce` is `all-reduce`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", collective).lower()


def _bounds(answer: Mapping[str, Any]) -> list[Bound]:
    return [
        Bound(it["operation"], it["bound_gbps"], it["nccl_gbps"], _text(it["limit"]))
        for it in answer["bounds"]
    ]


def _path(answer: Mapping[str, Any]) -> Path:
    hops = [
        Hop(it["from"], it["to"], it["link"], it["bandwidth_gbps"], it["so_far"], it["narrowest"])
        for it in answer["hops"]
    ]
    return Path(answer["type"], answer["bandwidth_gbps"], hops, _text(answer["reason"]))


def _explanation(answer: Mapping[str, Any]) -> Explanation:
    diverted = answer["diverted"]
    if diverted is not None:
        diverted = (_path(diverted["path"]), diverted["why"])
    return Explanation(
        answer["from"], answer["to"], _path(answer["widest"]), diverted, answer["verdicts"]
    )
