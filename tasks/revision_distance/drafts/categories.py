"""Categories of the edits to a related-work paragraph, by the words of the editor (the paper's appendix and table 3).

order        references put into another order: by time, by method, by problem
comparison   references related to each other: what they share, where they differ
description  what is said of one reference: more, less, otherwise
other        what cites or describes no reference, e.g. grammar or a greeting

The category is decided by the words of the edit's `action_name`; if these name none (`add`, `revise`), by the words of
its description; if these name none either, it is `description` for an edit that mentions a reference and corrects more
than spelling and grammar, else `other`. The lexicon (categories.json) holds words, and stems that end with `*`. Its
list `anywhere` applies to action names and descriptions; phrases in `ignored`, such as names of methods, are removed
first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from schemas.replies import ProposedEdit

Category = Literal["order", "comparison", "description", "other"]
CATEGORIES: tuple[Category, ...] = ("order", "comparison", "description", "other")

_OF_REFERENCES = ("order", "comparison")
_READ_CHARACTERS = 4_000
_QUOTED = re.compile(r"“[^”]*+”|‘[^’]*+’|(?<!\w)'[^']*+'(?!\w)|`[^`]*+`|«[^»]*+»")
_STRAIGHT = re.compile(r'(?<![^\s(\[{"“‘/–—-])(?P<opens>")(?=[\w"“(\[])|"')
_CITATION = re.compile(r"\bet al\b|\\cite|\[\d{1,3}[\],;–-]|\(\D{0,80}\b(?:19|20)\d\d[a-z]?\b|\b\w+ \((?:19|20)\d\d")
_PHRASE = re.compile(r'["“]([^"“”.]{3,200}+)["”]')


def category(edit: ProposedEdit | Mapping[str, Any]) -> Category:
    """The category of an edit to a related-work paragraph: the one that its action name, else its description names.

    If they name none: "description" for an edit of the level reference, or whose description or snippets mention a
    reference, unless its intention is fluency; else "other". Quotations in the description do not count, nor does what
    follows the first 4,000 characters of a text. `edit`: as a dict with the fields of ProposedEdit, or one.
    """
    fields = edit.model_dump() if isinstance(edit, ProposedEdit) else edit
    description = unquoted(fields["revision_description"][:_READ_CHARACTERS])
    by_name = _named_category(fields["action_name"][:_READ_CHARACTERS], "action_name")
    if named := by_name or _named_category(description, "anywhere"):
        return named
    if fields["revision_intention"] == "fluency":
        return "other"
    snippets = [(fields[name] or "")[:_READ_CHARACTERS] for name in ("original_snippet", "revised_snippet")]
    of_reference = fields["revision_level"].strip().casefold() == "reference" or any(
        map(_mentions_a_reference, [description, *snippets])
    )
    return "description" if of_reference else "other"


def unquoted(text: str) -> str:
    """The text without its quotations, which hold words of the draft, not the editor's.

    Quotes are straight double ones, which may be nested, “…”, ‘…’, «…», `…`, and '…' apart from apostrophes in words.
    A blank takes the place of each quotation. An unclosed straight one ends at the last closing quote, and stays if
    there is none.
    """
    kept: list[str] = []
    at = begins = depth = ends = 0
    for mark in _STRAIGHT.finditer(text):
        if mark["opens"]:
            begins = begins if depth else mark.start()
            depth += 1
        elif depth:
            depth, ends = depth - 1, mark.end()
            if not depth:
                kept.append(text[at:begins])
                at = ends
    if depth and ends > begins:
        kept.append(text[at:begins])
        at = ends
    return _QUOTED.sub(" ", " ".join([*kept, text[at:]]))


def _named_category(text: str, where: str) -> Category | None:
    """The category that words of the text name; None if they name none.

    If they name several, order and comparison win over description and other; among equals the one whose word comes
    first (the longer one if both begin there). `where`: the list of the lexicon that is searched besides `anywhere`.
    Letter case counts for nothing, and phrases in the lexicon's list `ignored` are removed first.
    """
    folded = _phrases("ignored").sub(" ", " ".join(text.casefold().replace("_", " ").split()))
    matches = {name: match for name in CATEGORIES if (match := _words(name, where).search(folded))}
    order = {name: (name not in _OF_REFERENCES, match.start(), -match.end()) for name, match in matches.items()}
    return min(order, key=lambda name: order[name], default=None)


def _mentions_a_reference(text: str) -> bool:
    """Whether a text has a citation ("et al", "[3]", "Roe (2019)"), a phrase for a reference, or a quoted title."""
    return bool(_CITATION.search(text) or _phrases("cited").search(text.casefold()) or _quotes_a_title(text))


def _quotes_a_title(text: str) -> bool:
    """Whether a quotation looks like a title: it begins with a capital and has another capitalised word.

    Only quotations in double quotes, of 3 to 200 characters without a full stop, are looked at.
    """
    capitals = ([word[0].isupper() for word in phrase[1].split()] for phrase in _PHRASE.finditer(text))
    return any(starts[:1] == [True] and sum(starts) > 1 for starts in capitals)


@cache
def _words(name: str, where: str) -> re.Pattern[str]:
    """A pattern of the words that name a category: those in its list `anywhere` and in its list `where`.

    `name`: the category.
    """
    lists = _lexicon()[name]
    return _pattern([*lists["anywhere"], *(lists[where] if where != "anywhere" else [])])


@cache
def _phrases(name: str) -> re.Pattern[str]:
    """A pattern of the phrases in the list of the lexicon with this name."""
    return _pattern(_lexicon()[name])


def _pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """A pattern of any of these phrases as whole words, the longest first; a final `*` matches any word ending."""
    longest = sorted(phrases, key=len, reverse=True)
    ends = [re.escape(each.removesuffix("*")) + (r"\w*" if each.endswith("*") else "") for each in longest]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(ends)})(?!\w)")


@cache
def _lexicon() -> dict[str, Any]:
    """The lexicon, categories.json, as parsed."""
    return dict(json.loads(Path(__file__).with_name("categories.json").read_text(encoding="utf-8")))
