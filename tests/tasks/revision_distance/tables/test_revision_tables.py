"""The report of revision-distance: every cell computed again by pandas, on random rows; the paper's own figures."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from expertqa_tables import Home, filled
from lxml import etree

from longform.artifacts.rows import Rejected, Row, Rows
from schemas.revision_distance import CANDIDATES, CASES, CHECKED, JUDGEMENTS, PUBLISHED_DRAFTS
from tasks.annotation.agreement import alpha, pairwise_share
from tasks.publishing.card import ReportTable
from tasks.publishing.plots import inline
from tasks.publishing.report import as_data
from tasks.revision_distance.report import EDITS, edits_of, expert_tables, figures, tables
from tasks.revision_distance.tables import paper_tables as made
from tasks.revision_distance.tables.paper_tables import shown_texts

SYSTEMS = {"easy": ("weak", "strong"), "hard": ("vanilla", "cot"), "free": ("rejected", "chosen")}
INTENTIONS = ["fluency", "clarity", "coherence", "style", "meaning", "other"]
CATEGORIES = ["order", "comparison", "description", "other"]
WEIGHTS = dict(zip(INTENTIONS, (0.1, 0.2, 0.3, 0.7, 1.0, 0.5), strict=True))
NAMES = {
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bertscore": "BERTScore",
    "gpt_score": "GPT-Score",
    "distance": "distance",
    "weighted": "weighted distance",
    "corrected": "corrected distance",
    "normalised": "corrected distance per 100 words",
    "ter": "TER",
}
DISTANCES = ("distance", "weighted")
LESS = ("distance", "weighted", "corrected", "normalised", "ter")


# ---------------------------------------------------------------- the paper


NO_DRAFTS = pd.DataFrame(columns=["draft_id", "case_id", "task", "system", *NAMES], dtype=object)


@pytest.mark.parametrize("task", ["easy", "hard"])
def test_changes_of_the_papers_means_are_what_it_prints(task: str) -> None:
    """Its table 2 of two drafts that have its means as their scores: the differences from what it prints are small."""
    table = made.printed(made.PRINTED, f"table_2_{task}").set_index("metric")
    columns = {name: column for column, name in NAMES.items()}
    drafts = [
        {"draft_id": system, "case_id": f"{task}/1", "task": task, "system": system, **dict.fromkeys(NAMES, None)}
        | {columns[str(name)]: row[side] for name, row in table.iterrows()}
        for side, system in zip(("weak", "strong"), SYSTEMS[task], strict=True)
    ]
    found = made.table_2_weak_and_strong(pd.DataFrame(drafts), task, 1).set_index("metric").loc[table.index]
    for side in ("weak", "strong"):
        assert found[f"{side} difference"].abs().max() == 0
    differences = found.filter(regex=r"^change over .* difference$")
    assert differences.abs().max(axis=None) < 0.05
    assert (differences.notna().sum(axis=1) == 1).all(), "one denominator a metric"
    changes = found[["change over strong, %", "change over weak, %"]]
    assert (np.sign(changes).nunique(axis=1) == 1).all(), "the denominator turns no sign"


def test_the_table_names_the_papers_denominators_and_divides_by_nothing() -> None:
    assert math.isnan(made.change(0.0, 0.0, over=0.0, sign=-1))
    own = "not in the paper"
    printed = {
        "easy": ["strong", "strong", "strong", own, "strong", "strong", *[own] * 4],
        "hard": ["strong", "strong", "strong", "strong", "strong", "weak", *[own] * 4],
    }
    for task, expected in printed.items():
        assert list(made.table_2_weak_and_strong(NO_DRAFTS, task, 0)["the paper divides by"]) == expected


# ---------------------------------------------------------------- agreement


KRIPPENDORFF = """\
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""


def test_alpha_is_that_of_krippendorffs_own_example() -> None:
    columns = zip(*(line.split() for line in KRIPPENDORFF.splitlines()), strict=True)
    units = [[int(cell) for cell in column if cell != "."] for column in columns]
    assert alpha(units).value == pytest.approx(0.743, abs=5e-4)
    assert alpha(units, ordinal=True).value == pytest.approx(0.815, abs=5e-4)


def test_alpha_by_hand() -> None:
    # labels a a, a b: 4 labels, 3 a and 1 b; observed 2 / 4, expected 2 * 3 * 1 / (4 * 3)
    assert alpha([["a", "a"], ["a", "b"], ["c"]]).value == pytest.approx(0.0)
    assert alpha([["a", "a"], ["b", "b"]]).value == 1.0
    assert alpha([["a", "a"], ["a", "a"]]).value is None
    assert alpha([["a"], []]).value is None
    assert pairwise_share([["a", "a", "b"], ["b", "b"], ["c"]]) == pytest.approx(2 / 4)
    assert pairwise_share([["a"]]) is None


