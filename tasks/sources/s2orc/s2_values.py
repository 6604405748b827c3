"""What records of Semantic Scholar have in common: ids, names, dates, numbers, and how broken ones are told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from longform.artifacts.rows import Row
from tasks.text.headings import roles, split_number

GROUP = "s2"
PERMALINK = "https://api.semanticscholar.org/CorpusID:"
UNITS = (("UTF-16", "utf-16-le", 2), ("bytes", "utf-8", 1))
NOTHING: Mapping[str, Any] = {}

_DOI_PREFIX = re.compile(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", re.IGNORECASE)
_PARTS = itemgetter("first", "middle", "last", "suffix")
_ARXIV_VERSION = re.compile(r"v\d+$")


class Unusable(Exception):
    """Why a record cannot become a paper."""

    def __init__(self, reason: str, detail: str | None = None, *, filtered: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.detail, self.filtered = reason, detail, filtered


def row_of(shape: str, parser: str, retrieved_at: int | None, **values: Any) -> Row:
    return {**_EMPTY, "source": shape, "parser": parser, "retrieved_at": retrieved_at, **values}


_EMPTY: Row = {
    "title": None, "year": None, "venue": None, "abstract": None, "corpus_id": None, "doi": None, "arxiv_id": None,
    "acl_id": None, "pdf_sha": None, "licence": None, "url": None,
}  # fmt: skip


def heading_of(printed: str, number: Any) -> tuple[str | None, str | None]:
    head = " ".join(printed.split())
    text = str(number).strip(" .):\n") if number is not None else ""
    return (text, head) if text else split_number(head)


def with_roles(sections: list[Row]) -> list[Row]:
    """The sections of a paper, with the roles that their heads tell."""
    found = roles([(section["number"], section["head"]) for section in sections])
    for section, role in zip(sections, found, strict=True):
        section["role"] = role
    return sections


def reference(ref_id: str) -> Row:
    """An entry of a bibliography of which nothing is known yet."""
    empty = dict.fromkeys(("paper_id", "title", "year", "venue", "doi", "raw"))
    return {"ref_id": ref_id, **empty, "authors": []}


def corpus_id_of(value: Any) -> int:
    """A corpus id, which is an int in some files and digits in others."""
    number = whole_number(value)
    if number < 0 or isinstance(value, float):
        raise Unusable("no id", f"{value!r}"[:100])
    return number


def linked(value: Any) -> str | None:
    """The paper's id in our tables, of a corpus id as records name it; None where it is none."""
    number = whole_number(value)
    return f"{GROUP}/{number}" if number >= 0 else None


def doi_of(value: Any) -> str | None:
    """Lower case, without address and trailing punctuation."""
    if not isinstance(value, str):
        return None
    doi = _DOI_PREFIX.sub("", value.strip()).lower().rstrip(".,;")
    return doi if doi.startswith("10.") else None


def arxiv_of(value: Any) -> str | None:
    return _ARXIV_VERSION.sub("", value.strip()) or None if isinstance(value, str) else None


def identifiers(ids: Mapping[str, Any]) -> Row:
    """doi, arxiv_id and acl_id; keys come in lower case (s2orc), as DOI, ArXiv, ACL (others), and as arxiv_id."""
    named = {str(name).lower().removesuffix("_id"): value for name, value in ids.items()}
    return {
        "doi": doi_of(named.get("doi")),
        "arxiv_id": arxiv_of(named.get("arxiv")),
        "acl_id": string(named.get("acl")),
    }


def year_of(value: Any) -> int | None:
    """A year, which may be digits in a string, or empty."""
    year = whole_number(value)
    return year if 1000 <= year <= 2999 else None


def names_of(authors: Any) -> list[str]:
    """Full names of authors: strings, {"name"}, or {"first", "middle", "last", "suffix"}."""
    return [name for name in map(_name, listed(authors)) if name]


def _name(author: Any) -> str:
    try:
        first, middle, last, suffix = _PARTS(author)
        if type(middle) is list and "name" not in author:
            return " ".join(" ".join([first, *middle, last, suffix]).split())
    except (KeyError, TypeError):
        pass
    return _other_name(author)


def _other_name(author: Any) -> str:
    """Of an author who is not written with all parts, or with odd ones."""
    if not isinstance(author, dict):
        return words(author) if isinstance(author, str) else ""
    if isinstance(author.get("name"), str):
        return words(author["name"])
    middle = author.get("middle")
    names = [author.get("first"), *(middle if isinstance(middle, list) else [middle]), author.get("last")]
    return words(" ".join([part for part in [*names, author.get("suffix")] if isinstance(part, str)]))


def newlines(text: str | None) -> str | None:
    """The releases write ::: where a structured abstract begins a new line."""
    return None if text is None else text.replace(":::", "\n")


def texts(paragraphs: Any) -> list[str]:
    texts = (one.get("text") for one in listed(paragraphs) if isinstance(one, dict))
    return [text for text in texts if isinstance(text, str) and text.strip()]


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else NOTHING


def string(value: Any) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def words(text: str) -> str:
    """The text with single blanks, and none at its ends."""
    return text.strip(" ") if text.isprintable() and "  " not in text else " ".join(text.split())


def phrases(notes: Counter[str]) -> list[str]:
    """Notes with their numbers, where they are of more than one thing."""
    return [f"{phrase}: {number}" if number > 1 else phrase for phrase, number in sorted(notes.items()) if number]


def whole_number(value: Any) -> int:
    """The number that is meant; -1 where it is none."""
    if type(value) is int:
        return value if value < 1 << 63 else -1
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:18])
    return int(value) if isinstance(value, float) and value.is_integer() else -1


def converter(text: str, encoding: str, bytes_each: int) -> Callable[[int], int]:
    """Offsets in units of an encoding as code points; -1 for one inside a character or past the end."""
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    wide = np.array([0x10000] if bytes_each == 2 else [0x80, 0x800, 0x10000], np.uint32)
    starts = np.concatenate([[0], np.cumsum(1 + np.searchsorted(wide, codes, side="right"))])

    def convert(unit: int) -> int:
        place = int(np.searchsorted(starts, unit))
        return place if place < len(starts) and starts[place] == unit else -1

    return convert
