"""The planning part of the package."""

import dataclasses
import gzip
import json
import pathlib
import re
import tempfile

import toporing

TOPOLOGIES = pathlib.Path(__file__).parents[4] / "topologies"


def fails(call, *texts):
    try:
        call()
    except (toporing.PlanError, OSError) as error:
        for text in texts:
            assert text in str(error), str(error)
    else:
        raise AssertionError("no error")


names = [it.name for it in toporing.machines()]
assert len(names) > 3 and toporing.nccl_versions()
name = next(it for it in names if "h100" in it)
two = toporing.plan(name, hosts=2)
assert two.ranks == 16, two
assert any(it.kind == "ring" and it.count > 0 for it in two.channels), two.channels
assert two.searches and two.searches[0].attempts
assert two.to_dict()["version"] and "<svg" in two.svg

small, large = two.cost("all-reduce", 1 << 10), two.cost("all-reduce", 1 << 30)
assert small.time_us < large.time_us and small.algorithm and large.candidates
assert large in two.costs() and small.runner_up
odd = two.cost("all-gather", 12345)
assert odd.bytes == 12345 and odd.protocol
fails(lambda: two.cost("all-shout", 1), "all-shout", "all-reduce")
fails(lambda: two.cost("all-to-all", 1), "point-to-point")

# A notebook shows pages and pictures; tables are rows with names.
answer = two.ask("cost", collectives=["all-reduce"], sizes=["1M"])
assert answer["format"] == "topo-cost" and "page" not in answer
(row,) = answer.tables()["AllReduce"]
assert row["size"] == "1M" and row["algorithm"], row
assert "<td>" in answer._repr_html_() and "<svg" in two._repr_html_()
assert two._repr_svg_() == two.svg
hostile = toporing.log("a:1:1 [0] NCCL INFO NCCL version 2.30.7+cuda12.9\n", "<script>")
assert "<script>" not in hostile._repr_html_(), hostile._repr_html_()
assert "PXN" in two.ask("path", **{"from": "GPU0", "to": "NIC1"})._repr_html_()

# Settings and versions change decisions.
ring = toporing.plan(name, hosts=2, settings={"NCCL_ALGO": "Ring"})
assert ring.cost("all-reduce", 1 << 10).algorithm == "Ring"
old = toporing.plan(name, nccl_version=toporing.nccl_versions()[0])
assert old.nccl_version == toporing.nccl_versions()[0]
fails(lambda: toporing.plan(name, nccl_version="0.1"), "0.1")

# A path or bytes give the same plan.
file = TOPOLOGIES / name / "topology.xml"
assert toporing.plan(file, hosts=2).channels == two.channels
assert toporing.plan(file.read_bytes(), hosts=2).channels == two.channels
assert toporing.plan(str(file), hosts=2).channels == two.channels

# Ranks run on GPUs in the order of the list; what is no GPU is an error.
turned = toporing.plan(name, gpus=[3, 2, 1, 0]).to_dict()["plan"]
assert turned["rank_order"] == [{"first": 3, "count": 4, "step": -1}], turned["rank_order"]
fails(lambda: toporing.plan(name, gpus=[0, 99]), "GPU99", "GPU 0-7")
amd = file.read_bytes().replace(b'<system version="1"', b'<system version="2"', 1)
fails(lambda: toporing.plan(amd), "AMD's RCCL")
fails(lambda: toporing.plan(name, hosts=0), "0 hosts")

bounds = {it.operation: it for it in two.bound()}
assert all(it.bound_gbps > 0 for it in bounds.values()), bounds
told = two.explain("GPU0", "GPU1")
assert told.widest.type and told.widest.hops[0].bandwidth_gbps > 0
assert told.source.startswith("GPU0") and told.widest.hops[0].source, told

# The answers are those of the program, and every field of a dataclass is in the answer.
answer = two.ask("bound")
assert (answer["format"], len(answer["bounds"])) == ("topo-bound", len(bounds)), answer
named = {it.name for it in dataclasses.fields(toporing.Bound)}
assert named <= set(answer["bounds"][0]), named - set(answer["bounds"][0])
answer = two.ask("cost", collectives=["all-reduce"], sizes=[1 << 20])
found = answer["collectives"][0]["sizes"][0]
named = {it.name for it in dataclasses.fields(toporing.Cost)} - {"collective"}
assert named <= set(found), named - set(found)
fails(lambda: two.ask("cost", colectives=[]), "colectives")

