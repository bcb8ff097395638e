"""The server for agents: the protocol's own client asks it the questions of `agents.json`."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parents[1]
ROOT = HERE.parents[2]
SHARED = ROOT.parent / "shared"

# Before the client is imported: the command without the server's package, and a typo.
for given, status, said in ((["--help"], 0, "usage"), (["mpc"], 2, "usage"), ([], 2, "usage")):
    command = [sys.executable, "-m", "toporing", *given]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == status and said in done.stdout + done.stderr, done

from mcp import Client, StdioServerParameters  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

from toporing import questions as questions_of_topo  # noqa: E402


def with_places(value):
    """Arguments with the folders of this machine."""
    if isinstance(value, str):
        return value.replace("SHARED/", f"{SHARED}/").replace("HERE/", f"{ROOT}/")
    if isinstance(value, list):
        return [with_places(it) for it in value]
    if isinstance(value, dict):
        return {name: with_places(it) for name, it in value.items()}
    return value


async def ask(client, name, **arguments):
    """What a tool says, and whether it failed."""
    done = await client.call_tool(name, arguments)
    (content,) = done.content
    return content.text, done.is_error


async def questions(client):
    """Asks all questions whose files are here; the others by number."""
    missing = []
    for number, asked in enumerate(json.loads((HERE / "agents.json").read_text())):
        if "SHARED/" in json.dumps(asked["calls"]) and not SHARED.exists():
            missing.append(number)
            continue
        said = ""
        for call in asked["calls"]:
            text, failed = await ask(client, call["tool"], **with_places(call["arguments"]))
            assert not failed, (asked["question"], text)
            assert len(text) < 41_000, (asked["question"], len(text))
            said += text
        for words in asked["says"]:
            assert words in said, (asked["question"], words, said)
    return missing


async def schemas(client):
    """Every tool has a schema that stands alone, and no other tool is needed to read it."""
    tools = (await client.list_tools()).tools
    assert len(tools) >= 22, [it.name for it in tools]
    for tool in tools:
        schema = json.dumps(tool.input_schema)
        used = {it.split('"')[0] for it in schema.split("#/$defs/")[1:]}
        assert used <= set(tool.input_schema.get("$defs", {})), (tool.name, used)
        assert tool.description and tool.annotations.read_only_hint, tool.name


async def resources(client):
    """Machines and documents can be read, and nothing else."""
    listed = (await client.list_resources()).resources
    uris = [str(it.uri) for it in listed]
    assert "topo://machines/dgx-h100" in uris and "topo://docs/diagnose" in uris, uris
    for uri, begins in (("topo://machines/dgx-h100", "<system"), ("topo://docs/bounds", "# ")):
        (content,) = (await client.read_resource(uri)).contents
        assert begins in content.text, uri
    for uri in ("topo://docs/../Cargo", "topo://machines/none", "file:///etc/passwd"):
        try:
            await client.read_resource(uri)
        except MCPError:
            continue
        raise AssertionError(f"{uri} was read")


async def refusals(client):
    """Errors are the program's words."""
    for name, arguments, said in (
        ("nope", {}, "there is no tool nope"),
        ("cost", {}, "`job` is missing"),
        ("cost", {"job": {"file": "dgx-h1000"}}, "built-in machine"),
        ("cost", {"job": {"file": "dgx-h100"}, "colectives": []}, "unknown field `colectives`"),
        ("cost", {"job": {"file": "dgx-h100", "hosts": "two"}}, "invalid type"),
        ("cost", {"job": 7}, "invalid type"),
        ("cost", {"job": {"file": "dgx-h100"}, "json": "no"}, "expected true or false"),
        ("plan", {"job": {"file": "dgx-h100"}, "json": True}, "as JSON"),
        ("diagnose", {"files": 7}, "invalid type"),
        ("diagnose", {"files": ["/dev/zero"]}, "/dev/zero"),
        ("diagnose", {"files": [{"name": "a"}]}, "either `text` or `base64`"),
        ("doctor", {"job": {"file": {"name": "a.xml", "text": "<system"}}}, "a.xml"),
        ("path", {"job": {"file": "dgx-h100"}, "from": "GPU0", "to": "GPU99"}, "GPU99"),
    ):
        text, failed = await ask(client, name, **arguments)
        assert failed and said in text, (name, arguments, text)
    try:
        questions_of_topo.answer("cost", {"job": {"file": "\ud800"}})
    except (ValueError, OSError):
        pass
    # As JSON text; a text that is none is refused.
    for job, expected in (('{"file": "dgx-h100"}', False), ('{"file": ', True), ("[" * 100_000, True)):
        text, failed = await ask(client, "bound", job=job)
        assert failed is expected, (job[:30], text[:300])
    text, failed = await ask(client, "cost", job='{"file": "dgx-h100"}', sizes="[1024]")
    assert not failed and "1K" in text, text
    text, failed = await ask(client, "bound", job={"file": "dgx-h100"}, json=True)
    assert not failed and json.loads(text)["format"] == "topo-bound", text
    sizes = [1 << 10 | it for it in range(2_000)]
    text, failed = await ask(client, "cost", job={"file": "dgx-h100"}, collectives=["all"], sizes=sizes)
    assert not failed and "(cut: " in text and len(text) < 41_000, len(text)


async def main():
    environment = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    served = StdioServerParameters(command=sys.executable, args=["-m", "toporing", "mcp"], env=environment)
    for mode in ("auto", "legacy"):
        async with Client(served, mode=mode, read_timeout_seconds=300) as client:
            await schemas(client)
            await resources(client)
            await refusals(client)
            if mode == "auto":
                missing = await questions(client)
                if missing:
                    print(f"not run: questions {missing}: ../shared is not there")


asyncio.run(main())
