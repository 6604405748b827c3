"""Every figure that the paper prints, compared with a version's: within a tolerance, drifted, or not comparable.

Tables 5, 6 and 8 are made anew of the published claims of the paper's questions by the authors' rules
(tables/rules.py), whatever rules the version was built by; tables 2, 4, 9 and 14 are those of its report, of which 2
and 4 are compared where nearly all questions of the bank are the paper's. Tolerances are in parity.toml.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from longform.artifacts.rows import Row
from longform.errors import UsageError
from longform.hints import hint
from tasks.expertqa.tables.paper_tables import (
    BY_PARITY,
    HEADLINE,
    PRINTED,
    table_5_autoais,
    table_6_autoais_against_people,
    table_8_factscore,
)
from tasks.expertqa.tables.reasons import NEARLY_ALL, NONE, Facts, of_the_paper, reason
from tasks.expertqa.tables.rules import PARITY
from tasks.publishing.printed import printed

LEAST = 20  # figures
TOLERANCES = Path(__file__).with_name("parity.toml")
WITHIN, DRIFT, NOT_COMPARED = "within", "drift", "not compared"
KEYS = {"table_2": ["type"], "table_14": ["split", "model", "zero-shot"]}
OF_THE_BANK = ("table_2", "table_4")
COUNTS = {("table_4", "sampled"), ("table_5", "claims")}
REPORTED = {
    "table_2": "(table 2)",
    "table_4": "(table 4)",
    "table_6_finetuned": "Imported entailment models against people (table 6)",
    "table_14": "(table 14)",
}
MISSING = {
    "table_2": "the bank has no question of this type",
    "table_4": "the version has no answer of this system",
    "table_5": "the version has no claim of this system with the text of its evidence",
    "table_6_zero_shot": "the version has no claim of this system",
    "table_6_finetuned": "no prediction of a fine-tuned entailment model was imported (entailments)",
    "table_8": "the version has no claim of this system",
    "table_14": "no prediction of this model was imported (predictions)",
}
UNDEFINED = {
    "table_4": "no answer of this system was generated: released ones were chosen among those that do not abstain",
    "table_5": "no such claim has an AutoAIS label (the file holds none, or its evidence has no text)",
    "table_6_zero_shot": "no labelled test claim has an AutoAIS label, or none is positive",
    "table_6_finetuned": "no labelled test claim was predicted, or none is positive",
    "table_8": "no labelled claim has a FActScore",
    "table_14": "this model predicted nothing there, or the score's package is not installed",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A printed figure and ours. `table`: such as "table 5"; `cell`: row and column in words; `ours`, `difference`:
    None if not comparable. `tolerance`: as used, with what a part of the questions adds. `why`: the reason of a
    difference, or of a cell that cannot be compared; "" if not known.
    """

    table: str
    cell: str
    paper: float
    ours: float | None
    difference: float | None
    tolerance: float
    verdict: str
    why: str


def compared(frames: Mapping[str, pd.DataFrame], facts: Facts, tolerances: Mapping[str, Any]) -> list[Cell]:
    """A cell for every figure of printed.toml, in its order; of several fine-tuned entailment models one each.
    `frames`: table of printed.toml -> our rows. UsageError if a figure has no tolerance.
    """
    return [cell for table in MISSING for cell in _of_table(table, frames.get(table), facts, tolerances)]


def lacking(name: str, cells: Sequence[Cell], facts: Facts) -> str:
    """What is missing and what to set, where a version (its name) has no question of the paper, or fewer than LEAST
    figures could be compared: that says nothing of parity. "" where there are enough.
    """
    if not facts.claimed:
        return (
            f"{name} has claims of {NONE}, so none of its figures can be held against the paper's: set `questions` to "
            "the authors' file and `released_splits` to their split files, which say what is the paper's, and build."
        )
    number = sum(cell.verdict != NOT_COMPARED for cell in cells)
    if number < LEAST:
        return (
            f"Of {name} {number} of {len(cells)} figures could be compared, of {LEAST} that are needed: it has "
            f'{facts.share}; add the authors\' others, with autoais = "released" and factscore = "released" (or real '
            "judges), and build; `--all` says of each figure what it lacks."
        )
    return ""


def _of_table(table: str, ours: pd.DataFrame | None, facts: Facts, tolerances: Mapping[str, Any]) -> Iterator[Cell]:
    """The cells of one table."""
    paper, keys = printed(PRINTED, table), KEYS.get(table, ["system"])
    known: list[Row] = [] if ours is None else [dict(row) for row in ours.to_dict("records")]  # type: ignore[arg-type]
    for row in paper.to_dict("records"):
        named = " ".join(str(row[key]) for key in keys)
        found = [own for own in known if all(own[key] == row[key] for key in keys)]
        for own in found or [dict[str, Any]()]:
            for column in paper.columns.difference(keys, sort=False):
                if not pd.isna(row[column]):
                    limit = tolerance_of(tolerances, table, named, column, row[column])
                    tuned = f" {own['model']}" if own and table == "table_6_finetuned" else ""
                    yield _cell(table, named + tuned, column, float(row[column]), own, limit, facts)


def _cell(table: str, named: str, column: str, paper: float, own: Row, limit: float, facts: Facts) -> Cell:
    """One cell. `own`: our row, empty if there is none."""
    label = table.replace("_", " "), f"{named} · {column}"
    value = own.get(column)
    if value is None or pd.isna(value):
        why = UNDEFINED.get(table, "not defined") if own else MISSING[table]
        return Cell(*label, paper, None, None, limit, NOT_COMPARED, why)
    ours = float(value)
    if why := _incomparable(table, column, facts):
        return Cell(*label, paper, ours, None, limit, NOT_COMPARED, why)
    limit += _half_interval(own, column) if facts.is_part and not table.startswith("table_14") else 0.0
    difference = round(ours - paper, 9)
    verdict = WITHIN if abs(difference) <= limit else DRIFT
    return Cell(
        *label,
        paper,
        ours,
        difference,
        limit,
        verdict,
        reason(table, str(own.get("system", "")), replace(facts, others=0)) if difference else "",
    )