# Evidence is read from files of any kind, or given by name.
line = (
    "[rank1]:[E] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600045 milliseconds "
    "before timing out.\n"
)
with tempfile.TemporaryDirectory() as folder:
    log = pathlib.Path(folder) / "job.log"
    log.write_text(line)
    packed = pathlib.Path(folder) / "job.log.gz"
    packed.write_bytes(gzip.compress(line.encode()))
    for evidence in [log], [str(packed)], {"job.log": line}, {"job.log": line.encode()}:
        found = toporing.diagnose(evidence, topology=name, hosts=2)
        assert [it["cause"] for it in found["verdicts"]] == ["rank-missing"], found
    fails(lambda: toporing.diagnose([log, pathlib.Path(folder) / "none"]), "none")
    fails(lambda: toporing.diagnose([log], topology="no-such-machine"), "no-such-machine")
    try:
        toporing.diagnose(str(log))
    except TypeError as error:
        assert "list of paths" in str(error), error
    else:
        raise AssertionError("no error")

# Texts in place of lists, and a model in place of calls.
assert toporing.plan(name, gpus="0-3", rank_order="3-0").ranks == 4
fails(lambda: toporing.plan(name, gpus="0-"), "gpus 0-: `0-` is neither")
model = {
    "num_layers": 4,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "seq_length": 512,
    "global_batch_size": 16,
}
assert toporing.step(model, toporing.plan(name))["step_us"] > 0
fails(lambda: toporing.doctor(name, dcgm={"a.txt": "text"}), "no test of DCGM")
fails(lambda: toporing.step({"num_layers": 4}, toporing.plan(name)), "hidden_size")

# Arguments of a wrong kind.
for call, argument in (
    (lambda: toporing.plan(5), ""),
    (lambda: toporing.plan(name, hosts="2"), "hosts"),
    (lambda: toporing.plan(name, hosts=True), "hosts"),
    (lambda: toporing.plan(name, settings=5), "settings"),
    (lambda: toporing.plan(name, settings=[("NCCL_ALGO", "Ring")]), "settings"),
    (lambda: toporing.plan(name, settings={5: "Ring"}), "settings"),
    (lambda: toporing.plan(name, nccl_version=2.3), "nccl_version"),
    (lambda: toporing.plan(name, gpus=5), "gpus"),
    (lambda: toporing.plan(name, gpus=["0"]), "gpus[0]"),
    (lambda: toporing.plan(name, without="GPU0"), "without"),
    (lambda: toporing.plan(name, degrade=5), "degrade"),
    (lambda: toporing.plan(name, others=5), "others"),
    (lambda: toporing.plan(name, nvlink_domain=1), "nvlink_domain"),
    (lambda: toporing.bound(name, settings=5), "settings"),
    (lambda: toporing.explain(name, "GPU0", "GPU1", hosts="2"), "hosts"),
    (lambda: toporing.doctor(name, settings=5), "settings"),
    (lambda: toporing.doctor(None), ""),
    (lambda: toporing.doctor(name, dcgm="text"), "dcgm"),
    (lambda: toporing.matrix(5), ""),
    (lambda: toporing.log(5), "text"),
    (lambda: toporing.results(5, two), "text"),
    (lambda: toporing.results("", name), "measured"),
    (lambda: toporing.step(5, two), "calls"),
    (lambda: toporing.step("", name), "cluster"),
    (lambda: toporing.step("", two, measured=5), "measured"),
    (lambda: toporing.step("", two, gpu_tflops="9"), "gpu_tflops"),
    (lambda: toporing.diagnose({5: "text"}), "name"),
    (lambda: toporing.diagnose({"job.log": 5}), ""),
    (lambda: toporing.diagnose(5), ""),
    (lambda: toporing.diagnose([], hosts="2"), "hosts"),
    (lambda: two.difference(name), "other"),
    (lambda: two.cost(5, 1024), ""),
    (lambda: two.cost("all-reduce", "1K"), "bytes"),
    (lambda: two.ask(5), "question"),
    (lambda: two.ask("cost", sizes="1K"), ""),
    (lambda: two.explain(0, 1), ""),
):
    try:
        call()
    except TypeError as error:
        assert argument in str(error), (argument, error)
    else:
        raise AssertionError(f"an argument of a wrong kind was taken: {argument}")

# Errors have a place.
with tempfile.TemporaryDirectory() as folder:
    wrong = pathlib.Path(folder) / "wrong.xml"
    wrong.write_text('<system version="1">\n  <cpu numaid=0/>\n</system>\n')
    fails(lambda: toporing.plan(wrong), "wrong.xml:2")
fails(lambda: toporing.plan("no-such-machine"), "no-such-machine")
fails(lambda: two.explain("GPU0", "GPU99"), "GPU99")
json.loads(two.json)

# The examples of the package's page run.
page = (pathlib.Path(__file__).parents[2] / "PYPI.md").read_text()
examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
assert examples
for example in examples:
    exec(example, {})
