"""Axiom 4: queries, passages and pairs of MS MARCO, computed again by plain loops from what was read."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import build_axioms
from hypothesis import given
from hypothesis import strategies as st

from flows.axioms import trace
from flows.inspection.describe import rejected_rows
from flows.preference.passages import MSMARCO
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.build import Build
from tasks.axioms.grounding.choice import FEW_IRRELEVANT, NO_LABELLED, Text, choose
from tasks.axioms.grounding.queries import assign, lowest
from tasks.axioms.sealed.sealing import text_hash
from tasks.retrieval.counts import STOP_WORDS

Row = dict[str, Any]
K, BELOW, SIMILARITY = 5, 0.7, 0.5


def rows(build: Build, stage: str) -> list[Row]:
    return list(next(call.rows for call in build.calls if call.name == stage))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def made(home: Path) -> tuple[Version, Build]:
    version, _, build = build_axioms(home, eli5=[], webgpt=[])
    assert version is not None
    return version, build


@pytest.fixture(scope="module")
def build(made: tuple[Version, Build]) -> Build:
    return made[1]


@pytest.fixture(scope="module")
def published(build: Build) -> list[Row]:
    return [row for row in rows(build, "assemble_pairs") if row["axiom"] == 4]


# ---------------------------------------------------------------- an oracle of its own


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def scores(query: str, passages: dict[str, str]) -> dict[str, float]:
    """BM25 as in Lucene, k1 1.5, b 0.75, word by word."""
    split = {name: words(text) for name, text in passages.items()}
    mean = sum(map(len, split.values())) / len(split)
    found: Counter[str] = Counter()
    for word in words(query):
        having = [name for name, own in split.items() if word in own]
        idf = math.log1p((len(split) - len(having) + 0.5) / (len(having) + 0.5))
        for name in having:
            times = split[name].count(word)
            found[name] += idf * times / (times + 1.5 * (0.25 + 0.75 * len(split[name]) / mean))
    return dict(found)


def grams(text: str) -> set[tuple[str, ...]]:
    found = re.findall(r"\w+", text.lower())
    return {tuple(found[at : at + 3]) for at in range(max(1, len(found) - 2))}


def alike(one: str, other: str) -> float:
    return len(grams(one) & grams(other)) / len(grams(one) | grams(other))


def test_a_line_that_was_left_out_is_said_with_the_file_that_it_is_of(home: Path, made: tuple[Version, Build]) -> None:
    left_out = list(rejected_rows(Store(home), made[0], "read_passages"))
    assert left_out
    assert {row["file"] for row in left_out} == {"collection.tsv"}
    assert {row["file"] for row in rejected_rows(Store(home), made[0], "choose_passages")} == {None}


def test_relevant_passages_are_the_best_found_and_the_labelled_and_irrelevant_ones_are_far_below(build: Build) -> None:
    texts = {row["passage_id"]: row["text"] for row in rows(build, "read_passages")}
    labels = {row["query_id"]: row["passage_id"] for row in rows(build, "join_qrels")}
    for row in rows(build, "choose_passages"):
        found = scores(row["text"], texts)
        best = max(found.values())
        relevant, irrelevant = ([each["passage_id"] for each in row[name]] for name in ("relevant", "irrelevant"))
        assert labels[row["question_id"]] in relevant
        others = [name for name in relevant if name != labels[row["question_id"]]]
        assert K - 1 <= len(others) <= K
        for each in (*row["relevant"], *row["irrelevant"]):
            if each["score"] is not None:
                assert each["score"] == pytest.approx(found[each["passage_id"]], abs=1e-3)
        assert [found[name] for name in others] == sorted((found[name] for name in others), reverse=True)
        assert 2 <= len(irrelevant) <= 5
        assert not set(relevant) & set(irrelevant)
        for name in irrelevant:
            assert 0 < found[name] < BELOW * best
            assert max(alike(texts[name], texts[one]) for one in relevant) < SIMILARITY


def test_every_query_without_passages_has_too_few_that_its_side_may_show(build: Build) -> None:
    texts = {row["passage_id"]: row["text"] for row in rows(build, "read_passages")}
    labels = {row["query_id"]: row["passage_id"] for row in rows(build, "join_qrels")}
    kept = {row["question_id"]: row for row in rows(build, "choose_passages")}
    asked = {row["question_id"]: row for row in rows(build, "select_queries")}
    of_test = {
        each["passage_id"]
        for row in kept.values()
        for each in (*row["relevant"], *row["irrelevant"])
        if row["split"] == "test"
    }
    of_train = {labels[key] for key, row in asked.items() if row["split"] == "train"}
    for key in asked.keys() - kept.keys():
        found = scores(asked[key]["text"], texts)
        far = {name for name, score in found.items() if score < BELOW * max(found.values())}
        hidden = of_test if asked[key]["split"] == "train" else of_train
        best = sorted(found.keys() - hidden, key=lambda name: (-found[name], name))[:K]
        assert labels[key] in hidden or len(far - hidden - {labels[key], *best}) < 2


def test_a_query_has_one_pair_of_answers_two_with_passages_and_four_of_passages(
    build: Build, published: list[Row]
) -> None:
    asked = {row["question_id"]: row for row in rows(build, "choose_passages")}
    kinds = Counter((row["question_id"], row["pair_type"]) for row in published)
    for question in asked:
        assert kinds[question, "open_book > irrelevant_grounding"] == 1
        assert kinds[question, "open_book > passage"] == 2
        assert kinds[question, "passage > passage"] == 4
        own = [row for row in published if row["question_id"] == question]
        assert len({row[f"{side}_id"] for row in own for side in ("preferred", "rejected")}) == 6  # added answers
        negative = {row["rejected_id"] for row in own if row["rejected_source"] == "passage"}
        assert negative == {each["passage_id"] for each in asked[question]["irrelevant"][:2]}
        positive = {row["preferred_id"] for row in own if row["preferred_source"] == "passage"}
        assert positive <= {each["passage_id"] for each in asked[question]["relevant"]}
        assert {each["passage_id"] for each in asked[question]["relevant"] if each["labelled"]} <= positive
    assert len(published) == 7 * len(asked)
    assert {row["split"] for row in published} == {"train", "test"}


def test_rows_say_what_they_are_from(build: Build, published: list[Row]) -> None:
    texts = {row["passage_id"]: row["text"] for row in rows(build, "read_passages")}
    credited = {row["post_id"]: row for row in rows(build, "attribute_posts") if row["site"] == "msmarco"}
    for row in published:
        assert (row["source"], row["site"], row["question_url"]) == ("msmarco", "msmarco", None)
        assert row["margin"] == 0.25
        for name in ("question", "preferred", "rejected"):
            assert row[f"{name}_licence"] == "MS MARCO terms: non-commercial research"
        assert bool(row["evidence"]) == (row["preferred_source"] == "open_book")
        assert row["evidence_ids"] == [name for name in row["evidence_ids"] if name in texts]
        assert row["question_id"] in credited
        for side in ("preferred", "rejected"):
            if row[f"{side}_source"] == "passage":
                assert credited[row[f"{side}_id"]]["kind"] == "passage"
                assert row[f"{side}_response"] is None
                assert row[f"{side}_id"] in texts
            else:
                assert row[f"{side}_parent_ids"]
                assert {*row[f"{side}_parent_ids"]} <= credited.keys()
                assert row[f"{side}_response"]
    assert len(credited) == sum(row["site"] == "msmarco" for row in rows(build, "attribute_posts"))


def test_a_mail_address_in_a_passage_is_scrubbed(tmp_path: Path) -> None:
    write(
        tmp_path / "set", {1: "Ask box.owner@mail.test how to tie a knot of a rope.", **FILL}, {5: "tie a knot"}, {5: 1}
    )
    build = build_axioms(tmp_path, msmarco=str(tmp_path / "set"), until="choose_passages")[2]
    (row,) = rows(build, "choose_passages")
    shown = {each["passage_id"]: each for each in row["relevant"]}["msmarco/p1"]
    assert shown["text"].startswith("Ask [mail] how")
    assert shown["scrubbed"] == 1


# ---------------------------------------------------------------- the two sides


def test_no_text_stands_on_both_sides(build: Build) -> None:
    found: dict[str, set[str]] = {"train": set(), "test": set()}
    for row in rows(build, "assemble_pairs"):
        texts = (row["question"], row["preferred"], row["rejected"], *row["evidence"])
        found[row["split"]].update(" ".join(text.lower().split()) for text in texts)
    assert not found["train"] & found["test"]


def test_queries_of_dev_files_are_never_in_train(build: Build) -> None:
    splits = {row["question_id"]: row["split"] for row in rows(build, "select_queries")}
    files = {row["query_id"]: row["splits"] for row in rows(build, "join_queries")}
    assert {splits[key] for key in splits if files[key] == ["train"]} >= {"train"}
    assert {splits[key] for key in splits if "dev" in files[key]} == {"test"}


FILL = {
    20: "A knot in the wood of the door looks like an eye.",
    21: "To tie in the last game was enough for the club.",
    22: "A knot is a mile of the sea in an hour.",
    23: "Tie the goat to the fence before noon.",
    24: "The ship made nine knots, one knot less than planned.",
    25: "Her tie was green and had a knot as large as a fist.",
}


def write(
    folder: Path, passages: dict[int, str], queries: dict[int, str], labels: dict[int, int], split: str = "train"
) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "collection.tsv").write_text("".join(f"{key}\t{text}\n" for key, text in passages.items()))
    (folder / f"queries.{split}.tsv").write_text("".join(f"{key}\t{text}\n" for key, text in queries.items()))
    (folder / f"qrels.{split}.tsv").write_text("".join(f"{key}\t0\t{own}\t1\n" for key, own in labels.items()))


def test_a_passage_that_test_shows_is_not_shown_in_train(tmp_path: Path) -> None:
    passages = {
        1: "Tie a knot of a rope by a loop and a turn.",
        2: "tie  a knot of a rope by a loop and a turn",
        **FILL,
    }
    passages |= {3: "A rope of hemp holds a knot better than one of nylon when you tie it."}
    write(tmp_path / "set", passages, {5: "how to tie a knot", 6: "rope of hemp knot tie"}, {5: 1, 6: 3})
    (tmp_path / "set" / "queries.dev.tsv").write_text("7\tknot of a rope tie loop\n")
    (tmp_path / "set" / "qrels.dev.tsv").write_text("7\t0\t2\t1\n")  # the text of passage 1, set otherwise
    build = build_axioms(tmp_path, msmarco=str(tmp_path / "set"), until="choose_passages", test_share=0.0)[2]
    assert {row["question_id"]: row["split"] for row in rows(build, "select_queries")} == {
        "msmarco/q5": "train",
        "msmarco/q6": "train",
        "msmarco/q7": "test",
    }
    run = next(entry for entry in build.done if entry.stage == "choose_passages")
    assert run.artifact.reasons("filtered")[NO_LABELLED] == 1  # of query 5: test shows its passage
    shown = {row["question_id"]: row for row in rows(build, "choose_passages")}
    assert "msmarco/q5" not in shown
    assert "msmarco/p3" not in {
        each["passage_id"] for name in ("relevant", "irrelevant") for each in shown["msmarco/q7"][name]
    }  # it is labelled for a query of train


def test_what_stands_on_the_other_side_of_a_community_site_is_not_shown(tmp_path: Path) -> None:
    first = build_axioms(tmp_path, until="join_threads")[2]
    answer = next(
        " ".join(each["text"].split())
        for row in rows(first, "join_threads")
        for each in row["answers"]
        if len(each["text"]) < 400
    )
    asked = words(answer)[:6]
    fill = {50 + at: f"{word} {text}" for at, (word, text) in enumerate(zip(asked, FILL.values(), strict=True))}
    passages = {1: answer, 2: answer.replace(" ", " so ", 1), **fill}
    write(tmp_path / "set", passages, {5: " ".join(asked)}, {5: 1}, "dev")
    settings = {"msmarco": str(tmp_path / "set"), "until": "choose_passages"}
    in_train = build_axioms(tmp_path, **settings, test_share=0.0)[2]  # all questions of the site
    run = next(entry for entry in in_train.done if entry.stage == "choose_passages")
    assert run.artifact.reasons("filtered") == {NO_LABELLED: 1}
    in_test = build_axioms(tmp_path, **settings, test_share=1.0)[2]
    (row,) = rows(in_test, "choose_passages")
    assert row["relevant"][0]["passage_id"] == "msmarco/p1"


def test_what_is_labelled_for_a_dev_query_that_is_not_asked_is_not_shown_in_train(tmp_path: Path) -> None:
    passages = {1: "Tie a knot of a rope by a loop.", 2: "A knot of a rope that you tie twice holds twice.", **FILL}
    write(tmp_path / "set", passages, {5: "tie a knot of a rope"}, {5: 1})
    (tmp_path / "set" / "queries.dev.tsv").write_text("6\tknot that holds\n")
    (tmp_path / "set" / "qrels.dev.tsv").write_text("6\t0\t2\t1\n")
    for cap, asked in ((2, {"msmarco/q5", "msmarco/q6"}), (1, {"msmarco/q5"})):
        settings = {"test_share": 0.0, "msmarco_queries": cap, "seed": 3, "until": "choose_passages"}
        build = build_axioms(tmp_path, msmarco=str(tmp_path / "set"), **settings)[2]
        assert {row["question_id"] for row in rows(build, "select_queries")} == asked  # by this seed
        row = next(row for row in rows(build, "choose_passages") if row["question_id"] == "msmarco/q5")
        assert "msmarco/p2" not in {each["passage_id"] for each in (*row["relevant"], *row["irrelevant"])}


def test_without_files_axiom_4_is_off(tmp_path: Path) -> None:
    version, _, build = build_axioms(tmp_path, msmarco=[], eli5=[], webgpt=[])
    assert version is not None
    assert {row["source"] for row in rows(build, "assemble_pairs")} == {"stackexchange"}
    assert "MS MARCO, non-commercial" not in (version.folder / "README.md").read_text()
    assert {row["site"] for row in rows(build, "attribute_posts")} == {"community.example"}


# ---------------------------------------------------------------- pure functions


def texts(*each: str) -> dict[str, Text]:
    return {f"p{number}": Text(text, text_hash(text)) for number, text in enumerate(each)}


def chosen(labelled: list[str], best: list[str], far: list[str], known: dict[str, Text], **changes: Any) -> Any:
    allowed = changes.pop("allowed", lambda name: True)
    return choose(labelled, best, far, known, allowed, **({"k": 2, "irrelevant": 2, "similarity": 0.5} | changes))


def test_of_equal_texts_the_labelled_one_is_shown_and_none_is_irrelevant() -> None:
    known = texts("tea is hot", "Tea is  hot.", "milk", "salt", "sand", "TEA is hot")
    found = chosen(["p1"], ["p0", "p2"], ["p5", "p3", "p4"], known)
    assert found == (["p1", "p2"], ["p3", "p4"])


def test_a_labelled_passage_that_was_not_found_comes_last() -> None:
    known = texts("one", "two", "three", "four", "five")
    assert chosen(["p2"], ["p0", "p1"], ["p3", "p4"], known) == (["p0", "p1", "p2"], ["p3", "p4"])


def test_nearly_the_same_as_a_labelled_passage_is_not_irrelevant() -> None:
    known = texts("a b c d e f g", "x", "a b c d e f h", "sand", "salt")
    assert chosen(["p0"], ["p1"], ["p2", "p3", "p4"], known) == (["p1", "p0"], ["p3", "p4"])
    assert chosen(["p0"], ["p1"], ["p2", "p3"], known) == FEW_IRRELEVANT


def test_a_labelled_passage_outside_the_collection_does_not_count() -> None:
    assert chosen(["p9"], ["p0", "p1"], ["p2", "p3"], texts("a", "b", "c", "d")) == NO_LABELLED
    known = texts("a", "b", "c", "d")
    assert chosen(["p0"], ["p1"], ["p2", "p3"], known, allowed=lambda name: name != "p0") == NO_LABELLED


names = st.lists(st.sampled_from([f"p{number}" for number in range(12)]), unique=True)


@given(names, names, names, st.lists(st.integers(0, 5), min_size=12, max_size=12), st.sets(st.integers(0, 11)))
def test_whatever_was_found_both_sets_are_disjoint_and_allowed(
    labelled: list[str], best: list[str], far: list[str], same: list[int], hidden: set[int]
) -> None:
    known = texts(*(f"text {number}" for number in same))
    found = chosen(labelled, best, far, known, allowed=lambda name: int(name[1:]) not in hidden)
    if isinstance(found, str):
        return
    relevant, irrelevant = found
    shown = [known[name].hash for name in (*relevant, *irrelevant)]
    assert len(shown) == len(set(shown))
    assert set(relevant) & set(labelled)
    assert set(relevant) <= {*labelled, *best}
    assert set(irrelevant) <= set(far) - set(labelled)
    assert not {int(name[1:]) for name in (*relevant, *irrelevant)} & hidden
    assert len(relevant) <= 4
    assert len(irrelevant) == 2


def test_near_duplicates_share_a_side_and_held_out_queries_are_test() -> None:
    ids = [f"msmarco/q{number}" for number in range(400)]
    asked = [f"what is the {number // 2} best way to number {number // 2}" for number in range(400)]
    trained = set(ids[40:])
    sides = assign(ids, asked, trained, 0.9, 0.3, 0)
    assert all(sides[one] == sides[other] for one, other in zip(ids[::2], ids[1::2], strict=True))
    assert {sides[key] for key in ids[:40]} == {"test"}
    later = Counter(sides[key] for key in ids[40:])
    assert 0.2 < later["test"] / 360 < 0.4


def test_a_query_that_is_nearly_one_of_each_side_belongs_to_none() -> None:
    ids = [f"msmarco/q{number}" for number in range(100)]
    asked = ["a b c d", *(f"e{number} f g h" for number in range(98)), "a b c d e1 f g h"]
    for last in range(1, 98):
        asked[-1] = f"a b c d e{last} f g h"
        sides = assign(ids, asked, set(ids[1:]), 0.2, 0.5, 0)
        assert sides[ids[-1]] == ("test" if sides[ids[last + 1]] == "test" else None)
        if sides[ids[last + 1]] == "train":
            break
    else:
        pytest.fail("no query was in train")


@given(st.sets(st.integers(0, 10_000).map(str)), st.integers(0, 50), st.integers(0, 50), st.integers(0, 3))
def test_a_larger_cap_keeps_what_a_smaller_one_kept(ids: set[str], most: int, more: int, seed: int) -> None:
    few, many = lowest(ids, most, seed), lowest(ids, most + more, seed)
    assert many[: len(few)] == few
    assert len(few) == min(most, len(ids))


# ---------------------------------------------------------------- tracing


@pytest.mark.parametrize("kind", ["open_book > irrelevant_grounding", "open_book > passage", "passage > passage"])
def test_a_pair_is_traced_to_its_passages(
    kind: str, home: Path, made: tuple[Version, Build], published: list[Row]
) -> None:
    row = next(row for row in published if row["pair_type"] == kind)
    found = trace(Store(home), made[0], row["pair_id"])
    for side in ("preferred", "rejected"):
        stage = {
            "open_book": "answer_from_relevant",
            "irrelevant_grounding": "answer_from_irrelevant",
            "passage": "choose_passages",
        }[row[f"{side}_source"]]
        assert found[side]["stage"] == stage
        assert found[side]["question_id"] == row["question_id"]
    lines = dict(found["lines"])
    assert "pair_by_evidence" in lines["built by"]
    assert "msmarco sha256" in lines["built by"]
    assert row["question_id"] in lines["question"]


def test_the_samples_are_named_by_the_setting() -> None:
    assert [Path(name).name for name in MSMARCO] == ["msmarco", "msmarco_train"]


def test_tantivy_finds_nearly_what_bm25_finds(build: Build, tmp_path: Path) -> None:
    pytest.importorskip("tantivy")
    other = build_axioms(tmp_path, msmarco_retrieval="tantivy", until="retrieve_candidates")[2]
    both = list(zip(rows(build, "retrieve_candidates"), rows(other, "retrieve_candidates"), strict=True))
    for one, two in both:
        assert (one["question_id"], one["looked_at"]) == (two["question_id"], two["looked_at"])
    same = sum(one["best"][0]["passage_id"] == two["best"][0]["passage_id"] for one, two in both)
    assert same >= 0.8 * len(both)