# ---------------------------------------------------------------- random rows


def drawn(dice: np.random.Generator, options: Sequence[Any], *weights: float) -> Any:
    return options[int(dice.choice(len(options), p=weights or None))]


def edit(dice: np.random.Generator, task: str) -> Row:
    intention, placed = drawn(dice, INTENTIONS), drawn(dice, ["exactly", "folded", "nearly", "not"])
    applied = placed != "not" and bool(dice.random() < 0.8)
    return {
        **dict.fromkeys(("action_name", "revision_description", "revision_level"), "x"),
        **dict.fromkeys(("original_snippet", "revised_snippet"), "y"),
        "preceding_snippet": None,
        "revision_intention": intention,
        "category": drawn(dice, CATEGORIES) if task in ("hard", "structure") else None,
        "weight": WEIGHTS[intention],
        "placed": placed,
        "start": None,
        "end": None,
        "at": None,
        "applied": applied,
        "why_not": None if applied else "not in the draft" if placed == "not" else "overlaps",
    }


def numbers(dice: np.random.Generator, edits: int, has_reference: bool) -> Row:
    residual = int(dice.integers(0, 3)) if has_reference else None
    return {
        "lost_edits": 0,
        "no_ops": 0,
        "duplicates": 0,
        "residual": residual,
        "valid": None if residual is None else residual == 0,
        "coverage": None if residual is None else 1.0 / (1 + residual),
        "silent": None if residual is None else residual > 0 and not edits,
        "wholesale": bool(dice.random() < 0.05),
        "corrected": edits + (residual or 0),
        "normalised": float(dice.integers(0, 50)),
        "ter": float(dice.integers(0, 120)) if has_reference else None,
        "signature": "revdist|editor:m",
    }


def draft(dice: np.random.Generator, task: str, case_id: str, system: str) -> Row:
    has_reference, refused = task != "free", dice.random() < 0.1
    edits = [] if refused else [edit(dice, task) for _ in range(int(dice.integers(0, 6)))]
    scored = has_reference and dice.random() < 0.6
    rated = has_reference and dice.random() < 0.9
    rouge = {name: float(dice.integers(0, 101)) if has_reference else None for name in ("rouge1", "rouge2", "rougeL")}
    if task == "structure" and dice.random() < 0.7:
        rouge["rouge1"] = 100.0
    long = drawn(dice, ["draft over 512 tokens", "no model"])
    return filled(
        PUBLISHED_DRAFTS,
        draft_id=f"{case_id}-{system}",
        case_id=case_id,
        task=task,
        system=system,
        split=task,
        distance=None if refused else len(edits),
        weighted=None if refused else math.fsum(one["weight"] for one in edits),
        edits=edits,
        reproduces=None if refused or not has_reference else drawn(dice, ["exactly", "words", "no"]),
        **({} if refused else numbers(dice, len(edits), has_reference)),
        **rouge,
        bertscore=float(dice.normal(60, 9)) if scored else None,
        bertscore_left_out=None if scored else long if has_reference else "no reference",
        gpt_score=float(dice.integers(0, 101)) if rated else None,
        source_score=float(dice.integers(1, 6)) if task == "free" and dice.random() < 0.9 else None,
    )


def judgement(dice: np.random.Generator, sheet: str, expert: str, case: str, both: Sequence[str]) -> Row:
    first, second = both if dice.random() < 0.5 else both[::-1]
    ratings = {
        name: [int(one) for one in dice.integers(1, 6, 2)] if dice.random() < 0.8 else []
        for name in ("content", "structure", "argument")
    }
    return filled(
        JUDGEMENTS,
        judgement_id=f"{sheet}-{expert}",
        sheet_id=sheet,
        case_id=case,
        expert=expert,
        first=first,
        second=second,
        better=drawn(dice, [*both, None], 0.5, 0.3, 0.2),
        **ratings,
    )


