"""From a published row back to its answer, prompt, model call, claims, evidence, labels and the stages that made it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from longform.errors import UsageError
from longform.llm.budget import NANO
from longform.recipe import Recipe
from longform.rows import read_parquet
from longform.settings import responses
from longform.store import Store
from longform.versions import Version, artifact

Line = tuple[str, str]
Record = dict[str, Any]

MADE_BY = {"random": "split_randomly", "domain": "split_by_field", "claims": "publish_claims"}
ANSWERS_BY, REVISED_BY = "collect_answers", "revise_answers"
LABELS = ("support", "informativeness", "worthiness", "correctness", "reliability")
WRITTEN_BY = {"person": "a person", "claims": "a person's claims, put together", "model": "a model"}
SHOWN = 160


def trace_row(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """A row of the random or the domain split or of the claims, the stage rows behind it, and `lines` for people.

    Raises UsageError where no row, or more than one, begins with `row_id`.
    """
    config, row = _published(version, row_id)
    answer = _stage_row(store, version, ANSWERS_BY, "answer_id", row["answer_id"])
    revised = _stage_row(store, version, REVISED_BY, "answer_id", row["answer_id"])
    claims = [row] if config == "claims" else _claims(version, row["answer_id"])
    calls = _calls(store, [made["response"] for made in (answer, revised) if made and made["response"]])
    chain = built_by(store, version, MADE_BY[config])
    lines = [*_head(config, row), *_answer(row, answer, calls), *_revision(row, revised, calls)]
    lines += [*(line for claim in claims for line in _claim(claim)), ("built by", " <- ".join(chain))]
    behind = {"answer": answer, "revised": revised, "claims": claims, "calls": calls}
    return {"config": config, "row": row, **behind, "stages": version.stages, "lines": lines}


def built_by(store: Store, version: Version, stage: str) -> list[str]:
    """The stages behind a table, from the last to the sources, each with its fingerprint; then the sources' files."""
    recipes = {name: artifact(store, version, name).recipe for name in version.stages}
    behind = _ancestors(stage, recipes, {mark: name for name, mark in version.stages.items()})
    links = [f"{name} {mark[:8]}" for name, mark in reversed(version.stages.items()) if name in behind]
    return [*links, *_sources([recipes[name] for name in version.stages if name in behind])]


def _ancestors(stage: str, recipes: dict[str, Recipe], names: dict[str, str]) -> set[str]:
    """A stage and all it was made from."""
    found, left = {stage}, [stage]
    while left:
        inputs = recipes[left.pop()].inputs.values()
        new = {names[mark] for mark in inputs if isinstance(mark, str)} - found
        found |= new
        left += new
    return found


def _sources(recipes: Sequence[Recipe]) -> list[str]:
    given = [one for recipe in recipes for mark in recipe.inputs.values() if not isinstance(mark, str) for one in mark]
    named = dict.fromkeys(f"{one['group']} sha256 {one['sha256'][:12]}…" for one in given)
    return [", ".join(named)] if named else []


# ---------------------------------------------------------------- looking up


def _published(version: Version, row_id: str) -> tuple[str, Record]:
    found: list[tuple[str, Record]] = []
    for config, paths in version.tables().items():
        key = version.key(config)
        query = f"SELECT * FROM {read_parquet(paths)} WHERE starts_with({key}, ?) ORDER BY {key} LIMIT 2"
        rows = _rows(query, row_id)
        if rows and rows[0][key] == row_id:
            return config, rows[0]
        found += [(config, row) for row in rows]
    if not found:
        raise UsageError(
            f"{version.dataset} {version.name} has no row {row_id}: "
            "take a row_id or a claim_id of its Parquet files, or the beginning of one."
        )
    if len(found) > 1:
        raise UsageError(
            f"More than one row of {version.dataset} {version.name} begins with {row_id}: give more of it."
        )
    return found[0]


def _claims(version: Version, answer_id: str) -> list[Record]:
    paths = version.tables().get("claims")
    query = f"SELECT * FROM {read_parquet(paths or [])} WHERE answer_id = ? ORDER BY position"
    return _rows(query, answer_id) if paths else []