def _incomparable(table: str, column: str, facts: Facts) -> str:
    """Why a figure that we have is not compared; "" if it is."""
    if table in OF_THE_BANK and facts.strangers > (1 - NEARLY_ALL) * (facts.questions or facts.claimed):
        return f"of all {facts.claimed + facts.strangers:,} questions of the bank, {facts.claimed:,} are the paper's"
    if facts.is_part and (table == "table_2" or (table, column) in COUNTS):
        return f"a count of {facts.share}"
    return ""


def _half_interval(own: Row, column: str) -> float:
    """Half of the 95 % interval of a figure of our row; where it has none, of the row's F1; 0 if neither is known."""
    for name in (column, "F1, %"):
        low, high = own.get(f"{name} from"), own.get(f"{name} to")
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            return float(high - low) / 2
    return 0.0


def tolerance_of(tolerances: Mapping[str, Any], table: str, row: str, column: str, paper: float) -> float:
    """The tolerance of a cell in the unit of its figure. `row`: the row's cells that name it, with blanks between.
    UsageError if the file says none, or one that is neither a number of 0 or more nor a text such as "5 %".
    """
    of_table = tolerances.get(table, {})
    of_row = of_table.get(row, {})
    value = of_row.get(column) if isinstance(of_row, dict) and column in of_row else of_table.get(column)
    share = isinstance(value, str) and value.endswith("%")
    try:
        number = float(str(value).rstrip("% ")) if value is not None and not isinstance(value, bool | dict) else -1.0
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf or (isinstance(value, str) and not share):
        raise UsageError(
            f'The tolerance of {table}, {row}, "{column}" is {value!r}: '
            'give a number of 0 or more, or a share of the paper\'s figure such as "5 %".'
        )
    return number / 100 * abs(paper) if share else number


def read_tolerances(file: Path | None) -> dict[str, Any]:
    """The tolerances of parity.toml; those that `file` says, too, take the place of these. UsageError for a file that
    cannot be read as TOML, sets nothing, or names a table, row or figure that the paper does not print.
    """
    known = tomllib.loads(TOLERANCES.read_text(encoding="utf-8"))
    if file is None:
        return known
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} holds no tolerances ({error}): write it as {TOLERANCES}.") from None
    if unknown := next(_unknown(given, known), None):
        raise UsageError(f"{file} sets a tolerance of {unknown}")
    if not any(not isinstance(of, dict) or of for table in given.values() for of in table.values()):
        raise UsageError(f"{file} sets no tolerance: write it as {TOLERANCES}, or leave it out.")
    return {table: _merged(of, given.get(table, {})) for table, of in known.items()}


def _unknown(given: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    """The end of a message for each name in a file of tolerances that names nothing the paper prints."""
    for table, of in given.items():
        if table not in known or not isinstance(of, dict):
            yield f'"{table}", which is no table: {hint(table, known, "there is")}'
            continue
        paper, keys = printed(PRINTED, table), KEYS.get(table, ["system"])
        figures = [str(name) for name in paper.columns.difference(keys, sort=False)]
        rows = [" ".join(map(str, row)) for row in paper[keys].itertuples(index=False)]
        for name, value in of.items():
            if isinstance(value, dict) and name not in rows:
                yield f'"{name}", which is no row of {table}: {hint(name, rows, "it has")}'
            for figure in value if isinstance(value, dict) else [name]:
                if figure not in figures:
                    yield f'"{figure}", which is no figure of {table}: {hint(figure, figures, "it has")}'


def _merged(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The tolerances of a table, those given in the place of the known ones; rows are merged column by column."""
    rows = {name: {**known.get(name, {}), **value} for name, value in given.items() if isinstance(value, dict)}
    own = {name: value for name, value in known.items() if not isinstance(value, dict)}
    overridden = {name for name, value in given.items() if not isinstance(value, dict)}
    kept = {
        name: {column: value for column, value in of.items() if column not in overridden}
        for name, of in known.items()
        if isinstance(of, dict)
    }
    return {**own, **kept, **given, **rows}


def frames_of(claims: pd.DataFrame, report: str) -> dict[str, pd.DataFrame]:
    """Table of printed.toml -> our rows to compare. `claims`: published claims with FLAGS, of which those
    of the paper's questions count; `report`: tables.json.
    """
    found = {name: _reported(json.loads(report), title) for name, title in REPORTED.items()}
    claims = claims[of_the_paper(claims)]
    five = table_5_autoais(claims, PARITY)
    six = table_6_autoais_against_people(claims, PARITY)
    tuned = found["table_6_finetuned"]
    if len(tuned):
        found["table_6_finetuned"] = tuned[(tuned.questions == "test") & (tuned.claims == "labelled")]
    return {
        **{name: frame for name, frame in found.items() if len(frame)},
        "table_5": five[(five["claims with"] == HEADLINE) & (five.claims + five.unscored > 0)],
        "table_6_zero_shot": six[six.claims == BY_PARITY],
        "table_8": table_8_factscore(claims, PARITY),
    }


def _reported(tables: Sequence[Mapping[str, Any]], title: str) -> pd.DataFrame:
    """The rows of the first table of tables.json whose title ends so; empty if there is none."""
    rows: list[Row] = next((table["rows"] for table in tables if str(table["title"]).endswith(title)), [])
    return pd.DataFrame(rows)
