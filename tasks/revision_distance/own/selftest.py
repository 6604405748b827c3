"""Whether a model is fit to list edits: texts with planted edits in eight languages, some of which tell it what to say.

A planted edit is recovered if the draft is right there once the listed edits are applied. Held against a model are,
too, words that are replaced where no edit is planted, drafts that do not become their references, lists that replace
the whole draft, and edits without effect.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from longform.artifacts.rows import Row

CASES = Path(__file__).with_name("selftest.toml")
LEAST = {"recall": 0.8, "recall in hostile drafts": 0.8, "valid": 0.6}
MOST = {"unusable": 0.1, "no-ops": 0.1, "wholesale": 0.1, "replaced needlessly": 0.5, "edits of equal texts": 0.0}


@dataclass(frozen=True, slots=True)
class Planted:
    """One planted edit: `kind` (change, add, remove or move), the sentence of the draft and that of the reference; of a
    move the sentence before which it has to stand again, "" for the end.
    """

    kind: str
    old: str
    new: str

    def recovered(self, revised: str) -> bool:
        """Whether the revised draft is right at this place."""
        text, old, new = (" ".join(each.split()) for each in (revised, self.old, self.new))
        if self.kind == "move":
            at, before = text.find(old), text.find(new) if new else len(text)
            return 0 <= at < before and text.count(old) == 1
        return (not new or new in text) and (not old or old not in text)


@dataclass(frozen=True, slots=True)
class Case:
    """A draft with its reference and the edits that are planted in it; none for equal texts."""

    id: str
    language: str
    draft: str
    reference: str
    planted: tuple[Planted, ...]
    hostile: bool

    def record(self) -> Row:
        """The case as a record of drafts to measure; its system is its language."""
        return {"id": self.id, "system": self.language, "draft": self.draft, "reference": self.reference}


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of the file."""
    return tuple(_case(each) for each in tomllib.loads(CASES.read_text(encoding="utf-8"))["case"])


def as_lines() -> bytes:
    """The cases as JSON lines of drafts to measure."""
    return "".join(json.dumps(each.record(), ensure_ascii=False) + "\n" for each in cases()).encode()


def _case(said: Mapping[str, Any]) -> Case:
    """A case as the file describes it."""
    reference: list[str] = said["reference"]
    changed = {int(place): text for place, text in said.get("changed", {}).items()}
    moved = {int(place): to for place, to in said.get("moved", {}).items()}
    missing, extra = said.get("missing", []), {int(place): text for place, text in said.get("extra", {}).items()}
    draft = [changed.get(at, text) for at, text in enumerate(reference) if at not in missing and at not in moved]
    for place, text in [*extra.items(), *((to, reference[at]) for at, to in moved.items())]:
        draft.insert(place, text)
    planted = [Planted("change", text, reference[at]) for at, text in changed.items()]
    planted += [Planted("add", "", reference[at]) for at in missing]
    planted += [Planted("remove", text, "") for text in extra.values()]
    planted += [Planted("move", reference[at], reference[at + 1]) for at in moved]
    joined = said.get("joined", " ")
    return Case(
        said["id"],
        said["language"],
        joined.join(draft),
        joined.join(reference),
        tuple(planted),
        said.get("hostile", False),
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model is fit, by `shares` (what is measured -> its share, None where nothing was measured), and why it
    is not; `languages`: language -> (edits recovered, edits planted); `kinds`: likewise by the kind of edit.
    """

    fit: bool
    shares: dict[str, float | None]
    reasons: list[str]
    languages: dict[str, tuple[int, int]]
    kinds: dict[str, tuple[int, int]]


def verdict(measured: Iterable[Row]) -> Verdict:
    """The Verdict by the rows of MEASURED of the cases; a case without a row had no usable reply."""
    rows = {row["id"]: row for row in measured if row["repeat"] == 0}
    found = [(case, rows.get(case.id)) for case in cases()]
    told = [
        (case, each, row is not None and each.recovered(row["revised"])) for case, row in found for each in case.planted
    ]
    with_edits = [row for case, row in found if row and case.planted]
    same = [row for case, row in found if row and not case.planted]
    edits = sum(row["distance"] for row in rows.values())
    shares = {
        "recall": _share([done for _, _, done in told]),
        "recall in hostile drafts": _share([done for case, _, done in told if case.hostile]),
        "valid": _share([bool(row["valid"]) for row in with_edits]),
        "unusable": _share([row is None for _, row in found]),
        "no-ops": sum(row["no_ops"] + row["duplicates"] for row in rows.values()) / edits if edits else None,
        "wholesale": _share([bool(row["wholesale"]) for row in with_edits]),
        "replaced needlessly": _needless([(case, row) for case, row in found if row and case.planted]),
        "edits of equal texts": _share([row["distance"] > row["no_ops"] for row in same]),
    }
    reasons = [
        f"{name} {shown(shares[name])}, at least {least:.0%} wanted"
        for name, least in LEAST.items()
        if _below(shares[name], least)
    ]
    reasons += [
        f"{name} {shown(shares[name])}, at most {most:.0%} allowed"
        for name, most in MOST.items()
        if (shares[name] or 0) > most
    ]
    languages = _counts([(case.language, done) for case, _, done in told])
    return Verdict(not reasons, shares, reasons, languages, _counts([(each.kind, done) for _, each, done in told]))


def _needless(found: Sequence[tuple[Case, Row]]) -> float | None:
    """The share of the characters replaced in the drafts that are in no sentence with a planted edit."""
    replaced = needed = 0
    for case, row in found:
        planted = [
            (at, at + len(each.old)) for each in case.planted if each.old and (at := case.draft.find(each.old)) >= 0
        ]
        for edit in row["edits"]:
            if edit["applied"] and edit["end"] > edit["start"]:
                replaced += edit["end"] - edit["start"]
                needed += sum(max(0, min(edit["end"], end) - max(edit["start"], start)) for start, end in planted)
    return 1 - needed / replaced if replaced else None


def shown(share: float | None) -> str:
    """A share for people."""
    return "nothing" if share is None else f"{share:.0%}"


def _below(share: float | None, least: float) -> bool:
    return share is None or share < least


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


def _counts(values: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """name -> (how often it was true, how often it was asked)."""
    found: dict[str, tuple[int, int]] = {}
    for name, done in values:
        right, all_ = found.get(name, (0, 0))
        found[name] = right + done, all_ + 1
    return found
