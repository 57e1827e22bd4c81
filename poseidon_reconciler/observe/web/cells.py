"""Values as cells of a table, each in one of a few ways that a column names; the script of the page knows the same.

`page.js` draws the same tables from the same columns, which it reads from the heads of the tables: a column is added
here alone, a way to show one in both places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from poseidon_reconciler.markup.elements import Child, Element, element


class Column(Struct, frozen=True):
    """What a column is called, which member of a row it shows (`others`: which ones, with a space between), and how;
    `hint` says more of what it means to whoever points at its head.
    """

    title: str
    key: str
    shown_as: str = "text"
    hint: str | None = None


def table(name: str, caption: str, columns: list[Column], rows: list[dict[str, Any]], at: str) -> Element:
    """A table, as of `at`, whose first column names its rows; on a phone each row becomes a card."""
    head = [
        element("th", c.title, scope="col", data_key=c.key, data_as=c.shown_as, class_=_class(c.shown_as), title=c.hint)
        for c in columns
    ]
    return element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *(_row(columns, row, at) for row in rows)),
        class_="cards",
        id=name,
    )


def _row(columns: list[Column], row: dict[str, Any], at: str) -> Element:
    first, *others = columns
    cells = [element("th", _cell(first, row, at), scope="row")]
    for column in others:
        shown = _cell(column, row, at)
        nothing = "zero" if shown in ("", "0") else None
        classes = " ".join(filter(None, (_class(column.shown_as), nothing))) or None
        cells.append(element("td", shown, class_=classes, data_title=column.title))
    return element("tr", *cells)


def _class(shown_as: str) -> str | None:
    return {"number": "number", "duration": "number", "chart": "chart"}.get(shown_as)


def _cell(column: Column, row: dict[str, Any], at: str) -> Child:
    if column.shown_as == "time":
        return _time(row.get(column.key), at)
    if column.shown_as == "until":
        return _until(row.get(column.key), at)
    if column.shown_as == "others":
        return ", ".join(f"{row[key]} {key.replace('_', ' ')}" for key in column.key.split() if row[key])
    return _WAYS[column.shown_as](row.get(column.key), row)


def explain_link(text: str, subject: str) -> Element:
    """A link to the page that explains a job or an environment."""
    return element("a", text, href=f"explain/{quote(subject, safe='')}")


def clock(time: str, at: str) -> Element:
    """A time of ISO 8601 by its time of day, and its date where that is not the one of `at`."""
    text = time[11:19] if time[:10] == at[:10] else f"{time[:10]} {time[11:16]}"
    return element("time", text, datetime=time, title=time)


def _number(value: Any, _: dict[str, Any]) -> str:
    return "?" if value is None else str(value)


def _text(value: Any, _: dict[str, Any]) -> str:
    return "" if value is None else str(value)


def _environment(value: Any, _: dict[str, Any]) -> Child:
    return "everywhere" if value is None else explain_link(str(value), str(value))


def _job(value: Any, _: dict[str, Any]) -> Element:
    link = explain_link("", str(value))
    link.append(element("code", str(value)))
    return link


def _state(value: Any, row: dict[str, Any]) -> Element:
    text = f"{value}, {row['cause']}" if row.get("cause") else str(value)
    return element("span", text, class_="state", data_state=str(value))


def _node_status(value: Any, row: dict[str, Any]) -> Element:
    text = str(value) or "unknown"
    return element("span", f"{text}, draining" if row["draining"] else text, class_="state", data_state=text)


def _node(value: Any, _: dict[str, Any]) -> str:
    return "no node" if value is None else str(value)


def _drift(value: Any, row: dict[str, Any]) -> str:
    if value is None:
        return "none"
    return str(value) if row["lasting"] else f"{value}, may be a lag"


def _duration(value: Any, _: dict[str, Any]) -> str:
    return "" if value is None else f"{value:.0f} s"


def _counts(value: Any, _: dict[str, Any]) -> str:
    return ", ".join(f"{number} {state}" for state, number in sorted(value.items())) or "none"


def _some(value: Any, _: dict[str, Any]) -> str:
    return ", ".join(f"{number} {state}" for state, number in value.items())


def _time(value: str | None, at: str) -> Child:
    return "" if value is None else clock(value, at)


def _until(value: str | None, at: str) -> Child:
    if value is None:
        return "until something changes"
    shown = clock(value, at)
    shown.set("class", "until")
    return shown


def _outcome(value: Any, _: dict[str, Any]) -> str:
    return f"{value['result']}: {value['detail']}" if value is not None else "under way"


_WAYS: Final[dict[str, Callable[[Any, dict[str, Any]], Child]]] = {
    "text": _text,
    "number": _number,
    "environment": _environment,
    "job": _job,
    "state": _state,
    "node-status": _node_status,
    "node": _node,
    "drift": _drift,
    "duration": _duration,
    "counts": _counts,
    "some": _some,
    "outcome": _outcome,
    "chart": lambda *_: "",
}
