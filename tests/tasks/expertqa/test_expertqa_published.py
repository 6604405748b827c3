"""Splits of long-form questions, the published claims, and the sources they name."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from expertqa_tables import Home, answer, claim, claim_label, evidence, filled, label, question
from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rows
from schemas.expertqa import (
    ANSWERS,
    ATTRIBUTIONS,
    CLAIMS,
    DOCUMENTS,
    FACTS,
    JUDGED,
    LABELS,
    PUBLISHED_CLAIMS,
    QUESTIONS,
    RELEASED_SIDES,
    REVISED,
    SIDES,
)
from tasks.expertqa.estimates.factscore import judgements_of
from tasks.expertqa.published import estimate_columns, name_sources, publish_claims, split_by_field, split_randomly
from tasks.expertqa.sides.dealing import deal_sides
from tasks.expertqa.splits import folded

SHARES = [0.8, 0.1, 0.1]
SPLITS = ("train", "validation", "test")


# ---------------------------------------------------------------- stages

FIELDS = ("Geography", "Music", "History")
SYSTEMS = ("gpt4", "bing_chat")


def revised(answer_id: str, key: str, **given: Any) -> dict[str, Any]:
    given = {"system": "gpt4", "text": f"Better {answer_id}.", "revised_by": "person", "annotator_id": "e1", **given}
    return filled(REVISED, revised_id=f"r_{answer_id}", answer_id=answer_id, question_id=f"expertqa/{key}", **given)


def sides(home: Home, asked: Rows) -> Rows:
    """Their sides, none of them released."""
    return home.run(deal_sides, asked, home.table(RELEASED_SIDES, []), seed=1, shares=SHARES)


def tables(home: Home, n: int = 60) -> tuple[Rows, Rows, Rows, Rows, Rows]:
    """n questions in two parts, every third of the same text as the one before; two systems' answers to each."""
    keys = [f"q{number}" for number in range(n)]
    texts = [f"Why  is tea {number - (number % 3 == 2)} so?".upper() if number % 3 == 2 else f"why is tea {number} so?"
             for number in range(n)]  # fmt: skip
    asked = [question(key, text, field=FIELDS[len(text) % 3]) for key, text in zip(keys, texts, strict=True)]
    given = [answer(f"a_{key}_{system}", key, system=system, model="m") for key in keys for system in SYSTEMS]
    better = [revised(row["answer_id"], row["question_id"][9:], system=row["system"]) for row in given]
    better[0] |= {"revised_by": "model", "annotator_id": None, "model": "reviser", "response": "ff"}
    half = n // 2
    bank = home.table(QUESTIONS, asked[half:], asked[:half])
    return (
        home.table(REVISED, better[:half], better[half:]),
        bank,
        home.table(ANSWERS, given[half:], given[:half]),
        home.table(CLAIMS, []),
        sides(home, bank),
    )


@pytest.mark.parametrize("work", [split_randomly, split_by_field])
def test_every_revised_answer_is_on_one_side_with_all_answers_to_its_question(work: Any, tmp_path: Path) -> None:
    home = Home(tmp_path)
    better, asked, given, claims, dealt = tables(home)
    made = home.run(work, better, asked, given, claims, dealt)
    frame = pd.DataFrame(list(made))
    assert set(frame.revised_id) == {row["revised_id"] for row in better}
    assert frame.row_id.is_unique
    assert (frame.groupby(frame.question.map(folded)).split.nunique() == 1).all()
    assert frame.question.map(folded).nunique() == 40
    config = "random" if work is split_randomly else "domain"
    assert dict(zip(frame.question_id, frame.split, strict=True)) == {row["question_id"]: row[config] for row in dealt}
    assert set(frame.split_from) == {"hash"}
    assert {part.key: part.rows for part in made.parts or ()} == {
        f"expertqa/0-00000/{side}": int((frame.split == side).sum()) for side in frame.split.unique()
    }


def test_rows_come_in_the_order_of_the_hash_of_their_question(tmp_path: Path) -> None:
    home = Home(tmp_path)
    made = home.run(split_randomly, *tables(home))
    for path in made.paths:
        keys = [xxh3_64_intdigest(key.encode()) for key in pq.read_table(path)["question_id"].to_pylist()]
        assert keys == sorted(keys)


