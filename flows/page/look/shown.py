"""Values as texts of a page. All of them are escaped where they are printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from longform.engine.health import percent

LONG, MOST = 320, 200_000


def number(value: float | None) -> str:
    """1,234; a dash for None."""
    return "–" if value is None else f"{value:,}"


def size(value: float) -> str:
    """Bytes for people: 812 B, 4.2 kB, 1.3 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1_000 or unit == "GB":
            return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"
        value /= 1_000
    return ""


def usd(value: float | None) -> str:
    """USD 0.0123; below a cent with four decimals."""
    if value is None:
        return "unknown"
    return f"USD {value:,.4f}" if 0 < value < 0.1 else f"USD {value:,.2f}"


def seconds(value: float | None) -> str:
    """0.2 s, 41 s, 3 min, 2 h 5 min; a dash for None."""
    if value is None:
        return "–"
    if value < 120:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def moment(value: datetime | None) -> str:
    """2026-11-26 14:54 UTC; "" for None."""
    if value is None:
        return ""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def plain(value: Any) -> str:
    """A value of a row as text: texts as they are, times as ISO, lists and structs as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, dict | list | int | None):
        return str(value)
    try:
        return json.dumps(value, ensure_ascii=False, default=str, indent=1 if isinstance(value, dict | list) else None)
    except TypeError:  # keys of a map that JSON does not have
        return str(value)


def is_long(value: Any) -> bool:
    """Whether a value is folded: a text of more than LONG characters or four lines."""
    text = plain(value)
    return len(text) > LONG or text.count("\n") > 3


def whole(text: str) -> str:
    """The text; of one that no page can hold its first MOST characters, and how many more there are."""
    return text if len(text) <= MOST else f"{text[:MOST]}\n… {len(text) - MOST:,} more characters"


def beginning(text: str, most: int = 150) -> str:
    """The text on one line, cut after so many characters."""
    line = " ".join(text[: 4 * most].split())
    return f"{line[:most].rstrip()}…" if len(line) > most or len(text) > 4 * most else line


def link(value: Any) -> str:
    """The value if it is a web address that may be a link; else ""."""
    is_one = isinstance(value, str) and value.startswith(("https://", "http://")) and not any(map(str.isspace, value))
    return value if is_one and len(value) < 2_000 else ""


def words(name: str) -> str:
    """A column's or stage's name as words: `preferred_source` -> `preferred source`."""
    return name.replace("_", " ")


def figures(text: str) -> str:
    """A number as SQL wrote it, with at most six figures after the point's beginning: 0.34242268 -> 0.342423."""
    return f"{float(text):.6g}" if "." in text and len(text) > 8 else text


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "size": size,
    "usd": usd,
    "seconds": seconds,
    "moment": moment,
    "plain": plain,
    "is_long": is_long,
    "beginning": beginning,
    "link": link,
    "words": words,
    "whole": whole,
    "figures": figures,
    "percent": percent,
}
