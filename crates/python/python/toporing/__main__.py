"""`toporing mcp`: the server for agents. The program of the package is `topo`."""

from __future__ import annotations

import sys

USAGE = """\
usage: toporing mcp

Serves the questions of topo to agents by the Model Context Protocol, over standard input and
output. The program itself is `topo`.
"""


def main() -> int:
    """Runs the command; the exit status."""
    given = sys.argv[1:]
    if given in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if given != ["mcp"]:
        print(USAGE, end="", file=sys.stderr)
        return 2
    try:
        from toporing import agents
    except ImportError as why:
        need = "toporing mcp needs Python 3.10 and the package mcp 2: pip install 'toporing[mcp]'"
        print(f"{need} ({why})", file=sys.stderr)
        return 1
    agents.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