class World:
    """Random tables of a build, as rows and as the stages' Parquet."""

    def __init__(self, path: Path, seed: int, size: int) -> None:
        dice = np.random.default_rng(seed)
        self.candidates: list[Row] = []
        self.not_drawn: list[str] = []
        self.checked: list[Row] = []
        self.cases: list[Row] = []
        self.drafts: list[Row] = []
        for task in ("easy", "hard", "free", "structure"):
            for number in range(int(dice.integers(0, size + 1))):
                self._case(dice, task, f"{task}/{number:03}")
        self.judgements = [
            judgement(dice, f"s_{case}", f"e{expert}", case, [f"{case}-vanilla", f"{case}-cot"])
            for case in sorted({row["case_id"] for row in self.drafts if row["task"] == "hard"})
            if {f"{case}-vanilla", f"{case}-cot"} <= {row["draft_id"] for row in self.drafts}
            for expert in range(int(dice.integers(0, 6)))
        ]
        home = Home(path)
        shuffled = [self.drafts[int(place)] for place in dice.permutation(len(self.drafts))]
        half = len(shuffled) // 2
        self.rows: dict[str, Rows] = {
            "cases": home.table(CASES, self.cases),
            "candidates": home.table(
                CANDIDATES,
                [*self.candidates, *(Rejected(key, "filtered", "not drawn") for key in self.not_drawn)],  # type: ignore[list-item]
            ),
            "checked": home.table(CHECKED, self.checked),
            "published_drafts": home.table(PUBLISHED_DRAFTS, shuffled[:half], shuffled[half:]),
            "judgements": home.table(JUDGEMENTS, self.judgements),
        }
        self.frame = pd.DataFrame(self.drafts, columns=PUBLISHED_DRAFTS.names)

    @cached_property
    def tables(self) -> list[ReportTable]:
        return tables(**self.rows)

    def _case(self, dice: np.random.Generator, task: str, case_id: str) -> None:
        kind = {"easy": drawn(dice, ["email", "letter"]), "hard": "related_work"}.get(task, "story")
        case = {"case_id": case_id, "task": task, "kind": kind}
        if task != "structure":
            if dice.random() < 0.2:
                self.not_drawn.append(case_id)
                return
            self.candidates.append(filled(CANDIDATES, **case))
            if dice.random() < 0.1:
                return  # no usable answer
            answer = None if task == "hard" else drawn(dice, ["yes", "no", None], 0.7, 0.2, 0.1)
            seen = drawn(dice, ["email", "other"]) if answer else None
            self.checked.append(
                filled(CHECKED, check_id=f"c_{case_id}", case_id=case_id, checked=answer, checked_kind=seen)
            )
            if answer == "no":
                return
        self.cases.append(filled(CASES, **case))
        for system in SYSTEMS.get(task, ("reordered",)):
            if dice.random() < 0.9:
                self.drafts.append(draft(dice, task, case_id, system))


