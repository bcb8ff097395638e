"""Answers: what the program prints as JSON, with the page that it prints as text."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Dict, Mapping


class Answer(Dict[str, Any]):
    """An answer as the program prints it with `--json`. A notebook shows its page."""

    #: The page as data: title, fields, sections of blocks; empty if the question has none.
    page: dict[str, Any]

    @classmethod
    def read(cls, text: str) -> Answer:
        """An answer from its JSON, with its page under the key `page`."""
        answer = cls(json.loads(text))
        page = answer.pop("page", None) if "format" in answer else None
        answer.page = page if isinstance(page, dict) else {}
        return answer

    def tables(self) -> dict[str, list[dict[str, str]]]:
        """The tables of its page by the titles of their sections, each as a list of rows:
        `pandas.DataFrame(answer.tables()["AllReduce"])`."""
        found: dict[str, list[dict[str, str]]] = {}
        for section in self.page.get("sections", []):
            for block in section["blocks"]:
                if block["kind"] == "table":
                    rows = [dict(zip(block["it"]["headers"], row)) for row in block["it"]["rows"]]
                    found.setdefault(section["title"], []).extend(rows)
        return found

    def _repr_html_(self) -> str | None:
        return page_as_html(self.page) if self.page else None


def page_as_html(page: Mapping[str, Any]) -> str:
    """A page as HTML, every text escaped."""
    parts = [f"<h3>{escape(page['title'])}</h3>" if page.get("title") else "", _fields(page["fields"])]
    for section in page["sections"]:
        if section["title"]:
            remark = f" <small>{escape(section['remark'])}</small>" if section["remark"] else ""
            parts.append(f"<h4>{escape(section['title'])}{remark}</h4>")
        parts += [_block(block["kind"], block["it"]) for block in section["blocks"]]
    return "<div>" + "".join(parts) + "</div>"


def _fields(fields: list[dict[str, Any]]) -> str:
    rows = [f"<tr><th>{escape(it['name'])}</th><td>{escape(str(it['value']))}</td></tr>" for it in fields]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _block(kind: str, it: Any) -> str:
    if kind == "table":
        right = set(it["right"])

        def row(cells: list[Any], tag: str) -> str:
            style = [' style="text-align:right"' if at in right else "" for at in range(len(cells))]
            made = [f"<{tag}{how}>{escape(str(cell))}</{tag}>" for how, cell in zip(style, cells)]
            return "<tr>" + "".join(made) + "</tr>"

        return "<table>" + row(it["headers"], "th") + "".join(row(cells, "td") for cells in it["rows"]) + "</table>"
    if kind == "text":
        return f"<p>{escape(it.get('label', ''))}{escape(it['text'])}</p>"
    if kind == "entry":
        return f"<p><b>{escape(it['word'])}</b> {escape(it['about'])}<br>{escape(it['text'])}</p>"
    if kind == "fields":
        return _fields(it)
    return f"<pre>{escape(str(it))}</pre>"
