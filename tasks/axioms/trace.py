"""Tracing a published pair back to its posts, prompts, model calls and the stages that made it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from longform.artifacts.recipe import Recipe
from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact
from longform.errors import UsageError
from tasks.publishing.lineage import Line, ancestors, calls_of, rows_where, taken

MADE_BY = {"open_book": "answer_open_book", "closed_book": "answer_closed_book", "corrupted": "corrupt_answers"}
MADE_BY["combined"] = "combine_answers"
POSTS_BY = ("scrub_posts", "admit_posts", "read_posts")
PAIRED_BY = {
    0: "pair_by_votes",
    1: "pair_with_related",
    2: "pair_generated",
    3: "pair_generated",
    5: "pair_combined",
}
KEYS = {"corrupted": "corrupted_id", "combined": "combined_id"}


def trace_pair(store: Store, version: Version, pair_id: str) -> dict[str, Any]:
    """The published row, the stage rows and model calls behind it, and `lines` of (title, text) to print.

    Raises UsageError if no row, or more than one, begins with `pair_id`.
    """
    row = _pair(version, pair_id)
    stage_rows = {side: _stage_row(store, version, row, side) for side in ("preferred", "rejected")}
    calls = calls_of(store, [key for side in ("preferred", "rejected") if (key := row[f"{side}_response"])])
    chain = _chain(store, version, PAIRED_BY[row["axiom"]], row["site"])
    lines = [*_pair_lines(row), *_answer_lines(row, "preferred", stage_rows["preferred"], calls), *_evidence(row)]
    lines += [*_answer_lines(row, "rejected", stage_rows["rejected"], calls), ("built by", " <- ".join(chain))]
    return {"pair": row, **stage_rows, "calls": calls, "stages": version.stages, "lines": lines}


def example_pair_id(version: Version) -> str:
    """The id of a published row that is worth tracing: a pair with a corrupted answer if there is one."""
    query = f"SELECT pair_id FROM {read_parquet(_files(version))} ORDER BY axiom <> 3, pair_id LIMIT 1"
    with duckdb.connect() as database:
        (pair,) = database.execute(query).fetchone() or ("",)
    return str(pair)


def _files(version: Version) -> list[Path]:
    """All Parquet files of a version."""
    return [path for paths in version.tables().values() for path in paths]


def _pair(version: Version, pair_id: str) -> dict[str, Any]:
    """The published row whose id begins with `pair_id`; UsageError if there is not exactly one."""
    paths = _files(version)
    found = rows_where(paths, "starts_with(pair_id, ?) LIMIT 2", pair_id)
    if not found:
        raise UsageError(
            f"{version.dataset} {version.name} has no row {pair_id}: "
            "take a pair_id of its Parquet files, or the beginning of one."
        )
    if len(found) > 1 and found[0]["pair_id"] != pair_id:
        raise UsageError(
            f"More than one row of {version.dataset} {version.name} begins with {pair_id}: give more of it."
        )
    return found[0]


def _stage_row(store: Store, version: Version, row: dict[str, Any], side: str) -> dict[str, Any] | None:
    """The stage row of a generated answer, or the post of a human one, with its stage's name; None if it is gone."""
    source, key = row[f"{side}_source"], row[f"{side}_id"]
    stage = MADE_BY.get(source) or next(name for name in POSTS_BY if name in version.stages)
    column = KEYS.get(source, "answer_id" if source in MADE_BY else "post_id")
    found = _lookup(store, version, stage, column, key)
    return found and {"stage": stage, **found}


def _lookup(store: Store, version: Version, stage: str, column: str, key: str) -> dict[str, Any] | None:
    """The row of a stage with this key; None if there is none."""
    made = artifact(store, version, stage)
    group = key.split("/", 1)[0]
    parts = [part for part in made.parts if part.rows and ("/" not in key or part.key.startswith(f"{group}/"))]
    found = rows_where([store.rows_path(part) for part in parts], f"{column} = ? LIMIT 1", key)
    return found[0] if found else None


def _pair_lines(row: dict[str, Any]) -> Iterator[Line]:
    """The lines of the pair itself and its question."""
    kind = f"axiom {row['axiom']}   {row['pair_type']}   margin {row['margin']:.3g}   {row['split']}"
    yield "pair", f"{row['pair_id']}   {kind}"
    title = row["question"].split("\n", 1)[0]
    yield "question", f'{row["question_id"]}   "{title}"   {_credit(row, "question")}'
    yield "", row["question_url"]


def _credit(row: dict[str, Any], side: str) -> str:
    """Licence and author in words."""
    author = row[f"{side}_author"] or row[f"{side}_author_url"] or "author unknown"
    return f"{row[f'{side}_licence']}   by {author}"


def _answer_lines(
    row: dict[str, Any], side: str, found: dict[str, Any] | None, calls: dict[str, dict[str, Any]]
) -> Iterator[Line]:
    """The lines of one answer: who wrote it, and for generated ones the model call and its parents."""
    if row[f"{side}_source"] == "human":
        yield side, f"{row[f'{side}_id']}   {row[f'{side}_votes']} votes   {_credit(row, side)}"
        yield "", row[f"{side}_url"]
        return
    response = row[f"{side}_response"]
    prompt = f"prompt {row[f'{side}_prompt']} · response {response[:16]}…"
    yield side, f"{row[f'{side}_source']}   {row[f'{side}_model']} via {row[f'{side}_endpoint']} · {prompt}"
    if response in calls:
        yield "", taken(calls[response])
    if found and "corrupted_claims" in found:
        yield (
            "",
            f"from {found['answer_id']}: {len(found['claims'])} claims, {len(found['corrupted_claims'])} corrupted",
        )
    if found and "first_id" in found:
        yield "", f"from {found['first_id']} and {found['second_id']}, utilization {found['utilization']:.2f}"


def _evidence(row: dict[str, Any]) -> Iterator[Line]:
    """A line for each evidence passage."""
    for number, passage in enumerate(row["evidence_ids"], start=1):
        yield ("evidence" if number == 1 else ""), f"[{number}] {passage}"


def _chain(store: Store, version: Version, paired_by: str, site: str) -> list[str]:
    """The stages behind a pair from the last to the source, each with the start of its fingerprint."""
    recipes = {stage: artifact(store, version, stage).recipe for stage in version.stages}
    names = {mark: stage for stage, mark in version.stages.items()}
    behind = ancestors(paired_by, recipes, names)
    links = [f"{stage} {mark[:8]}" for stage, mark in reversed(version.stages.items()) if stage in behind]
    return [f"assemble_pairs {version.stages['assemble_pairs'][:8]}", *links, *_dump_line(recipes["read_posts"], site)]


def _dump_line(recipe: Recipe, site: str) -> list[str]:
    """The source files of a site with the start of their SHA-256, as one text in a list."""
    sources = [source for value in recipe.inputs.values() for source in value if source["group"] == site]
    return [", ".join(f"{source['group']} sha256 {source['sha256'][:12]}…" for source in sources)]