def _stage_row(store: Store, version: Version, stage: str, column: str, key: str) -> Record | None:
    """The row of a stage whose id is this, without the long JSON that it came as."""
    paths: list[Path] = []
    if stage in version.stages:
        paths = [store.rows_path(part) for part in artifact(store, version, stage).parts if part.rows]
    found = _rows(f"SELECT * FROM {read_parquet(paths)} WHERE {column} = ? LIMIT 1", key) if paths else []
    return {name: value for name, value in found[0].items() if name not in ("original", "claims")} if found else None


def _calls(store: Store, keys: Sequence[str]) -> dict[str, Record]:
    """response key -> what the call took, of those that are stored."""
    from longform.llm.store import open_responses

    if not keys:
        return {}
    stored = open_responses(responses(store.home), read_only=True)
    try:
        found = stored.get(list(keys))
    finally:
        stored.close()
    names = ("input_tokens", "output_tokens", "cost_nano", "batch")
    return {key: {name: getattr(record, name) for name in names} for key, record in found.items()}


def _rows(query: str, *values: str) -> list[Record]:
    with duckdb.connect() as database:
        cursor = database.execute(query, list(values))
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


# ---------------------------------------------------------------- telling


def _head(config: str, row: Record) -> Iterator[Line]:
    key = row["claim_id"] if config == "claims" else row["row_id"]
    side = f"split {row['split']}" if config != "claims" else f"random {row['random_split'] or 'in no split'}"
    yield "row", f"{key}   {config}   {side}"
    about = " · ".join([row["field"], *row["question_types"], row["licence"] or "licence unknown"])
    yield "question", f'{row["question_id"]}   "{_short(row["question"])}"   {about}'


def _answer(row: Record, answer: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    kind = f"   {answer['kind']}" if answer else ""
    text = _short(row["original_answer"] if "original_answer" in row else row["answer"])
    yield "answer", f'{row["answer_id"]}   {row["system"]}{kind}   "{text}"'
    yield from _made_by(answer, calls)


def _revision(row: Record, revised: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    if revised is None:
        return
    who = f" ({revised['annotator_id']})" if revised["annotator_id"] else ""
    text = _short(revised["text"])
    yield "revised", f'{revised["revised_id"]}   by {WRITTEN_BY[revised["revised_by"]]}{who}   "{text}"'
    yield from _made_by(revised, calls)


def _made_by(made: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    """Model, prompt and response of a text, and what that took."""
    if not made or not made["response"]:
        return
    prompt = f"prompt {made['prompt']}@{made['prompt_hash'][:12]}"
    yield "", f"{made['model']} via {made['endpoint']} · {prompt} · response {made['response'][:16]}…"
    if call := calls.get(made["response"]):
        cost = "price unknown" if call["cost_nano"] is None else f"USD {call['cost_nano'] / NANO:.4f}"
        tokens = f"{call['input_tokens'] or 0:,} + {call['output_tokens'] or 0:,} tokens"
        yield "", f"{tokens} · {cost}{', in a batch' if call['batch'] else ''}"


def _claim(claim: Record) -> Iterator[Line]:
    said = [f"{name} {claim[name]}" for name in LABELS if claim[name]]
    who = f" (by {claim['annotator_id']})" if said else ""
    yield f"claim {claim['position'] + 1}", f'"{_short(claim["claim"])}"'
    for number, (text, url) in enumerate(zip(claim["evidence"], claim["evidence_urls"], strict=True), start=1):
        words = "" if text == url else f'"{_short(text)}"'
        yield "  evidence", "   ".join(part for part in (f"[{number}]", url, words) if part)
    yield "  labels", f"{', '.join(said) or 'none'}{who}"
    yield "  estimate", ", ".join(_estimates(claim))


def _estimates(claim: Record) -> Iterator[str]:
    entailed = {True: "supported", False: "not supported", None: "no evidence"}[claim["autoais"]]
    yield f"AutoAIS {entailed}" + (f" by {claim['autoais_backend']}" if claim["autoais_backend"] else "")
    score, judge = claim["fact_score"], claim["fact_score_model"]
    yield "FActScore not scored" if score is None else f"FActScore {score:.2f} by {judge}"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"
