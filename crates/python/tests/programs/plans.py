"""Plans made here and run here: `plans.py RANKS` starts the other ranks itself."""

import array
import json
import multiprocessing
import os
import random
import sys
import tempfile

import toporing

MACHINES = 10


def jobs(ranks):
    """Machines with enough GPUs, on one host and on two."""
    names = [it.name for it in toporing.machines()]
    random.Random(ranks).shuffle(names)
    found = []
    for name in names:
        for hosts in (1, 2):
            try:
                gpus = range(ranks // hosts)
                found.append((hosts, toporing.plan(name, hosts=hosts, gpus=gpus)))
            except toporing.PlanError:
                break
        if len(found) >= 2 * MACHINES:
            break
    assert len(found) >= 2 * MACHINES, len(found)
    return [(hosts, planned_channels(plan), plan.json) for hosts, plan in found]


def planned_channels(plan):
    """The channels that NCCL makes of those that it found."""
    return len(json.loads(plan.json)["plan"]["common"]["channels"]["base"])


def work(rank, ranks, identities, texts):
    with tempfile.TemporaryDirectory() as folder:
        for number, (identity, (hosts, channels, text)) in enumerate(zip(identities, texts)):
            os.environ["NCCL_HOSTID"] = f"host{rank * hosts // ranks}"
            path = os.path.join(folder, f"{number}.json")
            with open(path, "w") as file:
                file.write(text)
            if number % 2:
                os.environ["TOPO_PLAN"] = path
            with toporing.Communicator(
                identity, rank, ranks, plan=None if number % 2 else path
            ) as comm:
                # What is used is what the plan says.
                assert comm.channels == channels, (number, comm.channels, channels)
                hosts_of = [it * hosts // ranks for it in range(ranks)]
                near = ["SHM" if it == hosts_of[rank] else "NET" for it in hosts_of]
                near[rank] = "P2P"
                assert comm.transports == near, (number, comm.transports)
                for count in (1, 100, 100_000):
                    values = array.array("f", [float(rank + 1)] * count)
                    comm.all_reduce(values)
                    assert set(values) == {ranks * (ranks + 1) / 2}, (number, count)
                gathered = bytearray(ranks)
                comm.all_gather(bytes([rank]), gathered)
                assert list(gathered) == list(range(ranks))
            os.environ.pop("TOPO_PLAN", None)


def refuses(ranks):
    """A plan of another job, given and named by the environment."""
    plan = toporing.plan("dgx-h100")
    try:
        toporing.Communicator(toporing.unique_id(), 0, ranks, plan=plan)
    except (ValueError, toporing.CommError) as error:
        assert "the plan is for 8 ranks" in str(error), error
    else:
        raise AssertionError("a plan of other ranks was taken")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(plan.json)
        file.flush()
        os.environ["TOPO_PLAN"] = file.name
        with toporing.Communicator(toporing.unique_id(), 0, 1) as alone:
            alone.barrier()
        os.environ["TOPO_PLAN"] = file.name + ".none"
        try:
            toporing.Communicator(toporing.unique_id(), 0, 1)
        except OSError as error:
            assert ".none" in str(error), error
        else:
            raise AssertionError("a plan that is not there was taken")
        del os.environ["TOPO_PLAN"]


if __name__ == "__main__":
    ranks = int(sys.argv[1])
    texts = jobs(ranks)
    identities = [toporing.unique_id() for _ in texts]
    spawn = multiprocessing.get_context("spawn").Process
    others = [
        spawn(target=work, args=(rank, ranks, identities, texts)) for rank in range(1, ranks)
    ]
    for other in others:
        other.start()
    work(0, ranks, identities, texts)
    for other in others:
        other.join(60)
        assert other.exitcode == 0, other.exitcode
    refuses(ranks)
