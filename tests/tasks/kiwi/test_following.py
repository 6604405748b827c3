"""Judging whether instructions were followed: what judges see, examples by BM25, baselines, imported predictions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from expertqa_tables import Home, filled, kept, refused
from revision_drafts import SAID, Scripted, rejected

from flows.config.prompts import PROMPTS
from longform.artifacts.rows import Row, Source
from longform.errors import SourceError
from longform.files import sha256_of
from longform.llm.ask.fence import unfenced
from longform.llm.ask.prompts import load_prompt
from schemas.kiwi import SIDES, TURNS
from tasks.kiwi.evaluation import judge_following, predict_baselines, read_predictions
from tasks.kiwi.tables import merged, table_5_evaluation

PROMPT = load_prompt("kiwi/judge", PROMPTS)
COLUMNS = ["turn_id", "system", "predicted"]


def turn(key: str, instruction: str, rating: str = "good") -> Row:
    own = {"question": f"Q{key}?", "before": f"Old {key}.", "answer": f"New {key}.", "comment": "Secret."}
    return filled(TURNS, turn_id=key, instruction=instruction, rating=rating, system="secret-model", **own)


def sides(path: Path, of: dict[str, str]) -> Any:
    return Home(path).table(SIDES, [filled(SIDES, turn_id=key, split=side) for key, side in of.items()])


def judged(
    path: Path, rows: list[Row], of: dict[str, str], shots: int, reply: str = "good"
) -> tuple[Scripted, list[Any]]:
    said = Scripted(lambda request: f"<rating>{reply}</rating>\n=====")
    every = Home(path / "turns").table(TURNS, rows)
    turns = [row for row in rows if of[row["turn_id"]] != "other part"]
    items = judge_following.body(said, turns, every, sides(path / "sides", of), model=SAID, prompt=PROMPT, shots=shots)
    return said, list(items)


ROWS = [
    turn("t", "Remove the last sentence on jars."),
    turn("a", "Remove the last sentence.", "neutral"),
    turn("b", "Say more of lids and of wax."),
    turn("c", "Remove the sentence on jars.", "bad"),
    turn("d", "Remove the last sentence on jars."),
]
OF = {"t": "test", "a": "train", "b": "train", "c": "train", "d": "validation"}


def test_a_judge_sees_the_turn_alone_and_then_the_nearest_turns_of_train_the_nearest_last(tmp_path: Path) -> None:
    said, items = judged(tmp_path, ROWS, OF, shots=2)
    zero, few = (unfenced(request.messages[1][1]) for request in said.requests)
    own = [
        ("Question", "Qt?"), ("Previous answer", "Old t."), ("Instruction", "Remove the last sentence on jars."),
        ("Revised answer", "New t."),
    ]  # fmt: skip
    assert zero == own
    assert few[-4:] == own
    texts = [text for label, text in few[:-4]]
    assert {texts[0], texts[5]} == {"Qa?", "Qc?"}, "never one of validation, nor the turn itself"
    assert {texts[4], texts[9]} == {"bad"}, "neutral and bad are one label"
    assert [(row["system"], row["predicted"]) for row in kept(items)] == [("zero-shot", "good"), ("few-shot", "good")]
    assert {key for key, _ in refused(items)} == {"a", "b", "c", "d"}
    assert not any("secret" in message.lower() for request in said.requests for _, message in request.messages)


def test_the_examples_are_those_that_another_bm25_ranks_first(tmp_path: Path) -> None:
    words = ["jar", "lid", "wax", "tin", "cork", "add", "remove", "move", "first", "last", "say", "more"]
    draw = np.random.default_rng(3)
    rows = [turn(f"x{n}", " ".join(draw.choice(words, size=draw.integers(3, 9)))) for n in range(60)]
    rows.append(turn("t", "remove cork last jar"))
    said, _ = judged(tmp_path, rows, {row["turn_id"]: "test" if row["turn_id"] == "t" else "train" for row in rows}, 10)
    shown = [text for label, text in unfenced(said.requests[1].messages[1][1]) if label == "Example, question"]
    query = {"remove", "cork", "last", "jar"}
    texts = [row["instruction"].split() for row in rows[:-1]]
    mean = np.mean([len(text) for text in texts])

    def score(text: list[str]) -> float:
        total = 0.0
        for word in query:
            n = sum(word in other for other in texts)
            idf = np.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
            tf = text.count(word)
            total += idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(text) / mean))
        return total

    scores = {f"Q{row['turn_id']}?": score(text) for row, text in zip(rows[:-1], texts, strict=True)}
    assert len({*shown}) == 10
    rest = max(value for name, value in scores.items() if name not in shown)
    assert min(scores[name] for name in shown) >= rest - 0.25, "of nearly equal ones either may be shown"


@pytest.mark.parametrize(("shots", "train"), [(0, "train"), (5, "validation")])
def test_without_shots_or_turns_of_train_the_judge_is_asked_zero_shot_alone(
    tmp_path: Path, shots: int, train: str
) -> None:
    of = {**OF, "a": train, "b": train, "c": train}
    said, _ = judged(tmp_path, ROWS, of, shots)
    assert len(said.requests) == 1


# ---------------------------------------------------------------- baselines


def baselines(path: Path, ratings: list[str], tests: int, seed: int = 0) -> dict[str, list[str]]:
    home = Home(path)
    rows = [turn(f"a{n}", "So.", rating) for n, rating in enumerate(ratings)]
    rows += [turn(f"t{n}", "So.") for n in range(tests)]
    of = {row["turn_id"]: "train" if row["turn_id"][0] == "a" else "test" for row in rows}
    table = home.table(SIDES, [filled(SIDES, turn_id=key, split=side) for key, side in of.items()])
    made = home.run(predict_baselines, home.table(TURNS, rows), table, seed=seed)
    found: dict[str, list[str]] = {}
    for row in made:
        found.setdefault(row["system"], []).append(row["predicted"])
    return found


@pytest.mark.parametrize(
    ("ratings", "label"),
    [(["good", "good", "bad"], "good"), (["good", "neutral", "bad"], "bad"), (["good", "bad"], "bad"), ([], None)],
)
def test_majority_says_the_more_frequent_label_of_train(tmp_path: Path, ratings: list[str], label: str | None) -> None:
    found = baselines(tmp_path, ratings, tests=3)
    assert found.get("majority") == ([label] * 3 if label else None)


def test_random_follows_the_share_of_good_turns_in_train(tmp_path: Path) -> None:
    ratings = ["good"] * 38 + ["neutral"] * 30 + ["bad"] * 32
    first = baselines(tmp_path / "a", ratings, tests=4_000)["random"]
    assert first.count("good") / 4_000 == pytest.approx(0.38, abs=0.03)
    assert baselines(tmp_path / "b", ratings, tests=4_000)["random"] == first
    assert baselines(tmp_path / "c", ratings, tests=4_000, seed=1)["random"] != first


# ---------------------------------------------------------------- imported


@pytest.mark.parametrize("ending", ["jsonl", "csv", "json"])
def test_predictions_are_imported_by_turn_and_system_in_any_case(ending: str, tmp_path: Path) -> None:
    records = [
        {"turn_id": "t", "prediction": "Good", "system": "t5"}, {"turn_id": "a", "prediction": " neutral"},
        {"turn_id": "zzz", "prediction": "good"}, {"turn_id": "b", "prediction": "perhaps"},
        {"turn_id": "t", "prediction": "bad", "system": "t5"},
    ]  # fmt: skip
    content = {
        "jsonl": "".join(f"{json.dumps(each)}\n" for each in records),
        "json": json.dumps(records, indent=1),
        "csv": pd.DataFrame(records).to_csv(index=False),
    }[ending]
    home, file = Home(tmp_path / "home"), tmp_path / f"mine.{ending}"
    file.write_text(content)
    source = [Source("predictions", str(file), sha256_of(file), (("name", file.name),), ((0, -1),))]
    made = home.run(read_predictions, source, home.table(TURNS, ROWS))
    assert [(row["turn_id"], row["system"], row["predicted"]) for row in made] == [
        ("t", "t5", "good"), ("a", "mine", "bad"),
    ]  # fmt: skip
    assert [each["reason"] for each in rejected(home, made).values()] == [
        "unknown turn", "no prediction", "a prediction that comes again",
    ]  # fmt: skip
    file.write_text("{}" if ending != "csv" else "turn_id,prediction\n")
    source = [Source("predictions", str(file), sha256_of(file), (("name", file.name),), ((0, -1),))]
    with pytest.raises(SourceError, match="holds no prediction: give turn_id, prediction and system"):
        home.run(read_predictions, source, home.table(TURNS, ROWS))


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("seed", range(4))
def test_table_5_has_the_scores_of_another_library_with_people_by_their_second_rating(seed: int) -> None:
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support

    draw = np.random.default_rng(seed)
    turns = pd.DataFrame({"turn_id": [f"t{n}" for n in range(50)], "label": draw.choice(["good", "bad"], 50)})
    said = pd.DataFrame({
        "form": "ratings", "turn_id": turns.turn_id[:20], "label": draw.choice(["good", "neutral", "bad"], 20),
        "known": draw.choice(["good", "neutral", "bad"], 20),
    })  # fmt: skip
    predicted = pd.DataFrame({"turn_id": turns.turn_id, "system": "t5", "predicted": draw.choice(["good", "bad"], 50)})
    never = predicted.assign(system="majority", predicted="bad")
    table = table_5_evaluation(turns, pd.concat([predicted, never]), said)
    ours = table[table.source == "this build"].set_index("system")
    assert list(ours.index) == ["majority", "t5", "human"]
    binary = {
        "majority": (turns.label, never.predicted),
        "t5": (turns.label, predicted.predicted),
        "human": (said.known.replace("neutral", "bad"), said.label.replace("neutral", "bad")),
    }
    for system, (actual, found) in binary.items():
        scores = precision_recall_fscore_support(actual, found, average="binary", pos_label="good", zero_division=0)
        shown = ours.loc[system, ["accuracy", "precision", "recall", "F1"]].astype(float).tolist()
        assert shown == pytest.approx([accuracy_score(actual, found), *scores[:3]])


@pytest.mark.parametrize(("small", "merges"), [(4, True), (5, False), (6, False)])
def test_categories_below_5_percent_are_others(small: int, merges: bool) -> None:
    found = merged(pd.Series(["remove"] * (100 - small) + ["condense"] * small))
    assert ("condense" in set(found)) is not merges
    assert (found == "others").sum() == (small if merges else 0)
