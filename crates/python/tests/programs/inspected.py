"""The inspector of the Model Context Protocol asks the server for agents; its path is the argument."""

import json
import subprocess
import sys

_, inspector = sys.argv


def inspect(method, *options, fails=False):
    """What the server answers."""
    server = [sys.executable, "-m", "toporing", "mcp"]
    command = [inspector, "--cli", *server, "--method", method, *options]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert (done.returncode != 0) is fails, done
    return None if fails else json.loads(done.stdout)


tools = inspect("tools/list")["tools"]
assert {"plan", "cost", "diagnose", "doctor"} <= {it["name"] for it in tools}, tools
assert all(it["inputSchema"]["type"] == "object" for it in tools), tools

for job, expected in (("dgx-h100", False), ("dgx-h1000", True)):
    asked = ("--tool-name", "bound", "--tool-arg", f"job={json.dumps({'file': job})}")
    answer = inspect("tools/call", *asked)
    (content,) = answer["content"]
    assert answer.get("isError", False) is expected and job in content["text"], answer

uris = [it["uri"] for it in inspect("resources/list")["resources"]]
assert "topo://machines/dgx-h100" in uris, uris
(content,) = inspect("resources/read", "--uri", "topo://machines/dgx-h100")["contents"]
assert content["text"].startswith("<system"), content
inspect("resources/read", "--uri", "topo://machines/none", fails=True)
