"""Every figure that the paper prints, compared with a version's: within a tolerance, drifted, or not comparable.

Tables 5, 6 and 8 are made anew of the published claims by the authors' rules (tables/rules.py), whatever rules the
version was built by; tables 2, 4, 9 and 14 are those of its report. Tolerances are in parity.toml.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from longform.artifacts.rows import Row
from longform.errors import UsageError
from tasks.expertqa.tables.paper_tables import (
    BY_PARITY,
    HEADLINE,
    PRINTED,
    table_5_autoais,
    table_6_autoais_against_people,
    table_8_factscore,
)
from tasks.expertqa.tables.reasons import QUESTIONS, Facts, reason
from tasks.expertqa.tables.rules import PARITY
from tasks.publishing.printed import printed

TOLERANCES = Path(__file__).with_name("parity.toml")
WITHIN, DRIFT, NOT_COMPARED = "within", "drift", "not compared"
KEYS = {"table_2": ["type"], "table_14": ["split", "model", "zero-shot"]}
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
    if (table, column) in COUNTS and facts.is_part:
        why = f"a count of {facts.claimed:,} of the paper's {QUESTIONS:,} questions"
        return Cell(*label, paper, ours, None, limit, NOT_COMPARED, why)
    if table == "table_2" and facts.questions is not None and facts.questions < QUESTIONS:
        why = f"a count of {facts.questions:,} of the paper's {QUESTIONS:,} questions"
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
        reason(table, str(own.get("system", "")), facts) if difference else "",
    )


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
    cannot be read as TOML.
    """
    known = tomllib.loads(TOLERANCES.read_text(encoding="utf-8"))
    if file is None:
        return known
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} holds no tolerances ({error}): write it as {TOLERANCES}.") from None
    if unknown := [name for name in given if name not in known or not isinstance(given[name], dict)]:
        raise UsageError(f'{file} says a tolerance of "{unknown[0]}"; there is {", ".join(known)}.')
    return {table: _merged(of, given.get(table, {})) for table, of in known.items()}


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
    """Table of printed.toml -> our rows to compare. `claims`: published claims with FLAGS; `report`: tables.json."""
    found = {name: _reported(json.loads(report), title) for name, title in REPORTED.items()}
    five = table_5_autoais(claims, PARITY)
    six = table_6_autoais_against_people(claims, PARITY)
    tuned = found["table_6_finetuned"]
    if len(tuned):
        found["table_6_finetuned"] = tuned[(tuned.questions == "test") & (tuned.claims == "labelled")]
    return {
        **{name: frame for name, frame in found.items() if len(frame)},
        "table_5": five[five["claims with"] == HEADLINE],
        "table_6_zero_shot": six[six.claims == BY_PARITY],
        "table_8": table_8_factscore(claims, PARITY),
    }


def _reported(tables: Sequence[Mapping[str, Any]], title: str) -> pd.DataFrame:
    """The rows of the first table of tables.json whose title ends so; empty if there is none."""
    rows: list[Row] = next((table["rows"] for table in tables if str(table["title"]).endswith(title)), [])
    return pd.DataFrame(rows)
