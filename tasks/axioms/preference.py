"""The published pairs as trainers of reward models read them: prompt, chosen, rejected and margin in every row.

    {"prompt": [{"role": "user", "content": "Why does ice float?"}],
     "chosen": [{"role": "assistant", "content": "It is less dense than water."}],
     "rejected": [{"role": "assistant", "content": "It is cold."}], "margin": 0.3, ...}

TRL's RewardTrainer and DPOTrainer read these rows without renaming a column. They drop the other columns, and
RewardTrainer drops rows that are longer than its `max_length`; `chosen_tokens` and `rejected_tokens` tell which. Pairs
of the split `overlap` belong to no side, so that they are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from longform.artifacts.rows import text_array
from longform.engine.stage import AtMost, Rejected, Rows, StageContext, stage
from longform.llm.ask.tokens import count
from schemas.axioms import MESSAGE, PREFERENCE, PREFERENCE_TEXT

ANSWERS = {"chosen": "preferred", "rejected": "rejected"}
BETWEEN = "\n\n"


@stage(PREFERENCE, revision=1)
def view_as_chats(context: StageContext, pairs: Rows, *, seed: int) -> Iterator[pa.RecordBatch | Rejected]:
    """The published pairs with question and answers as messages of a chat, in their order. A Rejected for each pair of
    the split `overlap`.

    `seed`: of `draw`, the order in which the pairs of a question are drawn.
    """
    ids = pairs.table(["pair_id", "question_id", "axiom"])
    draws, weights = _draws_and_weights(ids, seed)
    tokens = _Tokens()
    start = 0
    for batch in pairs.batches():
        at = slice(start, start := start + batch.num_rows)
        drawn = {"draw": pa.array(draws[at], pa.int32()), "weight": pa.array(weights[at], pa.float64())}
        of_no_side = pc.equal(batch.column("split"), "overlap")
        for pair in batch.column("pair_id").filter(of_no_side).to_pylist():
            yield Rejected(pair, "filtered", "its question belongs to no side")
        kept = pa.table([*batch.columns, *drawn.values()], names=[*batch.schema.names, *drawn])
        if (kept := kept.filter(pc.invert(of_no_side))).num_rows:
            yield _chats(kept.combine_chunks().to_batches()[0], tokens)


@stage(PREFERENCE, revision=1, at_most=AtMost(keeps=True))
def draw_one_a_question(context: StageContext, chats: Rows) -> Iterator[pa.RecordBatch | Rejected]:
    """One row of each question, so that every question counts alike: the one whose `draw` is 1, with a weight of 1. A
    Rejected for each of the others.
    """
    for batch in chats.batches():
        first = pc.equal(batch.column("draw"), 1)
        drawn = batch.filter(first)
        weight = pa.array([1.0] * drawn.num_rows, pa.float64())
        yield drawn.set_column(drawn.schema.get_field_index("weight"), drawn.schema.field("weight"), weight)
        for pair in batch.column("pair_id").filter(pc.invert(first)).to_pylist():
            yield Rejected(pair, "filtered", "another pair of its question was drawn")


@stage(PREFERENCE_TEXT, revision=1)
def view_as_texts(context: StageContext, chats: Rows) -> Iterator[pa.RecordBatch]:
    """The same rows with plain texts in place of messages. A prompt ends with an empty line, as trainers join prompt
    and answer with nothing between.
    """
    for batch in chats.batches():
        texts = {name: batch.column(name).flatten().field("content") for name in ("prompt", *ANSWERS)}
        texts["prompt"] = pc.binary_join_element_wise(texts["prompt"], "", BETWEEN)
        columns = [texts.get(name, batch.column(name)) for name in PREFERENCE_TEXT.names]
        yield pa.RecordBatch.from_arrays(columns, schema=PREFERENCE_TEXT)


def prompt_of(question: str, evidence: Sequence[str]) -> str:
    """What the answers of a pair answer: the question and, after empty lines, each passage below its number, by which
    answers cite it: `Passage 1:`.
    """
    passages = (f"Passage {number}:\n{passage}" for number, passage in enumerate(evidence, start=1))
    return BETWEEN.join([question, *passages])


def draw_order(pairs: Sequence[tuple[str, int | str]], question: str, seed: int) -> list[int]:
    """For each pair (id, axiom) of a question its place, from 1, in the order of drawing: first one pair of each axiom
    that the question has, then a second of each, and so on, so that the axioms with most pairs do not take all places.
    Pair types may take the place of axioms.

    The order of the axioms and that of the pairs of an axiom come from hashes with the seed, so that they depend on
    nothing but the question's own pairs.
    """
    by_hash = sorted(pairs, key=lambda pair: _hash(seed, "pair", pair[0]))
    rounds: defaultdict[int | str, int] = defaultdict(int)
    turns = []
    for pair, axiom in by_hash:
        rounds[axiom] += 1
        turns.append((rounds[axiom], _hash(seed, "axiom", f"{question}\x1f{axiom}"), pair))
    places = {pair: place for place, (_, _, pair) in enumerate(sorted(turns), start=1)}
    return [places[pair] for pair, _ in pairs]


def _hash(seed: int, what: str, key: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{seed}\x1fdraw\x1f{what}\x1f{key}".encode())


def _draws_and_weights(ids: pa.Table, seed: int) -> tuple[list[int], list[float]]:
    """(`draw`, `weight`) of each pair, in their order. `ids`: pair_id, question_id and axiom of all pairs of a part,
    which holds a question whole.
    """
    rows: defaultdict[str, list[int]] = defaultdict(list)
    pairs = list(zip(ids["pair_id"].to_pylist(), ids["axiom"].to_pylist(), strict=True))
    for row, question in enumerate(ids["question_id"].to_pylist()):
        rows[question].append(row)
    draws, weights = [0] * len(pairs), [0.0] * len(pairs)
    for question, own in rows.items():
        for row, place in zip(own, draw_order([pairs[row] for row in own], question, seed), strict=True):
            draws[row], weights[row] = place, 1 / len(own)
    return draws, weights


class _Tokens:
    """Estimated tokens of texts by their ids; each text is counted once a part."""

    def __init__(self) -> None:
        self._counted: dict[str, int] = {}

    def of(self, ids: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        """The tokens of each text, of which the id says which text it is."""
        for key, text in zip(ids, texts, strict=True):
            if key not in self._counted:
                self._counted[key] = count(text)
        return np.array([self._counted[key] for key in ids], np.int32)


def _chats(pairs: pa.RecordBatch, tokens: _Tokens) -> pa.RecordBatch:
    """Rows of PREFERENCE. `pairs`: rows of PAIRS, with `draw` and `weight`."""
    questions, evidence = pairs.column("question").to_pylist(), pairs.column("evidence").to_pylist()
    prompts = [prompt_of(*both) for both in zip(questions, evidence, strict=True)]
    keys = [f"{key} {len(of)}" for key, of in zip(pairs.column("question_id").to_pylist(), evidence, strict=True)]
    asked = tokens.of(keys, prompts)
    columns = {name.replace("preferred_", "chosen_"): pairs.column(name) for name in pairs.schema.names}
    columns["prompt"] = _messages("user", text_array(prompts))
    for side, name in ANSWERS.items():
        texts = pairs.column(name)
        columns[side] = _messages("assistant", texts)
        columns[f"{side}_tokens"] = pa.array(
            asked + tokens.of(pairs.column(f"{name}_id").to_pylist(), texts.to_pylist()), pa.int32()
        )
    return pa.RecordBatch.from_arrays([columns[name] for name in PREFERENCE.names], schema=PREFERENCE)


def _messages(role: str, texts: pa.Array) -> pa.Array:
    """Each text as a list of one message."""
    messages = pa.StructArray.from_arrays([pa.repeat(role, len(texts)), texts], fields=list(MESSAGE))
    offsets = pa.array(np.arange(len(texts) + 1, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, messages, type=PREFERENCE.field("prompt").type)
