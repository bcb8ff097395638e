"""What NCCL decides on a machine, without GPUs: plans, costs, bounds, paths.

    plan = toporing.plan("dgx-h100", hosts=2, settings={"NCCL_ALGO": "Ring"})
    plan.cost("all-reduce", 1 << 20).time_us

A topology is the name of a built-in machine (`machines()` lists them), the path of a file of NCCL
(`NCCL_TOPO_DUMP_FILE`), or its bytes.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass, field, fields
from os import PathLike, fspath
from typing import Any, Mapping, Sequence, TypeVar, Union

from toporing import _native
from toporing._expect import expect, expect_all
from toporing._native import PlanError
from toporing.answer import Answer, page_as_html

_NONE = type(None)

Topology = Union[str, bytes, "PathLike[str]"]
Kind = TypeVar("Kind")


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

    algorithm: str
    protocol: str
    time_us: float


@dataclass(frozen=True)
class Cost:
    """What NCCL chooses for a collective of a size, and what it expects."""

    collective: str
    bytes: int
    #: Why nothing is taken; then there is no algorithm.
    refused: str | None
    #: Everything that NCCL compares, in its order.
    candidates: list[Candidate]
    runner_up: Candidate | None
    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    #: Threads of each channel.
    threads: int | None = None
    time_us: float | None = None
    #: Message bytes per time, GB/s.
    algorithm_bandwidth_gbps: float | None = None
    bus_bandwidth_gbps: float | None = None


@dataclass(frozen=True)
class Link:
    """A link that limits a collective."""

    source: str
    to: str
    kind: str
    bandwidth_gbps: float
    #: Number of hosts that have it.
    hosts: int


@dataclass(frozen=True)
class Bound:
    """What no schedule of a collective exceeds on the links of a job."""

    operation: str
    #: GB/s of bus bandwidth, proved.
    bound_gbps: float
    #: GB/s that NCCL's channels reach.
    nccl_gbps: float | None
    #: GB/s that trees reach, checked.
    reached_gbps: float | None
    #: Why trees stay more than 5 % below the bound.
    shortfall: str | None
    #: The border that limits it, and the links over it.
    tight: str
    tight_links: list[Link]
    #: These links in short.
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
    #: Why the type is what it is, or why NCCL takes this path.
    reason: str
    hops: list[Hop]


@dataclass(frozen=True)
class Explanation:
    """Why two devices are as far apart as they are."""

    source: str
    to: str
    widest: Path
    #: The path that NCCL takes in its place.
    instead: Path | None
    #: What NCCL decides about the pair: P2P, GPUDirect RDMA.
    verdicts: list[str]
    #: Why NCCL gives up on the machine, so that only the widest path is known.
    refused: str | None


@dataclass(frozen=True)
class Plan:
    """Everything that NCCL decides for a job. It answers questions without planning again."""

    name: str
    summary: str
    nccl_version: str
    ranks: int
    channels: list[Channels]
    searches: list[Search]
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
    _planned: _native.Planned = field(repr=False, compare=False)
    _job: Mapping[str, Any] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """The plan as Python values."""
        plan: dict[str, Any] = json.loads(self.json)
        return plan

    def _repr_svg_(self) -> str:
        """The picture of a host, for notebooks."""
        return self.svg

    def _repr_html_(self) -> str:
        """Its page, for notebooks."""
        rows = [[it.kind, it.count, it.bandwidth_gbps, it.network_gbps] for it in self.channels]
        headers = ["channels", "number", "GB/s each", "to the network"]
        table = {"kind": "table", "it": {"headers": headers, "right": [1, 2, 3], "rows": rows}}
        head = f"{self.summary}; {self.ranks} ranks; NCCL {self.nccl_version}"
        fields = [{"name": "", "value": it, "tone": "notice"} for it in [head, *self.notes]]
        sections = [{"title": "", "remark": "", "blocks": [table]}]
        return page_as_html({"title": self.name, "fields": fields, "sections": sections}) + self.svg

    def ask(self, question: str, **details: Any) -> Answer:
        """An answer as the program prints it with `--json`: `cost`, `expect`, `bound`, `path`,
        `rank`, `simulate`, `what-if`, `settings`, `tune`, `engines`; `forests` has the text of the plan that
        `topo plan --strategy forest -o` writes.

        `plan.ask("cost", collectives=["all-reduce"], sizes=[1 << 20])` has the values of
        `topo cost --collective all-reduce --sizes 1M --json`; `docs/schemas` describes them.
        """
        expect("question", question, str)
        asked = json.dumps({"ask": question, **details})
        return Answer.read(self._planned.ask(asked.encode()))

    def cost(self, collective: str, bytes: int) -> Cost:
        """What NCCL chooses for a collective (`all-reduce`, `all-gather`, `reduce-scatter`,
        `broadcast`, `reduce`) of this size."""
        expect("bytes", bytes, int)
        answer = self.ask("cost", collectives=[collective], sizes=[bytes])
        costs = _costs(answer)
        if not costs:
            raise PlanError(f"NCCL makes {collective} of point-to-point transfers")
        return costs[0]

    def costs(self) -> list[Cost]:
        """The costs of all collectives that NCCL tunes, 1 KiB to 4 GiB."""
        return _costs(self.ask("cost"))

    def bound(self) -> list[Bound]:
        """What no schedule exceeds on this job."""
        bounds = self.ask("bound")["bounds"]
        return [_made(Bound, it, tight_links=_links(it["tight_links"])) for it in bounds]

    def difference(self, other: Plan) -> Answer:
        """How another job differs, as `topo diff --json` prints it."""
        expect("other", other, Plan)
        return _ask("difference", job=self._job, other=other._job)

    def explain(self, source: str, to: str) -> Explanation:
        """Why two devices are as far apart as they are: `plan.explain("GPU0", "NIC1")`."""
        answer = self.ask("path", **{"from": source, "to": to})
        instead = answer["instead"] and _path(answer["instead"])
        return _made(Explanation, answer, widest=_path(answer["widest"]), instead=instead)


def machines() -> list[Machine]:
    """The machines that are built in."""
    return [_made(Machine, it) for it in json.loads(_native.machines())["machines"]]


def nccl_versions() -> list[str]:
    """The versions of NCCL that are known."""
    return _native.versions()


def plan(
    topology: Topology,
    *,
    hosts: int = 1,
    others: Sequence[Topology] = (),
    settings: Mapping[str, str] | None = None,
    nccl_version: str | None = None,
    gpus: str | Sequence[int] = (),
    nvlink_domain: bool = False,
    without: Sequence[str] = (),
    degrade: Sequence[str] = (),
    rank_order: str | Sequence[int] = "host",
    collnet: bool = False,
    as_is: bool = False,
    net_merge: str = "ib",
    assume: str | None = None,
    assume_gpu: str | None = None,
    assume_nic: str | None = None,
    assume_nvlinks: Sequence[str] = (),
    engine: str | None = None,
) -> Plan:
    """Plans a job.

    `hosts` are equal hosts, and each of `others` is one more; `settings` are variables of NCCL;
    `gpus` are the device numbers of each host, all if empty, or a text such as `0-3,6`; `nvlink_domain` says that all hosts form
    one NVLink domain; `without` names devices and links that are taken away, and `degrade` slower
    links as `LINK=SHARE`. `rank_order` is `host`, `round-robin` or the GPU of each rank, also as a text; `collnet`
    says that the network reduces; `as_is` plans files as they are; `net_merge` is `ib` or `off`;
    `assume` names a known machine, whose devices are assumed where a file has none, and
    `assume_gpu`, `assume_nic`, `assume_nvlinks` say them as the options of `topo plan` do; `engine` is
    the inference engine that runs the job, with what it sets before NCCL starts.
    """
    expect("hosts", hosts, int)
    expect("nvlink_domain", nvlink_domain, bool)
    if not isinstance(gpus, str):
        expect_all("gpus", gpus, int)
    expect_all("without", without, str)
    expect_all("degrade", degrade, str)
    expect_all("others", others, str, bytes, bytearray, PathLike)
    expect("rank_order", rank_order, str, Sequence)
    if not isinstance(rank_order, str):
        expect_all("rank_order", rank_order, int)
    expect("collnet", collnet, bool)
    expect("as_is", as_is, bool)
    expect("net_merge", net_merge, str)
    texts = {"assume": assume, "assume_gpu": assume_gpu, "assume_nic": assume_nic, "engine": engine}
    for name, value in texts.items():
        expect(name, value, str, _NONE)
    expect_all("assume_nvlinks", assume_nvlinks, str)
    job = _job(
        topology,
        hosts=hosts,
        others=[_file(it) for it in others],
        nvlink_domain=nvlink_domain,
        gpus=gpus if isinstance(gpus, str) else list(gpus),
        nccl_version=nccl_version,
        settings=settings,
        without=list(without),
        degrade=list(degrade),
        rank_order=rank_order if isinstance(rank_order, str) else list(rank_order),
        collnet=collnet,
        as_is=as_is,
        net_merge=net_merge,
        assume=assume,
        assume_gpu=assume_gpu,
        assume_nic=assume_nic,
        assume_nvlinks=list(assume_nvlinks),
        engine=engine,
    )
    planned = _native.Planned(json.dumps(job).encode())
    answer = json.loads(planned.ask(b'{"ask": "overview"}'))
    return Plan(
        name=answer["name"],
        summary=_text(answer["summary"]),
        nccl_version=answer["version"],
        ranks=answer["ranks"],
        channels=[_made(Channels, it) for it in answer["channels"]],
        searches=[_search(it) for it in answer["trails"]],
        devices=answer["devices"],
        notes=answer["notes"],
        json=answer["plan"],
        graph_xml=answer["graph"],
        svg=answer["picture"],
        _planned=planned,
        _job=job,
    )


def bound(topology: Topology, **options: Any) -> list[Bound]:
    """What no schedule exceeds; options are those of `plan`."""
    return plan(topology, **options).bound()


def doctor(
    topology: Topology,
    *,
    settings: Mapping[str, str] | None = None,
    nccl_version: str | None = None,
    dcgm: Mapping[str, str | bytes] | None = None,
) -> Answer:
    """The faults of a topology file, as `topo doctor --json` prints them. `dcgm` is what `dcgmi diag`
    or `dcgmi health -c` printed on the machine, by name."""
    expect("dcgm", dcgm, Mapping, _NONE)
    tests = [_evidence(name, content) for name, content in (dcgm or {}).items()]
    job = _job(topology, settings=settings, nccl_version=nccl_version)
    return _ask("doctor", job=job, dcgm=tests)


def matrix(topology: Topology) -> Answer:
    """The connections of GPUs and NICs, as `topo show --matrix --json` prints them."""
    return _ask("matrix", file=_file(topology))


def log(
    text: str,
    name: str = "log",
    *,
    topology: Topology | None = None,
    hosts: int | None = None,
    settings: Mapping[str, str] | None = None,
    nccl_version: str | None = None,
) -> Answer:
    """The content of NCCL's log, as `topo diagnose --log --json` prints it.

    With `topology` it is compared with the plan for that machine. `hosts` and `nccl_version` are those
    of the log by default, `settings` are added to those of the log.
    """
    expect("text", text, str)
    expect("name", name, str)
    expect("hosts", hosts, int, _NONE)
    asked: dict[str, Any] = {"file": {"name": name, "text": text}, "hosts": hosts}
    if topology is not None:
        asked["job"] = _job(topology, settings=settings, nccl_version=nccl_version)
    return _ask("log", **asked)


def diagnose(
    evidence: Mapping[str, str | bytes] | Sequence[str | PathLike[str]],
    *,
    topology: Topology | None = None,
    hosts: int | None = None,
    events: bool = False,
) -> Answer:
    """Why a job hangs or fails, as `topo diagnose --json` prints it; with `events` also all events.

    `evidence` are the paths of files of any kind (logs, flight recorders, reports of RAS, listings,
    archives), or what is in them by name. `topology` is the machine, the first one among the files
    by default; `hosts` are those of the job, as many as the files name by default. A file of more
    than 64 MiB is an `OSError`: the program reads those.
    """
    if isinstance(evidence, (str, bytes, PathLike)):
        raise TypeError("expected a list of paths, or a mapping of names to contents")
    expect("hosts", hosts, int, _NONE)
    expect("events", events, bool)
    if not isinstance(evidence, Mapping):
        evidence = {fspath(path): _native.read_bytes(path) for path in evidence}
    files = [_evidence(name, content) for name, content in evidence.items()]
    machine = None if topology is None else _file(topology)
    return _ask("diagnose", files=files, topology=machine, hosts=hosts, events=events)


def results(
    text: str, measured: Plan, name: str = "results", *, fit: bool = False
) -> Answer:
    """Measurements of nccl-tests beside the prediction for a job, as `topo expect --results --json` prints
    them. With `fit`, the cost model is fitted to them."""
    expect("text", text, str)
    expect("measured", measured, Plan)
    expect("name", name, str)
    expect("fit", fit, bool)
    return _ask("results", file={"name": name, "text": text}, job=measured._job, fit=fit)


def step(
    calls: str | Mapping[str, Any],
    cluster: Plan,
    *,
    name: str = "calls.csv",
    domain_hosts: int | None = None,
    gpu_memory: int = 0,
    gpu_tflops: float | None = None,
    measured: Mapping[str, str] | None = None,
    fabric: str | None = None,
    orders: int = 0,
) -> Answer:
    """The communication of a whole step on a job, as `topo step --json` prints it. `calls` is the
    text of a list (CSV, JSON), of a workload of SimAI, of the script that starts Megatron-LM or its
    log (`gpu_tflops` says what a GPU computes), or of a trace of PyTorch's profiler; or a model by
    Megatron's arguments, such as `{"num_layers": 32, "hidden_size": 4096, …}`;
    `measured` has texts of measurements by name, which correct times; `fabric` is the text of a fabric
    file or of Slurm's topology.conf. With `orders`, a search for
    better places of the ranks prices at most so many orders."""
    expect("calls", calls, str, Mapping)
    expect("cluster", cluster, Plan)
    expect("name", name, str)
    expect("domain_hosts", domain_hosts, int, _NONE)
    expect("gpu_memory", gpu_memory, int)
    expect("gpu_tflops", gpu_tflops, int, float, _NONE)
    expect("measured", measured, Mapping, _NONE)
    expect("fabric", fabric, str, _NONE)
    expect("orders", orders, int)

    def files(texts: Mapping[str, str]) -> list[dict[str, str]]:
        expect_all("measured", list(texts), str)
        expect_all("measured", list(texts.values()), str)
        return [{"name": name, "text": text} for name, text in texts.items()]

    return _ask(
        "step",
        files=files({name: calls}) if isinstance(calls, str) else [],
        model=None if isinstance(calls, str) else dict(calls),
        job=cluster._job,
        domain_hosts=domain_hosts,
        gpu_memory=gpu_memory,
        gpu_tflops=gpu_tflops,
        measured=files(measured or {}),
        fabric=fabric and {"name": "fabric", "text": fabric},
        orders=orders,
    )


def explain(topology: Topology, source: str, to: str, **options: Any) -> Explanation:
    """Why two devices are as far apart as they are; options are those of `plan`."""
    return plan(topology, **options).explain(source, to)


def _job(
    topology: Topology,
    *,
    settings: Mapping[str, str] | None,
    nccl_version: str | None,
    **details: Any,
) -> dict[str, Any]:
    expect("settings", settings, Mapping, _NONE)
    expect("nccl_version", nccl_version, str, _NONE)
    variables = [[name, str(value)] for name, value in (settings or {}).items()]
    expect_all("settings", [name for name, _ in variables], str)
    return {"file": _file(topology), "set": variables, "nccl": nccl_version, **details}


def _ask(question: str, **details: Any) -> Answer:
    asked = json.dumps({"ask": question, **details})
    return Answer.read(_native.ask(asked.encode()))


def _file(topology: Topology) -> dict[str, str]:
    if isinstance(topology, (bytes, bytearray)):
        try:
            return {"name": "topology", "text": bytes(topology).decode()}
        except UnicodeDecodeError as error:
            raise PlanError(f"the topology is no text: {error}") from None
    if isinstance(topology, str) and topology in {it.name for it in machines()}:
        return {"name": topology}
    path = fspath(topology)
    try:
        return {"name": path, "text": _native.read(path)}
    except OSError as error:
        if isinstance(topology, str) and "/" not in path:
            known = "nor is it the name of a built-in machine (machines() lists them)"
            raise OSError(f"{error}; {known}") from None
        raise


def _evidence(name: str, content: str | bytes) -> dict[str, str]:
    expect("name", name, str)
    if isinstance(content, str):
        return {"name": name, "text": content}
    return {"name": name, "base64": b64encode(content).decode()}


def _made(kind: type[Kind], answer: Mapping[str, Any], **parts: Any) -> Kind:
    """An answer as a dataclass. Python's own word `from` is `source` there."""
    values = {"source" if key == "from" else key: value for key, value in answer.items()}
    values.update(parts)
    known = [it.name for it in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in known if name in values})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _search(answer: Mapping[str, Any]) -> Search:
    attempts = [_made(Attempt, it) for it in answer["attempts"]]
    return Search(answer["kind"], _text(answer["story"]), attempts)


def _costs(answer: Mapping[str, Any]) -> list[Cost]:
    def cost(collective: str, size: Mapping[str, Any]) -> Cost:
        candidates = [_made(Candidate, it) for it in size["candidates"]]
        runner_up = size["runner_up"] and _made(Candidate, size["runner_up"])
        return _made(
            Cost, size, collective=collective, candidates=candidates, runner_up=runner_up
        )

    return [cost(it["collective"], size) for it in answer["collectives"] for size in it["sizes"]]


def _links(answer: Sequence[Mapping[str, Any]]) -> list[Link]:
    return [_made(Link, it) for it in answer]


def _path(answer: Mapping[str, Any]) -> Path:
    return _made(Path, answer, hops=[_made(Hop, it) for it in answer["hops"]])