def test_rows_hold_question_answer_and_who_wrote_what(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = {row["revised_id"]: row for row in home.run(split_randomly, *tables(home))}
    by_model, by_person = rows["r_a_q0_gpt4"], rows["r_a_q1_bing_chat"]
    assert (by_model["model"], by_model["response"], by_model["annotator_id"]) == ("reviser", "ff", None)
    assert (by_person["model"], by_person["response"], by_person["annotator_id"]) == ("m", None, "e1")
    assert by_person["answer"] == "Better a_q1_bing_chat."
    assert by_person["original_answer"] == "It is a_q1_bing_chat."
    assert by_person["question"] == "why is tea 1 so?"
    assert by_person["licence"] == "CC0-1.0"


def test_answers_have_no_marks_and_their_sources_stand_beside(tmp_path: Path) -> None:
    home = Home(tmp_path)
    bank = home.table(QUESTIONS, [question("q")])
    cited = [
        {"number": 1, "url": "https://a.example/1", "passage_id": None, "title": "A", "text": None},
        {"number": 2, "url": "https://a.example/2", "passage_id": None, "title": None, "text": None},
    ]
    text = "Tea is hot [2] [1]. It is old [7].\n\nReferences:\n[1] https://a.example/1"
    better = [revised("a1", "q", text=text), revised("a2", "q", text="[1] [2]", system="bing_chat")]
    given = [answer("a1", "q", cited=cited), answer("a2", "q", system="bing_chat", cited=cited)]
    claims = [claim("a1", 0, "q", evidence=[evidence(number=1, url="https://a.example/1", text="Tea.")])]
    tables = (home.table(REVISED, better), bank, home.table(ANSWERS, given), home.table(CLAIMS, claims))
    made = home.run(split_randomly, *tables, sides(home, bank))
    (row,) = made
    assert row["answer"] == "Tea is hot. It is old."
    assert row["cited_answer"] == text
    assert [(one["number"], one["title"], one["text"]) for one in row["sources"]] == [(1, "A", "Tea."), (2, None, None)]
    assert [reason for part in made.parts or () for _, reason, _ in part.rejected] == ["nothing but marks"]
    assert [dict(part.counts) for part in made.parts or () if part.counts] == [{"marks without a source": 1}]


def test_rows_in_another_order_or_other_parts_make_the_same_bytes(tmp_path: Path) -> None:
    homes = Home(tmp_path / "a"), Home(tmp_path / "b")
    first = [list(rows) for rows in tables(homes[0])]
    for rows in first:
        random.Random(3).shuffle(rows)
    schemas = (REVISED, QUESTIONS, ANSWERS, CLAIMS, SIDES)
    again = [homes[1].table(schema, rows) for schema, rows in zip(schemas, first, strict=True)]
    for work in (split_randomly, split_by_field):
        made = homes[0].run(work, *tables(homes[0]))
        other = homes[1].run(work, *again)
        assert [part.sha256 for part in made.parts or ()] == [part.sha256 for part in other.parts or ()]


def test_nothing_revised_makes_no_row(tmp_path: Path) -> None:
    home = Home(tmp_path)
    bank = home.table(QUESTIONS, [question("q")])
    empty = (home.table(REVISED, []), bank, home.table(ANSWERS, []), home.table(CLAIMS, []), sides(home, bank))
    assert not list(home.run(split_by_field, *empty))


def test_many_rows_are_cut_into_parts_at_ranges_of_hashes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    keys = [f"q{number}" for number in range(17_000)]
    better = home.table(REVISED, [revised(f"a_{key}", key) for key in keys])
    asked, given = home.table(QUESTIONS, [question(key) for key in keys]), [answer(f"a_{key}", key) for key in keys]
    made = home.run(
        split_randomly, better, asked, home.table(ANSWERS, given), home.table(CLAIMS, []), sides(home, asked)
    )
    assert {part.key.rsplit("/", 1)[0] for part in made.parts or ()} == {"expertqa/1-00000", "expertqa/1-00001"}
    counts = Counter(part.key.rsplit("/", 1)[1] for part in made.parts or () for _ in range(part.rows))
    assert counts.keys() == set(SPLITS)
    assert abs(counts["test"] - 1_700) < 4 * 39  # of the binomial distribution four standard deviations


# ---------------------------------------------------------------- claims


def attribution(key: str, question_id: str, **given: Any) -> dict[str, Any]:
    owner = key.split("#")[0]
    given = {"backend": "lexical-1", **given}
    return filled(ATTRIBUTIONS, claim_id=key, answer_id=owner, question_id=question_id, **given)


def fact(key: str, position: int, question_id: str) -> dict[str, Any]:
    fields = {"fact_id": f"{key}.{position}", "claim_id": key, "question_id": question_id, "position": position}
    return filled(FACTS, **fields, text=f"fact {position}", model="breaker")


def verdict(fact: dict[str, Any], truth: bool | None) -> dict[str, Any]:
    """As the judge gives it; null where no passage was found, and nobody was asked."""
    shared = {name: fact[name] for name in ("fact_id", "claim_id", "question_id", "text")}
    return filled(JUDGED, **shared, is_true=truth, model=None if truth is None else "judge")


def published(home: Home, released: dict[str, Any] | None = None) -> Rows:
    """The published claims; `released` says the FActScore that each came with."""
    asked = [question("q1", "Why?", field="Music", question_types=["I", "V"]), question("q2"), question("q3")]
    given = [answer("a1", "q1", model="m", response="aa"), answer("a2", "q2", system="rr_gs_gpt4")]
    seen = [
        evidence(number=1, url="https://a.example/1", text="Passage.", given="[1] https://a.example/1\n\nPassage."),
        evidence(number=2, url="https://a.example/2"),
        evidence(number=3, given="a book"),
    ]
    claims = [
        claim("a2", 1, "q2", system="rr_gs_gpt4"),
        claim("a1", 0, "q1", evidence=seen, start=0, end=5),
        claim("a2", 0, "q2", system="rr_gs_gpt4", evidence=[evidence(url="https://a.example/1", text="Found.")]),
    ]
    for row in claims:
        row["original"] = released and json.dumps({"fact_score": released[row["claim_id"]]})
    said = claim_label("a1#0", support="Partial", worthiness="Yes", revised_claim="", revised_evidence=["x"])
    labels = [
        label("a1", "e2", "q1", [claim_label("a1#0", support="Complete")], usefulness="Useful"),
        label("a1", "e3", "q1", [claim_label("a1#0", support="Partial", worthiness="No")], usefulness="Useful"),
        label("a1", "e1", "q1", [said], usefulness="Partially useful"),
    ]
    first = [fact("a1#0", n, "expertqa/q1") for n in (10, 0, 1, 2, 3, 4)]
    others = [fact(key, 0, "expertqa/q2") for key in ("a2#0", "a2#1")]
    truths = {0: True, 1: None, 2: False, 3: True, 10: True}  # what was said of 4 could not be read
    judged = [
        *[verdict(row, truths[row["position"]]) for row in first if row["position"] in truths],
        verdict(others[0], None),
    ]
    dealt = [
        {"random": "test", "random_from": "released", "domain": "train", "domain_from": "hash"},
        {"random": "train", "random_from": "hash", "domain": "test", "domain_from": "released"},
        {"random": "train", "random_from": "hash", "domain": "overlap", "domain_from": "near-duplicate"},
    ]
    estimates = [attribution("a1#0", "expertqa/q1", attributable=True, score=0.9)]
    inputs = [
        home.table(CLAIMS, claims),
        home.table(QUESTIONS, asked),
        home.table(ANSWERS, given),
        home.table(LABELS, labels),
        home.table(ATTRIBUTIONS, estimates),
        home.table(FACTS, [*first, *others]),
        home.table(JUDGED, judged),
        home.table(
            SIDES,
            [filled(SIDES, question_id=one["question_id"], **own) for one, own in zip(asked, dealt, strict=True)],
        ),
    ]
    return home.run(publish_claims, *inputs, released_scores=released is not None)


def test_a_published_claim_holds_all_that_is_known_of_it(tmp_path: Path) -> None:
    rows = {row["claim_id"]: row for row in published(Home(tmp_path))}
    assert rows.keys() == {"a1#0", "a2#0", "a2#1"}
    assert rows["a1#0"] == {
        "claim_id": "a1#0",
        "answer_id": "a1",
        "question_id": "expertqa/q1",
        "question": "Why?",
        "field": "Music",
        "question_types": ["I", "V"],
        "system": "gpt4",
        "answer": "It is a1.",
        "usefulness": "Useful",  # of two among three
        "position": 0,
        "claim": "Claim 0 of a1.",
        "start": 0,
        "end": 5,
        "evidence": ["Passage.", "https://a.example/2", "a book"],
        "evidence_urls": ["https://a.example/1", "https://a.example/2", ""],
        "support": "Partial",
        "reason_missing_support": None,
        "informativeness": None,
        "worthiness": None,  # one says Yes, one No
        "correctness": None,
        "reliability": None,
        "revised_claim": "",
        "revised_evidence": ["x"],
        "annotator_id": "e1",  # whose revised claim it is
        "annotators": 3,
        "undecided": ["worthiness"],
        "autoais": True,
        "autoais_backend": "lexical-1",
        "atomic_claims": ["fact 0", "fact 1", "fact 2", "fact 3", "fact 4", "fact 10"],
        "atomic_claims_model": "breaker",
        "atomic_judgements": [True, None, False, True, None, True],
        "fact_score": 0.75,
        "fact_score_model": "judge",
        "licence": "CC0-1.0",
        "model": "m",
        "response": "aa",
        "random_split": "test",
        "domain_split": "train",
        "random_split_from": "released",
        "domain_split_from": "hash",
        "split": "full",
    }


def test_missing_labels_and_judgements_are_null_not_zero(tmp_path: Path) -> None:
    row = next(row for row in published(Home(tmp_path)) if row["claim_id"] == "a2#0")
    unsaid = ("usefulness", "support", "revised_claim", "annotator_id", "autoais", "autoais_backend", "fact_score")
    assert {row[name] for name in unsaid} == {None}
    assert (row["atomic_judgements"], row["revised_evidence"]) == ([None], [])


def test_a_claim_of_which_no_verdict_could_be_read_keeps_its_atomic_claims(tmp_path: Path) -> None:
    rows = published(Home(tmp_path))
    row = next(row for row in rows if row["claim_id"] == "a2#1")
    assert (row["atomic_claims"], row["atomic_judgements"]) == (["fact 0"], [None])
    assert (row["atomic_claims_model"], row["fact_score"], row["fact_score_model"]) == ("breaker", None, None)
    assert sum(dict(part.counts)["atomic claims without a verdict"] for part in rows.parts or ()) == 4


def test_a_claim_has_its_questions_side_also_if_no_revised_answer_is_published(tmp_path: Path) -> None:
    rows = {row["claim_id"]: row for row in published(Home(tmp_path))}
    sides = ("random_split", "random_split_from", "domain_split", "domain_split_from")
    assert [rows["a2#0"][name] for name in sides] == ["train", "hash", "test", "released"]


@pytest.mark.parametrize("score", ["high", 10**400, -1, 1.5, True])
def test_a_released_score_that_is_none_is_unscored_and_counted(tmp_path: Path, score: Any) -> None:
    rows = published(Home(tmp_path), {"a1#0": 0.5, "a2#0": score, "a2#1": None})
    assert {row["claim_id"]: row["fact_score"] for row in rows} == {"a1#0": 0.5, "a2#0": None, "a2#1": None}
    counted = Counter[str]()
    for part in rows.parts or ():
        counted.update(dict(part.counts))
    assert counted["released scores that are no number from 0 to 1"] == 1


def test_claims_come_by_question_then_by_position(tmp_path: Path) -> None:
    made = published(Home(tmp_path))
    assert [part.key for part in made.parts or ()] == ["expertqa/0-00000/full"]
    keys = [row["claim_id"] for row in made]
    questions = sorted(("expertqa/q1", "expertqa/q2"), key=lambda key: xxh3_64_intdigest(key.encode()))
    claims = {"expertqa/q1": ["a1#0"], "expertqa/q2": ["a2#0", "a2#1"]}
    assert keys == [key for question_id in questions for key in claims[question_id]]


# ---------------------------------------------------------------- sources


def test_each_question_names_its_set_and_every_address_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    claims = published(home)
    asked = [question("q1", licence="MIT"), question("q2", licence=None), question("q3")]
    page = filled(DOCUMENTS, passage_id="d#1", url="https://a.example/1", title="One", licence="CC BY 4.0")
    later = page | {"passage_id": "d#2", "title": "Two"}
    corpus, pages = home.table(DOCUMENTS, [page, later]), home.table(DOCUMENTS, [])
    made = list(home.run(name_sources, claims, home.table(QUESTIONS, asked), corpus, pages))
    found = {(row["question_id"][9:], row["kind"], row["url"], row["title"], row["licence"]) for row in made}
    assert found == {
        ("q1", "question", None, None, "MIT"),
        ("q1", "cited", "https://a.example/1", "One", "CC BY 4.0"),  # gpt4 names addresses from memory
        ("q1", "cited", "https://a.example/2", None, None),
        ("q2", "question", None, None, None),
        ("q2", "web", "https://a.example/1", "One", "CC BY 4.0"),
    }
    assert len({row["source_id"] for row in made}) == len(made) == len(found)


def test_an_address_in_more_than_one_claim_is_one_source(tmp_path: Path) -> None:
    home = Home(tmp_path)
    same = {"question_id": "expertqa/q", "system": "rr_sphere_gpt4", "evidence_urls": ["https://a.example", ""]}
    rows = [
        filled(PUBLISHED_CLAIMS, claim_id=f"a#{n}", **same, evidence=[text, "a book"])
        for n, text in enumerate(("https://a.example", "Text.", "Text."))
    ]
    claims = home.table(PUBLISHED_CLAIMS, rows, keys=["expertqa/0-00000/full"])
    nothing = home.table(DOCUMENTS, [])
    made = home.run(name_sources, claims, home.table(QUESTIONS, [question("q")]), nothing, nothing)
    assert [(row["kind"], row["url"]) for row in made] == [("question", None), ("corpus", "https://a.example")]


def test_atomic_claims_name_who_wrote_them_though_nothing_was_found_to_judge_them_by() -> None:
    broken = fact("a1#0", 0, "q1")
    columns = estimate_columns(None, judgements_of([broken], [verdict(broken, None)])["a1#0"])
    assert columns["atomic_claims_model"] == "breaker"
    assert (columns["fact_score"], columns["fact_score_model"]) == (None, None)