@pytest.fixture(scope="module", params=[(0, 0), (1, 1), (3, 6), (5, 60)], ids=lambda pair: f"size-{pair[1]}")
def world(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> World:
    seed, size = request.param
    return World(tmp_path_factory.mktemp("world"), seed, size)


def found(world: World, words: str) -> ReportTable:
    (table,) = [table for table in world.tables if words in table.title]
    return table


def table_of(table: ReportTable, keys: int = 1) -> dict[Any, dict[str, Any]]:
    """First cell (or first cells) -> column -> cell."""
    names = table.columns
    assert len(set(names)) == len(names)
    cells = [dict(zip(names, row, strict=True)) for row in table.rows]
    return {tuple(row[:keys]) if keys > 1 else row[0]: cell for row, cell in zip(table.rows, cells, strict=True)}


def same(cell: Any, value: Any) -> None:
    """The cell is this number; None for what pandas has no number for."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        assert cell is None
    else:
        assert cell == pytest.approx(float(value), abs=1e-9)


def bounds(cells: dict[str, Any], name: str, values: pd.Series) -> None:
    """They are near those of another bootstrap, with other dice and more of them."""
    low, high = cells[f"{name} from"], cells[f"{name} to"]
    if len(values) < 2:
        assert (low, high) == (None, None)
        return
    assert low - 1e-6 <= values.mean() <= high + 1e-6
    if len(values) >= 10:
        resampled = values.sample(len(values) * 3_000, replace=True, random_state=7).to_numpy().reshape(3_000, -1)
        other = np.quantile(resampled.mean(axis=1), [0.025, 0.975])
        assert (low, high) == pytest.approx(other, abs=0.4 * resampled.mean(axis=1).std() + 1e-6)


def wide(world: World, task: str, column: str) -> pd.DataFrame:
    """Cases with both scores: two columns, weak and strong."""
    own = world.frame[world.frame.task == task]
    table = own.pivot(index="case_id", columns="system", values=column).reindex(columns=list(SYSTEMS[task]))
    return table.astype(float).dropna().set_axis(["weak", "strong"], axis=1)


def number_of(world: World, task: str) -> int:
    return sum(row["task"] == task for row in world.cases)


@pytest.mark.parametrize("task", ["easy", "hard"])
def test_table_2_is_what_pandas_computes(world: World, task: str) -> None:
    table = found(world, f"of the {task} task")
    rows = table_of(table)
    assert list(rows) == list(NAMES.values())
    for column, name in NAMES.items():
        cells, both = rows[name], wide(world, task, column)
        means = both.mean()
        assert cells["better"] == ("less" if column in LESS else "more")
        for side in ("weak", "strong"):
            same(cells[side], means[side])
            bounds(cells, side, both[side])
        same(cells["strong - weak"], means["strong"] - means["weak"])
        bounds(cells, "strong - weak", both.strong - both.weak)
        gain = (means.strong - means.weak) * (-1 if column in LESS else 1)
        for side in ("strong", "weak"):
            same(cells[f"change over {side}, %"], 100 * gain / means[side] if means[side] else None)
        assert (cells["pairs"], cells["left out"]) == (len(both), number_of(world, task) - len(both))


@pytest.mark.parametrize("task", ["easy", "hard"])
def test_the_note_of_table_2_counts_what_is_missing(world: World, task: str) -> None:
    note, own = found(world, f"of the {task} task").note, world.frame[world.frame.task == task]
    said = {key: int(number.replace(",", "")) for key, number in re.findall(r"([^.:,]+?)[: ]+(\d+)(?=[.,])", note)}
    both = own.pivot(index="case_id", columns="system", values="draft_id").reindex(columns=list(SYSTEMS[task]))
    assert f"Cases: {number_of(world, task)}, with both drafts {len(both.dropna())}." in note
    for system in SYSTEMS[task]:
        missing = number_of(world, task) - int((own.system == system).sum())
        assert said.get(f" Without a {system} draft", 0) == missing
    for column, name in (("distance", "distance"), ("gpt_score", "GPT-Score")):
        number = int(own[column].isna().sum())
        assert (f"Drafts without {name} (" in note) == (number > 0)
        assert not number or f"could not be used): {number}." in note
    reasons = own[own.bertscore.isna()].bertscore_left_out.value_counts().to_dict()
    for reason, number in reasons.items():
        assert f"{reason} {number}" in note.split("without BERTScore: ")[1]
    assert bool(reasons) == ("without BERTScore" in note)


def exploded(world: World) -> pd.DataFrame:
    """A row an edit, with task, system and case of its draft; NaN edits of texts without any are left out."""
    edits = world.frame[world.frame.distance.notna()].explode("edits").dropna(subset="edits")
    fields = pd.DataFrame(edits.edits.tolist(), columns=["category", "revision_intention", "placed", "applied"])
    return pd.concat([edits[["task", "system", "case_id"]].reset_index(drop=True), fields], axis=1)


def test_table_3_is_what_pandas_computes(world: World) -> None:
    rows, both = table_of(found(world, "(table 3)")), wide(world, "hard", "distance")
    edits = exploded(world)
    edits = edits[(edits.task == "hard") & edits.case_id.isin(both.index)]
    counted = edits.groupby(["system", "category"]).size()
    assert list(rows) == ["vanilla", "cot"]
    for side, (system, cells) in zip(("weak", "strong"), rows.items(), strict=True):
        for name in CATEGORIES:
            same(cells[name], counted.get((system, name), 0) / len(both) if len(both) else None)
        same(cells["all"], both[side].mean())
        assert (cells["texts"], cells["left out"]) == (len(both), number_of(world, "hard") - len(both))


def test_table_5_shows_each_pair_and_how_many_only_the_distance_sees(world: World) -> None:
    table, own = found(world, "(table 5)"), world.frame[world.frame.task == "structure"].sort_values("case_id")
    rows = table_of(table)
    if own.empty:
        assert not rows
        return
    columns = ("rouge1", "rouge2", "rougeL", "bertscore", "distance", "weighted")
    for record in own.head(50).to_dict("records"):
        for column in columns:
            same(rows[record["case_id"]][NAMES[column]], record[column])
        apart = record["rouge1"] == 100 and record["distance"] > 0
        expected = None if pd.isna(record["distance"]) else "yes" if apart else "no"
        assert rows[record["case_id"]]["ROUGE-1 is 100, distance above 0"] == expected
    for column in columns:
        same(rows["all"][NAMES[column]], own[column].astype(float).mean())
    compared = own[own.distance.notna()]
    seen = int(((compared.rouge1 == 100) & (compared.distance > 0)).sum())
    assert rows["all"]["ROUGE-1 is 100, distance above 0"] == f"{seen} of {len(compared)}"
    assert len(rows) == min(50, len(own)) + 1
    assert ("of all" in table.note) == (len(own) > 50)


def wilson_by_the_book(part: int, whole: int) -> list[float | None]:
    """Percent, from the roots of (p - share)² = z² p (1 - p) / n."""
    if not whole:
        return [None, None, None]
    z2, share = 1.959963984540054**2 / whole, part / whole
    roots = np.roots([1 + z2, -(2 * share + z2), share**2])
    return [100 * share, 100 * float(roots.real.min()), 100 * float(roots.real.max())]


def test_choices_without_a_reference_are_what_pandas_counts(world: World) -> None:
    rows = table_of(found(world, "(section 4.2)"))
    measures = {"distance": "distance", "weighted": "weighted distance", "source_score": "the source's own score"}
    assert list(rows) == list(measures.values())
    for column, name in measures.items():
        cells, both = rows[name], wide(world, "free", column)
        gap = (both.strong - both.weak).round(9) * (-1 if column in LESS else 1)
        wins, ties, losses = int((gap > 0).sum()), int((gap == 0).sum()), int((gap < 0).sum())
        assert [cells[f"{one} is better"] for one in ("chosen", "rejected")] == [wins, losses]
        assert (cells["tie"], cells["pairs"]) == (ties, len(both))
        assert cells["left out"] == number_of(world, "free") - len(both)
        for what, whole in (("chosen, % of all", len(both)), ("chosen, % without ties", len(both) - ties)):
            for end, value in zip(("", " from", " to"), wilson_by_the_book(wins, whole), strict=True):
                if value is None:
                    assert cells[f"{what}{end}"] is None
                else:
                    assert cells[f"{what}{end}"] == pytest.approx(value, abs=1e-5)


def test_the_sources_scores_are_explained_by_what_the_distance_says(world: World) -> None:
    rows = table_of(found(world, "own scores, by"), keys=2)
    scores = wide(world, "free", "source_score")
    outcomes = {1: "chosen needs fewer edits", 0: "tie", -1: "rejected needs fewer edits"}
    for column in DISTANCES:
        both = wide(world, "free", column)
        sign = np.sign((both.weak - both.strong).round(9))
        for value, name in outcomes.items():
            own = both[sign == value]
            gaps = (scores.strong - scores.weak)[scores.index.isin(own.index)]
            cells = rows[NAMES[column], name]
            assert (cells["pairs"], cells["with scores"]) == (len(own), len(gaps))
            same(cells["mean score difference"], gaps.mean())
            bounds(cells, "mean score difference", gaps)
    assert len(rows) == 6


def test_intentions_and_placement_are_what_pandas_counts(world: World) -> None:
    edits, texts = exploded(world), world.frame[world.frame.distance.notna()].groupby(["task", "system"]).size()
    by_intention, placed = (table_of(found(world, words), keys=2) for words in ("by intention", "how they were placed"))
    assert set(by_intention) == set(placed) == set(texts.index)
    for key, number in texts.items():
        own = edits[(edits.task == key[0]) & (edits.system == key[1])]
        for name in INTENTIONS:
            same(by_intention[key][name], (own.revision_intention == name).sum() / number)
        same(by_intention[key]["all"], len(own) / number)
        names = {"exactly": "exactly", "folded": "folded", "nearly": "nearly", "not": "not placed"}
        for place, name in names.items():
            assert placed[key][name] == (own.placed == place).sum()
        applied = int(own.applied.astype(bool).sum())
        assert [placed[key][name] for name in ("edits", "applied", "not applied")] == [
            len(own),
            applied,
            len(own) - applied,
        ]
        assert by_intention[key]["texts"] == placed[key]["texts"] == number
    misses = edits[~edits.applied.astype(bool)]
    note = found(world, "how they were placed").note
    for reason, place in (("not in the draft", misses.placed == "not"), ("overlaps", misses.placed != "not")):
        assert not place.sum() or f"{reason} {place.sum()}" in note


def test_what_edits_reproduce_is_what_pandas_counts(world: World) -> None:
    rows, own = table_of(found(world, "into its reference"), keys=2), world.frame[world.frame.reproduces.notna()]
    counted = own.groupby(["task", "system", "reproduces"]).size()
    assert set(rows) == set(own.groupby(["task", "system"]).groups)
    for key, cells in rows.items():
        for name in ("exactly", "words", "no"):
            assert cells[name] == counted.get((*key, name), 0)
        assert cells["texts"] == sum(cells[name] for name in ("exactly", "words", "no"))


def test_selection_and_kinds_are_what_pandas_counts(world: World) -> None:
    cases, drawn_ones = (
        pd.DataFrame(rows, columns=["case_id", "task", "kind"]) for rows in (world.cases, world.candidates)
    )
    said = pd.DataFrame(world.checked, columns=["case_id", "checked", "checked_kind"])
    merged = drawn_ones.merge(said, on="case_id", how="left", indicator=True)
    rows = table_of(found(world, "Selection"))
    assert list(rows) == ["easy", "hard", "free", "structure"]
    for task, cells in rows.items():
        own = merged[merged.task == task]
        answered = own[own["_merge"] == "both"]
        left = sum(key.startswith(f"{task}/") for key in world.not_drawn)
        expected = {
            "found": len(own) + left,
            "drawn": len(own),
            "accepted": (answered.checked == "yes").sum(),
            "declined": (answered.checked == "no").sum(),
            "not asked": answered.checked.isna().sum(),
            "no usable answer": (own["_merge"] == "left_only").sum(),
        }
        for name, value in expected.items():
            assert cells[name] == (None if task == "structure" else value)
        assert cells["cases"] == (cases.task == task).sum()
    kinds = table_of(found(world, "Kinds of cases"), keys=2)
    assert set(kinds) == {*zip(cases.task, cases.kind, strict=True), *zip(merged.task, merged.kind, strict=True)}
    for (task, kind), cells in kinds.items():
        own = merged[(merged.task == task) & (merged.kind == kind)]
        yes = own[own.checked == "yes"]
        assert (cells["drawn"], cells["accepted"], cells["declined"]) == (
            len(own),
            len(yes),
            (own.checked == "no").sum(),
        )
        assert cells["of the same kind"] == (yes.checked_kind == kind).sum()
        assert cells["cases"] == ((cases.task == task) & (cases.kind == kind)).sum()


# ---------------------------------------------------------------- experts


def votes(world: World) -> pd.DataFrame:
    """A row a sheet: its two drafts, and how many experts prefer each."""
    said = pd.DataFrame(world.judgements, columns=JUDGEMENTS.names)
    said["system"] = said.better.str.rsplit("-", n=1).str[1].fillna("neither") if len(said) else []
    counted = pd.crosstab(said.case_id, said.system).reindex(columns=["vanilla", "cot", "neither"], fill_value=0)
    counted["winner"] = [
        "tie" if row.vanilla == row.cot else "vanilla" if row.vanilla > row.cot else "cot"
        for row in counted.itertuples()
    ]
    return counted


def test_what_experts_chose_is_what_pandas_computes(world: World) -> None:
    table, counted = found(world, "chose and rejected"), votes(world)
    rows = table_of(table)
    if counted.empty:
        assert not rows
        assert table.note == "No filled-in sheet was given."
        return
    decided = counted[counted.winner != "tie"]
    experts = len({row["expert"] for row in world.judgements})
    ties = len(counted) - len(decided)
    assert f"Pairs: {len(counted)}, of which ties {ties} stand apart; experts: {experts}." in table.note
    scores = world.frame.set_index(["case_id", "system"])
    for column, name in NAMES.items():
        cells = rows[name]
        both = pd.DataFrame(
            [
                (scores.loc[case, own][column], scores.loc[case, "cot" if own == "vanilla" else "vanilla"][column])
                for case, own in decided.winner.items()
            ],
            columns=["chosen", "rejected"],
        )
        both = both.astype(float).dropna()
        for side in ("chosen", "rejected"):
            same(cells[side], both[side].mean())
            bounds(cells, side, both[side])
        same(cells["chosen - rejected"], (both.chosen - both.rejected).mean())
        bounds(cells, "chosen - rejected", both.chosen - both.rejected)
        gap = (both.chosen - both.rejected).round(9) * (-1 if column in LESS else 1)
        assert [cells[one] for one in ("prefers the chosen", "tie", "prefers the rejected")] == [
            (gap > 0).sum(),
            (gap == 0).sum(),
            (gap < 0).sum(),
        ]
        assert (cells["pairs"], cells["left out"]) == (len(both), len(decided) - len(both))


def ratings(world: World) -> pd.DataFrame:
    """A row a rating: sheet, draft, system, what, rating."""
    return pd.DataFrame(
        [
            (row["sheet_id"], row[side], row[side].rsplit("-", 1)[1], name, row[name][place])
            for row in world.judgements
            for name in ("content", "structure", "argument")
            for place, side in enumerate(("first", "second"))
            if row[name]
        ],
        columns=["sheet_id", "draft_id", "system", "what", "rating"],
    )


def test_what_experts_say_of_systems_is_what_pandas_computes(world: World) -> None:
    rows, counted, rated = table_of(found(world, "each system (expert")), votes(world), ratings(world)
    assert set(rows) == ({"vanilla", "cot"} if len(counted) else set())
    for system, cells in rows.items():
        won, tied = (counted.winner == system).sum(), (counted.winner == "tie").sum()
        expected = (won, tied, len(counted) - won - tied, len(counted))
        assert tuple(cells[name] for name in ("chosen", "tie", "rejected", "texts")) == expected
        for name in ("content", "structure", "argument"):
            own = rated[(rated.system == system) & (rated.what == name)].rating
            same(cells[name], own.mean())
            assert cells[f"{name} ratings"] == len(own)


def pairs_agreed(labels: pd.Series) -> tuple[int, int]:
    """Pairs of labels that agree, and all pairs, by counting labels: n (n - 1) / 2."""
    return sum(n * (n - 1) // 2 for n in labels.value_counts()), len(labels) * (len(labels) - 1) // 2


def alpha_by_coincidences(several: Sequence[pd.Series], *, ordinal: bool) -> float | None:
    """From the matrix of coincidences, as Krippendorff (2011) writes it down."""
    labels = sorted({label for unit in several for label in unit})
    matrix = pd.DataFrame(0.0, index=labels, columns=labels)
    for unit in several:
        for one, other in itertools.permutations(unit, 2):
            matrix.loc[one, other] += 1 / (len(unit) - 1)
    margins, total = matrix.sum(), matrix.to_numpy().sum()

    def apart(one: Any, other: Any) -> float:
        if not ordinal:
            return float(one != other)
        between = margins.loc[min(one, other) : max(one, other)].sum()
        return float((between - (margins[one] + margins[other]) / 2) ** 2)

    pairs = list(itertools.product(labels, repeat=2))
    expected = sum(margins[one] * margins[other] * apart(one, other) for one, other in pairs)
    observed = sum(matrix.loc[one, other] * apart(one, other) for one, other in pairs)
    return 1 - (total - 1) * observed / expected if expected else None


def test_agreement_of_experts_is_what_pandas_computes(world: World) -> None:
    rows, rated = table_of(found(world, "among experts")), ratings(world)
    said = pd.DataFrame(world.judgements, columns=JUDGEMENTS.names)
    if said.empty:
        assert not rows
        return
    groups = {"better text": said.better.fillna("neither").str.rsplit("-", n=1).str[-1].groupby(said.sheet_id)}
    for name in ("content", "structure", "argument"):
        own = rated[rated.what == name]
        groups[name] = own.rating.groupby([own.sheet_id, own.draft_id])
    assert list(rows) == list(groups)
    for name, group in groups.items():
        several = [labels for _, labels in group if len(labels) > 1]
        agreed = [pairs_agreed(labels) for labels in several]
        alike, all_pairs = (sum(one[place] for one in agreed) for place in (0, 1))
        assert rows[name]["judged by two or more"] == len(several)
        assert rows[name]["judgements of these"] == sum(map(len, several))
        same(rows[name]["agreed, %"], 100 * alike / all_pairs if all_pairs else None)
        same(rows[name]["Krippendorff's alpha"], alpha_by_coincidences(several, ordinal=name != "better text"))


def said(expert: str, better: str | None, first: str = "v", second: str = "c", **rated: list[int]) -> Row:
    sides = {"sheet_id": "s", "case_id": "hard/1", "first": first, "second": second}
    return {**sides, "expert": expert, "better": better, "content": [], "structure": [], "argument": [], **rated}


def chosen(*judgements: Row) -> str | None:
    texts = shown_texts(pd.DataFrame(judgements)).set_index("draft_id").outcome
    assert set(texts.index) == {"v", "c"}
    won = list(texts.index[texts == "chosen"])
    assert (texts == "rejected").sum() == len(won)
    return won[0] if won else None


def test_the_majority_decides_and_neither_is_no_vote() -> None:
    assert chosen(said("1", "v"), said("2", None), said("3", None)) == "v"
    assert chosen(said("1", "v"), said("2", "c", "c", "v"), said("3", "c")) == "c"
    assert chosen(said("1", "v"), said("2", "c")) is None
    assert chosen(said("1", None)) is None


def test_an_expert_study_by_hand() -> None:
    """Two sheets: the one with fewer edits is chosen in the first, that with the higher ROUGE in the second."""

    def scored(name: str, system: str, distance: int, rouge: float) -> Row:
        scores: Row = {**dict.fromkeys(NAMES, None), "distance": distance, "weighted": 0.5 * distance, "rouge1": rouge}
        return {"draft_id": name, "case_id": "hard/1", "task": "hard", "system": system, **scores}

    drafts = [scored("v", "vanilla", 4, 30.0), scored("c", "cot", 2, 20.0)]
    drafts += [scored("w", "vanilla", 5, 10.0), scored("d", "cot", 3, 50.0)]
    other = {"sheet_id": "t", "first": "w", "second": "d"}
    given = [
        said("1", "c", content=[2, 4]),
        said("2", "c", "c", "v", content=[5, 2]),
        said("1", "w") | other,
        said("2", "w") | other,
        said("9", "x", "x", "y"),  # of drafts that were not published
    ]
    preferred, systems, agreed = expert_tables(pd.DataFrame(given), pd.DataFrame(drafts))
    rows = table_of(preferred)
    assert [rows["distance"][name] for name in ("chosen", "rejected", "chosen - rejected")] == [3.5, 3.5, 0.0]
    assert [rows["ROUGE-1"][name] for name in ("chosen", "rejected")] == [15.0, 40.0]
    wins = ("prefers the chosen", "tie", "prefers the rejected")
    assert [rows["distance"][name] for name in wins] == [1, 0, 1]
    assert [rows["ROUGE-1"][name] for name in wins] == [0, 0, 2]
    assert (rows["GPT-Score"]["chosen"], rows["GPT-Score"]["pairs"], rows["GPT-Score"]["left out"]) == (None, 0, 2)
    assert {name: row["content"] for name, row in table_of(systems).items()} == {"vanilla": 2.0, "cot": 4.5}
    assert table_of(agreed)["better text"] == {
        "judgement": "better text",
        "judged by two or more": 2,
        "judgements of these": 4,
        "agreed, %": 100.0,
        "Krippendorff's alpha": 1.0,
    }
    assert table_of(agreed)["content"]["agreed, %"] == 50.0


# ---------------------------------------------------------------- the report


def test_the_report_has_its_tables_in_order_and_no_text_of_a_source(world: World) -> None:
    titles = [table.title for table in world.tables]
    assert len(titles) == len(set(titles)) == 23
    assert [re.search(r"\((.*?)\)$", title) is not None for title in titles[:6]] == [True] * 4 + [False, True]
    assert as_data(tables(**world.rows)) == as_data(world.tables)


def test_many_edits_take_little_memory(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    edits = [edit(dice, "hard") for _ in range(200)]
    rows = [
        filled(PUBLISHED_DRAFTS, draft_id=f"{n}", case_id=f"hard/{n}", task="hard", edits=edits[n % 100 :][:12])
        for n in range(4_000)
    ]
    found = edits_of(Home(tmp_path).table(PUBLISHED_DRAFTS, rows))
    assert len(found) == 48_000
    assert found.memory_usage(deep=True).sum() < 48_000 * 30  # dicts of the five fields take 400 an edit


def test_edits_that_are_read_are_those_that_were_written(world: World) -> None:
    drafts = world.rows["published_drafts"].table(["draft_id"])["draft_id"].to_pylist()
    found = edits_of(world.rows["published_drafts"]).astype(object)
    written = {row["draft_id"]: row["edits"] for row in world.drafts}
    expected = [{name: one[name] for name in EDITS} for draft in drafts for one in written[draft]]
    assert found[list(EDITS)].where(found.notna(), None).to_dict("records") == expected
    assert [drafts[place] for place in found.draft] == [draft for draft in drafts for _ in written[draft]]


def test_the_figure_shows_each_task_that_has_pairs(world: World) -> None:
    shown = figures(world.rows["published_drafts"])
    expected = [task for task in SYSTEMS if len(wide(world, task, "distance"))]
    assert len(shown) == bool(expected)
    for figure in shown:
        assert inline(figure.svg, "plot-1")
        texts = [node.text or "" for node in etree.fromstring(figure.svg.encode()).iter("{*}text")]
        for task in expected:
            both = wide(world, task, "distance")
            assert f"{task} ({len(both)} cases)" in texts
            assert f"{SYSTEMS[task][0]}, mean {both.weak.mean():.2f}" in texts
        assert figures(world.rows["published_drafts"]) == shown


def test_few_texts_with_very_many_edits_have_one_bar_together(tmp_path: Path) -> None:
    rows = [
        filled(
            PUBLISHED_DRAFTS,
            draft_id=f"{n}{system}",
            case_id=f"easy/{n}",
            task="easy",
            system=system,
            distance=distance,
        )
        for n, distance in enumerate([0, 3, 900_000])
        for system in ("weak", "strong")
    ]
    [figure] = figures(Home(tmp_path).table(PUBLISHED_DRAFTS, rows))
    texts = [node.text for node in etree.fromstring(figure.svg.encode()).iter("{*}text")]
    assert "> 15" in texts
    assert "15" in texts
    assert len(figure.svg) < 100_000
