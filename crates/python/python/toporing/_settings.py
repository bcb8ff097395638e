"""What the environment says about communicators."""

from __future__ import annotations

from typing import Any, Mapping


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
