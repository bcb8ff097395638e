"""A server of the Model Context Protocol over standard input and output: `toporing mcp`.

Each question is a tool, machines and documents are resources.
"""

from __future__ import annotations

import json

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from toporing import _native
from toporing.questions import answer, tools

INSTRUCTIONS = """\
What NVIDIA's NCCL decides on a machine, without GPUs, and why a job hangs, fails or is slow. Begin \
with `diagnose` for logs and other evidence of a job, with `plan` and `cost` for a machine, with \
`doctor` for a topology file. A file is a path, or the name of a built-in machine (`machines`). \
Verdicts are proved, likely or possible; where nothing is known, the answer says so: never fill in."""

_MACHINES = "topo://machines/"
_DOCUMENTS = "topo://docs/"


def _resource(uri: str, name: str, description: str, kind: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, description=description, mime_type=kind)


async def _list_tools(context: object, params: object) -> types.ListToolsResult:
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    made = [
        types.Tool(name=it.name, description=it.description, input_schema=it.schema, annotations=hints)
        for it in tools().values()
    ]
    return types.ListToolsResult(tools=made)


async def _call_tool(context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    try:
        text = await anyio.to_thread.run_sync(answer, params.name, params.arguments or {})
        failed = False
    except (ValueError, OSError, TypeError) as why:
        text, failed = str(why), True
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


async def _list_resources(context: object, params: object) -> types.ListResourcesResult:
    machines = json.loads(_native.machines())["machines"]
    made = [
        _resource(_MACHINES + it["name"], it["name"], it["summary"], "application/xml") for it in machines
    ]
    made += [
        _resource(_DOCUMENTS + name, name, f"The document {name}", "text/markdown")
        for name in _native.documents()
    ]
    return types.ListResourcesResult(resources=made)


async def _read_resource(
    context: object, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    uri = str(params.uri)
    try:
        if uri.startswith(_MACHINES):
            text, kind = _native.machine(uri[len(_MACHINES) :]), "application/xml"
        else:
            text, kind = _native.document(uri.removeprefix(_DOCUMENTS)), "text/markdown"
    except _native.PlanError as why:
        raise MCPError(types.INVALID_PARAMS, str(why)) from None
    content = types.TextResourceContents(uri=uri, text=text, mime_type=kind)
    return types.ReadResourceResult(contents=[content])


def server() -> Server:
    """The server, for any transport."""
    return Server(
        "topo",
        version=_native.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_read_resource=_read_resource,
    )


async def _serve() -> None:
    made = server()
    async with stdio_server() as (incoming, outgoing):
        await made.run(incoming, outgoing, made.create_initialization_options())


def main() -> None:
    """Serves until standard input ends."""
    anyio.run(_serve)
