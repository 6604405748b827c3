"""Whether a model can tell if an instruction was followed: its predictions on the turns of test (KIWI, section 5)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from longform.artifacts.parts import key_hash
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, Shard, distinct
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.errors import SourceError
from longform.llm.ask.prompts import Prompt
from longform.llm.ask.types import Endpoint, Request
from schemas.kiwi import PREDICTIONS
from schemas.replies import Following
from tasks.answers import NO_MODEL, answered, made_by
from tasks.kiwi.sessions.turns import TEST, TRAIN
from tasks.retrieval.bm25 import Index
from tasks.sources.files.json_values import json_or_csv

GOOD, BAD = "good", "bad"
ZERO_SHOT, FEW_SHOT = "zero-shot", "few-shot"
SEEN = ("question", "before", "instruction", "answer")  # what a judge sees of a turn
LONGEST = {"question": 500, "before": 4_000, "instruction": 1_000, "answer": 4_000}  # characters, in a plan
SAID = ("prediction", "predicted", "label", "rating")


def label_of(rating: str) -> str:
    """good, or bad for neutral and bad."""
    return GOOD if rating == GOOD else BAD


def _longest(of: Sizes) -> list[Request]:
    """The longest requests: without examples, and with `shots`."""
    texts = {name: longest(most) for name, most in LONGEST.items()}
    shots = [[], [*texts.values(), BAD] * of["shots"]]
    return [of["prompt"].request(of["model"], reply=Following, examples=each, **texts) for each in shots]


@stage(
    PREDICTIONS,
    revision=1,
    at_most=AtMost(rows=lambda of: 2 * of["turns"], calls=lambda of: 2 * of["turns"], questions=_longest),
)
def judge_following(
    context: StageContext,
    turns: Rows,
    every: AllRows,
    sides: AllRows,
    *,
    model: Endpoint,
    prompt: Prompt,
    shots: int,
) -> Iterator[Row | Rejected]:
    """What the model says of each turn of test, zero-shot, and with the `shots` turns of train whose instructions are
    nearest by BM25 as examples, the nearest last. A Rejected for each other turn. `every`: the turns of all parts.
    """
    side = {row["turn_id"]: row["split"] for row in sides.as_dicts("turn_id", "split")}
    train = [row for row in every.as_dicts("turn_id", "rating", *SEEN) if side.get(row["turn_id"]) == TRAIN]
    index = Index([row["instruction"] for row in train], np.zeros(len(train), np.int64)) if train and shots else None
    items = []
    for turn in turns:
        if side.get(turn["turn_id"]) != TEST:
            yield Rejected(turn["turn_id"], "filtered", "not of test")
            continue
        items.append((turn["turn_id"], (turn, ZERO_SHOT), _request(model, prompt, turn, [])))
        if index is not None:
            places, _ = index.top([turn["instruction"]], np.array([-1]), min(shots, len(train)))
            nearest = [train[place] for place in reversed(places[0].tolist()) if place >= 0]
            items.append((turn["turn_id"], (turn, FEW_SHOT), _request(model, prompt, turn, nearest)))
    for (turn, system), found in answered(context, model, items):
        if isinstance(found, Rejected):
            yield found
        else:
            yield prediction(turn["turn_id"], system, found[0].value.rating, made_by(found[0], model, prompt))


def _request(model: Endpoint, prompt: Prompt, turn: Row, examples: list[Row]) -> Request:
    texts = [text for row in examples for text in (*(row[name] for name in SEEN), label_of(row["rating"]))]
    return prompt.request(model, reply=Following, examples=texts, **{name: turn[name] for name in SEEN})


def prediction(turn_id: str, system: str, predicted: str, made: Row) -> Row:
    """A row of PREDICTIONS."""
    return {
        "prediction_id": f"{turn_id}/{system}",
        "turn_id": turn_id,
        "system": system,
        "predicted": predicted,
        **made,
    }


@stage(PREDICTIONS, revision=1, at_most=AtMost(rows=lambda of: 2 * of["turns"]))
def predict_baselines(context: StageContext, turns: AllRows, sides: AllRows, *, seed: int) -> Iterator[Row | Rejected]:
    """What majority and random by train say of test; a Rejected for other turns, and for all without train."""
    side = {row["turn_id"]: row["split"] for row in sides.as_dicts("turn_id", "split")}
    rated = {row["turn_id"]: label_of(row["rating"]) for row in turns.as_dicts("turn_id", "rating")}
    train = [label == GOOD for name, label in rated.items() if side[name] == TRAIN]
    share = sum(train) / len(train) if train else 0.0
    for name in rated:
        if train and side[name] == TEST:
            coin = key_hash(f"{seed}\x1frandom\x1f{name}") / 2**64
            yield prediction(name, "majority", GOOD if share > 0.5 else BAD, NO_MODEL)
            yield prediction(name, "random", GOOD if coin < share else BAD, NO_MODEL)
        else:
            yield Rejected(name, "filtered", "not of test" if train else "no turn of train")


@stage(
    PREDICTIONS,
    revision=1,
    split_by="system",
    at_most=AtMost(rows=lambda of: of["baselines"] + of["judged"] + of["imported"]),
)
def collect_predictions(
    context: StageContext, baselines: AllRows, judged: AllRows, imported: AllRows
) -> Iterator[Row | Rejected]:
    """The predictions of all systems; a Rejected for one that comes again."""
    yield from distinct(chain(baselines, judged, imported), "prediction_id", "a prediction that comes again")


@stage(PREDICTIONS, revision=1)
def read_predictions(context: StageContext, files: Shard, turns: AllRows) -> Iterator[Row | Rejected]:
    """Predictions from JSON or CSV: turn_id, prediction, system (else the file's name); a Rejected for what is none."""
    known, seen = {row["turn_id"] for row in turns.as_dicts("turn_id")}, set[tuple[str, str]]()
    for place, record in enumerate(json_or_csv(files), start=1):
        turn_id, system = str(record.get("turn_id", "")), str(record.get("system") or Path(files.source.path).stem)
        said = str(next((record[name] for name in SAID if record.get(name)), "")).strip().lower()
        reason = (
            "unknown turn" if turn_id not in known
            else "no prediction" if said not in (GOOD, BAD, "neutral")
            else "a prediction that comes again" if (turn_id, system) in seen
            else None
        )  # fmt: skip
        if reason:
            yield Rejected(f"{Path(files.source.path).name}#{place}", "defect", reason, raw=str(record)[:2_000])
        else:
            seen.add((turn_id, system))
            yield prediction(turn_id, system, label_of(said), NO_MODEL)
    if not seen:
        raise SourceError(f"{files.source.path} holds no prediction: give turn_id, prediction and system.")
