"""Tracing a published pair back to its posts, prompts, model calls and the stages that made it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from tasks.axioms.evaluation.trace import CONFIGS, trace_evaluation
from tasks.axioms.validation.trace import judgement_lines, pair_of
from tasks.publishing.lineage import (
    Line,
    Record,
    built_by,
    calls_of,
    published_row,
    rows_where,
    stage_rows_where,
    tokens_and_cost,
)

MADE_BY = {
    "open_book": "answer_open_book",
    "closed_book": "answer_closed_book",
    "corrupted": "corrupt_answers",
    "combined": "combine_answers",
    "irrelevant_grounding": "answer_from_irrelevant",
}
FROM_PASSAGES = {"open_book": "answer_from_relevant", "passage": "choose_passages"}  # of axiom 4
CRITICISED_BY = "criticise_answers"
POSTS_BY = ("scrub_posts", "admit_posts", "read_posts")
VALIDATED_BY = ("assemble_validation_pairs", "assemble_validation_pairs_across_sites")
ASSEMBLED_BY = ("assemble_pairs", "assemble_pairs_across_sites", *VALIDATED_BY)
PAIRED_BY = {
    0: "pair_by_votes",
    1: "pair_with_related",
    2: "pair_generated",
    3: "pair_generated",
    4: "pair_by_evidence",
    5: "pair_combined",
}
SIDES = ("preferred", "rejected")
KEYS = {"corrupted": "corrupted_id", "combined": "combined_id"}


def trace(store: Store, version: Version, row_id: str) -> dict[str, Any]:
    """The published pair with this id, or the only one whose id begins with `row_id`, or the pair behind a row of the
    configs of validation, and what it was made from. Keys: `pair`; `preferred` and `rejected` (the stage row of this
    answer, or None); `critiques` (side -> what the critic said of the answer, or None); `calls` (response key -> call);
    `stages` (the version's stages -> fingerprint); `lines` of (title, text) to print. For a row of an evaluation set
    see `trace_evaluation`.

    UsageError if no row, or more than one, has such an id; StoreError if the rows of a stage are no longer stored.
    """
    config, found = published_row(version, row_id)
    if config in CONFIGS:
        return trace_evaluation(store, version, config, found)
    assembled, row = pair_of(store, version, config, found, ASSEMBLED_BY)
    behind = {side: _stage_row(store, version, row, side) for side in SIDES}
    critiques = {side: _critique(store, version, row, side) for side in SIDES}
    keys = [key for side in SIDES for key in (row[f"{side}_response"], (critiques[side] or {}).get("response")) if key]
    calls = calls_of(store, keys)
    own_site = row["axiom"] != 1 or "find_related" in version.stages
    paired = "pair_for_validation" if assembled in VALIDATED_BY else PAIRED_BY[row["axiom"]]
    chain = built_by(store, version, paired, row["site"] if own_site else None)
    lines = [*_pair_lines(row), *_answer_lines(row, "preferred", behind["preferred"], calls), *_evidence(row)]
    lines += [*_answer_lines(row, "rejected", behind["rejected"], calls), *_critic_lines(row, critiques, calls)]
    lines += judgement_lines(version, row["pair_id"])
    lines.append(("built by", " <- ".join([f"{assembled} {version.stages[assembled][:8]}", *chain])))
    shown = {"pair": row, **behind, "critiques": critiques, "calls": calls, "stages": version.stages}
    return {**shown, "lines": lines}


def example_row_id(version: Version) -> str:
    """The id of a published pair that is worth tracing: the first one, by id, of axiom 3 (with a corrupted answer); if
    there is none, the first of all. "" if the version has no pair.
    """
    found = rows_where(version.tables().get("pairs", []), "true ORDER BY axiom <> 3, pair_id LIMIT 1")
    return str(found[0]["pair_id"]) if found else ""


def _stage_row(store: Store, version: Version, row: Record, side: str) -> Record | None:
    """The stage row of a generated answer, or the post of a human answer, with the stage's name in `stage`; None if
    the stage has no such row.

    `row`: the published pair. `side`: preferred or rejected. StoreError if the stage's rows are no longer stored.
    """
    source, key = row[f"{side}_source"], row[f"{side}_id"]
    if row["axiom"] == 4 and source in FROM_PASSAGES:
        column = "question_id" if source == "passage" else "answer_id"
        wanted = row["question_id"] if source == "passage" else key
        found = stage_rows_where(store, version, FROM_PASSAGES[source], f"{column} = ? LIMIT 1", wanted)
        return {"stage": FROM_PASSAGES[source], **found[0]} if found else None
    stage = MADE_BY.get(source) or next(name for name in POSTS_BY if name in version.stages)
    column = KEYS.get(source, "answer_id" if source in MADE_BY else "post_id")
    found = stage_rows_where(store, version, stage, f"{column} = ? LIMIT 1", key)
    return {"stage": stage, **found[0]} if found else None


def _critique(store: Store, version: Version, row: Record, side: str) -> Record | None:
    """What the critic said of an answer of a published pair; None if it did not score both."""
    if row.get(f"{side}_score") is None:
        return None
    key = f"{row['question_id']} {row[f'{side}_id']}"
    found = stage_rows_where(store, version, CRITICISED_BY, "critique_id = ? LIMIT 1", key)
    return found[0] if found else None


def _critic_lines(row: Record, critiques: dict[str, Record | None], calls: dict[str, Record]) -> Iterator[Line]:
    """The lines to print of what a critic said: its call and what that cost, then score and points of each answer;
    none if it did not score both.
    """
    of_call = critiques["preferred"]
    if of_call is None:
        return
    margin = row["critic_margin"]
    told = "no margin" if margin is None else f"margin {margin:.3g}"
    prompt = f"prompt {of_call['prompt']}@{of_call['prompt_hash'][:12]} · response {of_call['response'][:16]}…"
    yield "critic", f"{of_call['model']} via {of_call['endpoint']} · {prompt}   {told}"
    if of_call["response"] in calls:
        yield "", f"{tokens_and_cost(calls[of_call['response']])}, for {of_call['shown']} answers"
    for side, critique in critiques.items():
        if critique:
            yield "", f"{side} {critique['score']} points, shown as {critique['place']} of {critique['shown']}"
            for name in ("strengths", "weaknesses", "missing"):
                yield from (("", f"  {name}: {point}") for point in critique[name])


def _pair_lines(row: Record) -> Iterator[Line]:
    """The lines to print of a published pair itself and of its question."""
    axiom = f"axiom {row['axiom']}" if row["axiom"] >= 0 else "no axiom"
    kind = f"{axiom}   {row['pair_type']}   margin {row['margin']:.3g}   {row['split']}"
    yield "pair", f"{row['pair_id']}   {kind}"
    title = row["question"].split("\n", 1)[0]
    yield "question", f'{row["question_id"]}   "{title}"   {_credit(row, "question")}'
    if row["question_url"]:
        yield "", row["question_url"]


def _credit(row: Record, side: str) -> str:
    """Licence and author in words. `side`: question, preferred or rejected, the prefix of the columns to read."""
    author = row[f"{side}_author"] or row[f"{side}_author_url"] or "author unknown"
    return f"{row[f'{side}_licence']}   by {author}"


def _answer_lines(row: Record, side: str, found: Record | None, calls: dict[str, Record]) -> Iterator[Line]:
    """The lines to print of one answer of a published pair: votes, credit and address of a human answer; model call
    and parents of a generated one.

    `side`: preferred or rejected. `found`: the answer's stage row, None if there is none; parents are then left out.
    `calls`: response key -> call; tokens and cost are left out for a response that is not in it.
    """
    if row[f"{side}_source"] == "human":
        yield side, f"{row[f'{side}_id']}   {row[f'{side}_votes']} votes   {_credit(row, side)}"
        yield "", row[f"{side}_url"]
        return
    if row[f"{side}_source"] == "passage":
        yield side, f"{row[f'{side}_id']}   passage   {_credit(row, side)}"
        return
    response = row[f"{side}_response"]
    prompt = f"prompt {row[f'{side}_prompt']} · response {response[:16]}…"
    yield side, f"{row[f'{side}_source']}   {row[f'{side}_model']} via {row[f'{side}_endpoint']} · {prompt}"
    if response in calls:
        yield "", tokens_and_cost(calls[response])
    if found and "corrupted_claims" in found:
        yield (
            "",
            f"from {found['answer_id']}: {len(found['claims'])} claims, {len(found['corrupted_claims'])} corrupted",
        )
    if found and "first_id" in found:
        yield "", f"from {found['first_id']} and {found['second_id']}, utilization {found['utilization']:.2f}"


def _evidence(row: Record) -> Iterator[Line]:
    """A line to print for each evidence passage of a published pair: its number from 1 and its id. Only the first has
    a title.
    """
    for number, passage in enumerate(row["evidence_ids"], start=1):
        yield ("evidence" if number == 1 else ""), f"[{number}] {passage}"
