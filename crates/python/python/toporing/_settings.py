"""What the environment says about communicators."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping

from toporing import _native
from toporing._expect import expect

if TYPE_CHECKING:
    from toporing.planning import Plan


def settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """The network interfaces, the identity of the host, and whether calls are compared.

    `NCCL_SOCKET_IFNAME` names interfaces as for NCCL (`eth0`, `=eth0`, `^lo`);
    `GLOO_SOCKET_IFNAME` names one, or several separated by commas, exactly. `NCCL_HOSTID` replaces
    the identity of the host. `TOPO_DEBUG=1` compares the calls of all ranks before each runs.
    """
    interfaces = environment.get("NCCL_SOCKET_IFNAME")
    gloo = environment.get("GLOO_SOCKET_IFNAME")
    if not interfaces and gloo:
        interfaces = f"={gloo}"
    return {
        "interfaces": interfaces or None,
        "host_id": environment.get("NCCL_HOSTID") or None,
        "debug": environment.get("TOPO_DEBUG", "0") not in ("", "0"),
    }


def run_plan(
    given: Plan | str | os.PathLike[str] | tuple[str, str, bool] | None, environment: Mapping[str, str]
) -> tuple[str, str, bool] | None:
    """The plan that ranks run, its name and its text, and whether it must be of as many ranks.

    One that is given must. `TOPO_PLAN` names a file for the groups that have as many ranks as its
    plan; other groups, such as parts of the world, have none.
    """
    if given is None:
        file = environment.get("TOPO_PLAN")
        return (file, _native.read(file), False) if file else None
    if isinstance(given, tuple):
        return given
    if isinstance(given, (str, os.PathLike)):
        return (os.fspath(given), _native.read(given), True)
    from toporing.planning import Plan

    expect("plan", given, Plan, str, os.PathLike)
    return (given.name, given.json, True)
