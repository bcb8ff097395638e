"""All questions as tools with schemas, for programs that ask by name: agents above all.

A file in a question is the name of a built-in machine, or the path of a file, which is read; or an
object with a name and a text. Nothing else is read, and nothing is run or written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Callable, Mapping

from toporing import _native
from toporing._native import PlanError
from toporing.answer import Answer
from toporing.planning import _evidence, _file

#: Characters of a line of an answer, and most characters of an answer.
WIDTH = 120
LONGEST = 40_000

_FILES: dict[str, Callable[[str], dict[str, str]]] = {
    "#/$defs/File": _file,
    "#/$defs/Evidence": lambda path: _evidence(path, _native.read_bytes(path)),
}
_MACHINE = "The name of a built-in machine (the tool `machines` lists them), or the path of a file."
_PATH = "The path of a file."
_JSON = {"type": "boolean", "description": "The whole answer as JSON instead of a page.", "default": False}
#: Questions that are better known by another name.
_NAMES = {"overview": "plan"}


@dataclass(frozen=True)
class Tool:
    """A question."""

    name: str
    description: str
    #: The schema of its arguments.
    schema: dict[str, Any]
    #: What it is called in JSON; None: the list of machines.
    ask: str | None
    #: It is about a job, which is planned first.
    of_job: bool


@lru_cache(maxsize=1)
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads(_native.questions())["$defs"]
    for name, said in (("File", _MACHINE), ("Evidence", _PATH)):
        by_name = {"type": "string", "description": said}
        definitions[name] = {"anyOf": [by_name, definitions[name]]}
    return definitions


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with what it refers to."""
    target = schema.get("$ref")
    if target is None:
        return schema
    base = _resolved(_definitions()[target.rsplit("/", 1)[1]])
    both = {**base, **{key: value for key, value in schema.items() if key != "$ref"}}
    for key, empty in (("properties", {}), ("required", [])):
        if key in base and key in schema:
            both[key] = {**base[key], **schema[key]} if empty == {} else [*base[key], *schema[key]]
    return both


def _used(schema: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema refers to, and those that these refer to."""
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str) and (name := target.rsplit("/", 1)[1]) not in found:
            found[name] = _definitions()[name]
            _used(found[name], found)
        for value in schema.values():
            _used(value, found)
    elif isinstance(schema, list):
        for value in schema:
            _used(value, found)
    return found


def _tool(variant: Mapping[str, Any], of_job: bool) -> Tool:
    whole = _resolved(variant)
    properties = {name: it for name, it in whole["properties"].items() if name != "ask"}
    required = [name for name in whole.get("required", []) if name != "ask"]
    if of_job:
        properties = {"job": {"$ref": "#/$defs/JobRequest"}, **properties}
        required = ["job", *required]
    schema = {
        "type": "object",
        "properties": {**properties, "json": _JSON},
        "required": required,
        "additionalProperties": False,
    }
    schema["$defs"] = _used(schema, {})
    ask = whole["properties"]["ask"]["const"]
    return Tool(_NAMES.get(ask, ask), whole.get("description", ""), schema, ask, of_job)


@lru_cache(maxsize=1)
def tools() -> dict[str, Tool]:
    """All tools by name."""
    machines = Tool(
        "machines",
        "The machines that are built in.",
        {"type": "object", "properties": {}, "additionalProperties": False},
        None,
        False,
    )
    made = [machines]
    for kind, of_job in (("Question", True), ("FileQuestion", False)):
        made += [_tool(variant, of_job) for variant in _definitions()[kind]["oneOf"]]
    return {it.name: it for it in made}


def _read(schema: Mapping[str, Any], value: Any) -> Any:
    """Arguments, with the files that they name.

    Some clients send an object or a list as JSON text.
    """
    if isinstance(value, str):
        kinds = [schema, *schema.get("anyOf", [])]
        readers = [_FILES[it["$ref"]] for it in kinds if it.get("$ref") in _FILES]
        if readers:
            return readers[0](value)
        kind = {"{": "object", "[": "array"}.get(value.lstrip()[:1])
        if kind is None or not any(kind in _resolved(it).get("type", "") for it in kinds):
            return value
        try:
            value = json.loads(value)
        except ValueError:
            return value
    schema = _resolved(schema)
    if isinstance(value, Mapping):
        alternatives = [_resolved(it) for it in schema.get("anyOf", [])]
        known = [schema, *alternatives]
        properties = {name: it for one in known for name, it in one.get("properties", {}).items()}
        return {name: _read(properties.get(name, {}), it) for name, it in value.items()}
    if isinstance(value, list):
        items = schema.get("items")
        return [_read(items, it) if isinstance(items, Mapping) else it for it in value]
    return value


@lru_cache(maxsize=4)
def _planned(job: bytes) -> _native.Planned:
    return _native.Planned(job)


def _bounded(text: str) -> str:
    """An answer that fits: whole lines of a page."""
    if len(text) <= LONGEST:
        return text
    kept = text[: text.rfind("\n", 0, LONGEST) + 1] or text[:LONGEST]
    left = text[len(kept) :].count("\n")
    return f"{kept}\n(cut: {left} more lines; ask for less, such as fewer sizes or hosts)\n"


def answer(name: str, arguments: Mapping[str, Any]) -> str:
    """The answer to a question: a page, or JSON if the argument `json` says so.

    `PlanError`, `OSError` or `TypeError`: there is no such tool, a file cannot be read, or the
    question does not fit.
    """
    tool = tools().get(name)
    if tool is None:
        raise PlanError(f"there is no tool {name}; expected one of {', '.join(tools())}")
    if tool.ask is None:
        known = json.loads(_native.machines())["machines"]
        return "".join(f"{it['name']}: {it['summary']}\n" for it in known)
    asked = dict(arguments)
    as_json = asked.pop("json", False)
    if not isinstance(as_json, bool):
        raise PlanError(f"json {as_json!r}; expected true or false")
    asked = _read(tool.schema, asked)
    target: Any = _native
    if tool.of_job:
        if "job" not in asked:
            raise PlanError(f"{name}: the argument `job` is missing; expected at least {{\"file\": \"dgx-h100\"}}")
        target = _planned(json.dumps(asked.pop("job")).encode())
    question = json.dumps({"ask": tool.ask, **asked}).encode()
    if not as_json:
        return _bounded(target.text(question, WIDTH))
    text = json.dumps(Answer.read(target.ask(question)), ensure_ascii=False)
    if len(text) > LONGEST:
        why = f"the answer has {len(text)} characters as JSON, {LONGEST} are served"
        raise PlanError(f"{why}: ask for less, such as fewer sizes, or for the page (without `json`)")
    return text
