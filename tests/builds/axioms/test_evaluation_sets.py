"""The evaluation sets of a version of the samples, and what training loses to them, against the plain files."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms

import longform
from flows.cli.shared.verification import check
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version
from longform.engine.build import Build
from longform.errors import SourceError
from tasks.axioms.evaluation.audit import contaminated

SAMPLES = paths.ROOT / "data" / "samples"
SETS = {name: str(SAMPLES / name) for name in ("eli5", "webgpt")}
SETTINGS: dict[str, Any] = {"test_share": 0.3, "research_questions": [], "validation_pairs": 0}
Row = dict[str, Any]
DAY = "2026-11-21"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def version(home: Path) -> Version:
    return built(home)[0]


def built(home: Path, name: str = "v1", **settings: Any) -> tuple[Version, Build]:
    found, _, build = build_axioms(home, name, **{**SETTINGS, **SETS, **settings})
    assert found is not None
    return found, build


def rows(version: Version, config: str = "ranking", split: str = "test") -> list[Row]:
    return [row for path in version.files(config, split) for row in pq.read_table(path).to_pylist()]


def ranking(version: Version, name: str) -> dict[str, Row]:
    return {row["question_id"]: row for row in rows(version) if row["set"] == name}


def posts() -> dict[str, Row]:
    text = (SAMPLES / "community.example" / "Posts.xml").read_text("utf-8-sig")
    tree = ElementTree.fromstring(re.sub("&#x0[Ee];", "", text))
    return {f"community.example/{row.get('Id')}": dict(row.attrib) for row in tree}


# ---------------------------------------------------------------- the sets


def test_a_held_out_question_has_the_answers_of_the_dump_and_negatives_of_its_own_side(version: Version) -> None:
    found, dump = ranking(version, "stackexchange"), posts()
    sides = {
        row["question_id"]: split
        for split in ("train", "test")
        for row in rows(version, "pairs", split)
        if row["source"] == "stackexchange"
    }
    assert found.keys() == {key for key, side in sides.items() if side == "test"}
    assert len(found) > 5
    shown_in_train = {
        row[f"{side}_id"] for row in rows(version, "pairs", "train") for side in ("preferred", "rejected")
    }
    for key, row in found.items():
        own = {one["answer_id"]: one for one in row["answers"] if not one["negative"]}
        expected = {name for name, post in dump.items() if f"community.example/{post.get('ParentId')}" == key}
        assert own.keys() == {name for name in expected if dump[name].get("OwnerUserId") != "-2" and dump[name]["Body"]}
        assert {one["gain"] for one in own.values()} == {float(max(int(dump[name]["Score"]), 0)) for name in own}
        for one in row["answers"]:
            assert one["answer_id"] not in shown_in_train
            assert one["votes"] == int(dump[one["answer_id"]]["Score"])
            if one["negative"]:
                other = f"community.example/{dump[one['answer_id']]['ParentId']}"
                assert (one["gain"], one["source"], other != key, sides.get(other, "test")) == (
                    0.0,
                    "related",
                    True,
                    "test",
                )
        assert [one["answer_id"] for one in row["answers"]] == sorted(one["answer_id"] for one in row["answers"])
    assert any(one["negative"] for row in found.values() for one in row["answers"])


def of_reddit(kind: str) -> list[Row]:
    return [json.loads(line) for line in (SAMPLES / "eli5" / f"{kind}_2024-02.jsonl").read_text().splitlines()]


def test_a_question_of_reddit_has_what_the_dump_says_and_no_names(version: Version) -> None:
    found = ranking(version, "eli5")
    comments = defaultdict[str, dict[str, int]](dict)
    for comment in of_reddit("RC"):
        if comment["score"] >= 2 and len(comment["body"].split()) >= 8:
            comments[f"reddit/{comment['link_id']}"][f"reddit/t1_{comment['id']}"] = comment["score"]
    asked = {f"reddit/t3_{one['id']}": one for one in of_reddit("RS") if not one["removed_by_category"]}
    expected = {
        key: comments[key]
        for key in asked
        if len(comments[key]) > 1 and max(comments[key].values()) >= 1.3 * min(comments[key].values())
    }
    assert found.keys() == expected.keys()
    of_thread = {answer: key for key, own in comments.items() for answer in own}
    for key, row in found.items():
        own = {one["answer_id"]: one["gain"] for one in row["answers"] if not one["negative"]}
        assert own == {name: float(votes) for name, votes in expected[key].items()}
        for one in row["answers"]:
            if one["negative"]:
                other = of_thread[one["answer_id"]]
                assert other != key
                assert asked[other]["subreddit"] == asked[key]["subreddit"]
        assert not re.match(r"\W*eli5", row["question"], re.IGNORECASE)
    texts = "".join(path.read_bytes().decode("latin-1") for path in version.folder.rglob("*.parquet"))
    assert "sample_author" not in json.dumps(list(found.values()), default=str)
    assert "sample_author" not in texts
    assert not any(one["text"] in ("[deleted]", "[removed]") for row in found.values() for one in row["answers"])


def test_a_query_has_its_labelled_passage_and_the_best_others(version: Version) -> None:
    found = ranking(version, "msmarco")
    labels = [line.split() for line in (SAMPLES / "msmarco" / "qrels.dev.small.tsv").read_text().splitlines()]
    assert {
        (key, one["answer_id"], one["gain"]) for key, row in found.items() for one in row["answers"] if one["gain"]
    } == {(f"msmarco/q{query}", f"msmarco/p{passage}", float(grade)) for query, _, passage, grade in labels}
    assert all(one["negative"] == (one["gain"] == 0) for row in found.values() for one in row["answers"])
    assert any(one["negative"] for row in found.values() for one in row["answers"])


def test_a_comparison_of_an_answer_with_itself_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "comparisons.jsonl"
    record = json.loads((SAMPLES / "webgpt" / "comparisons.jsonl").read_text().splitlines()[0])
    same = record | {"answer_1": record["answer_0"].upper()}
    file.write_text("".join(f"{json.dumps(one)}\n" for one in (record, same)))
    found, _ = built(tmp_path, webgpt=str(file), eli5=[], msmarco=[])
    assert [row["rejected"]["text"] for row in rows(found, "comparisons")] == [record["answer_1"]]


def test_a_comparison_has_the_preferred_answer_first_and_ties_are_left_out(version: Version) -> None:
    records = []
    for line in (SAMPLES / "webgpt" / "comparisons.jsonl").read_text().splitlines()[:4]:
        records.append(json.loads(line))
    clear = [record for record in records if record["score_0"]]
    found = {row["question"]: row for row in rows(version, "comparisons")}
    assert len(found) == len(clear) == 2
    for record in clear:
        row, better = found[record["question"]["full_text"]], int(record["score_1"] > 0)
        assert (row["preferred"]["text"], row["rejected"]["text"]) == (
            record[f"answer_{better}"],
            record[f"answer_{1 - better}"],
        )
        assert row["preferred"]["score"] > 0 > row["rejected"]["score"]
        quotes = record[f"quotes_{better}"]
        assert row["preferred"]["evidence"] == [
            f"{title}\n{extract}" for title, extract in zip(quotes["title"], quotes["extract"], strict=True)
        ]
        assert row["licence"] is None


def test_the_sets_are_loaded_by_the_card_and_counted_in_the_report(version: Version) -> None:
    assert set(longform.load("axioms/ranking", split="test", home=version.folder.parents[2])["split"].to_pylist()) == {
        "test"
    }
    tables = {table["title"]: table["rows"] for table in json.loads((version.folder / "tables.json").read_text())}
    counts = Counter(row["set"] for row in rows(version))
    ours = {row["set"].partition(":")[0]: 0 for row in tables["Evaluation sets"]}
    for row in tables["Evaluation sets"]:
        ours[row["set"].partition(":")[0]] += row["questions"]
    assert ours == counts
    (webgpt,) = tables["Comparisons of answers"]
    assert (webgpt["comparisons"], webgpt["clear preference"], webgpt["clear preference paper"]) == (4, 2, 17_622)
    card = (version.folder / "README.md").read_text()
    for words in (
        "Reddit User Agreement",
        "MS MARCO terms: non-commercial research",
        "name no licence",
        "Decontamination",
    ):
        assert words in card


def test_sets_can_be_switched_off(tmp_path: Path) -> None:
    found, _ = built(tmp_path, eli5=[], msmarco=[], webgpt=[])
    assert {row["set"] for row in rows(found)} == {"stackexchange"}
    assert "comparisons" not in found.configs
    assert "MS MARCO terms" not in (found.folder / "README.md").read_text()


def test_what_is_taken_down_is_in_no_set(home: Path, version: Version, tmp_path: Path) -> None:
    (comparison,) = (row["comparison_id"] for row in rows(version, "comparisons") if "bread" in row["question"])
    gone = ["reddit/t3_1b0001", "reddit/t1_ky0005", "msmarco/p0", comparison]
    add(tmp_path, [(key, DAY, "asked") for key in gone])
    found, _ = built(tmp_path)
    shown = json.dumps([*rows(found), *rows(found, "comparisons")], default=str)
    assert not any(f'"{key}"' in shown for key in gone)
    assert "Why does a mirror swap" not in shown
    assert "t1_ky0001" not in shown  # answers to a question that is taken down
    assert "t1_ky0006" not in shown  # the only answer left to its question
    assert "t1_ky0007" in shown


def test_a_row_of_a_set_is_traced_to_its_posts_and_stages(home: Path, version: Version) -> None:
    from flows.axioms import trace

    for name, stage in (("eli5", "rank_discussions"), ("stackexchange", "rank_held_out"), ("msmarco", "rank_passages")):
        row = next(row for row in rows(version) if row["set"] == name)
        found = trace(Store(home), version, row["ranking_id"])
        text = "\n".join(line for _, line in found["lines"])
        assert found["ranking"] == row
        best = [one for one in row["answers"] if not one["negative"]]
        assert all(one["answer_id"] in text and one["licence"] in text for one in best)
        assert stage in text
    (row, *_) = rows(version, "comparisons")
    lines = dict(trace(Store(home), version, row["comparison_id"])["lines"])
    assert "no licence named" in lines["question"]
    assert "select_comparisons" in lines["built by"]


# ---------------------------------------------------------------- decontamination


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", re.sub(r"\]\([^()\s]*\)", "] ", text).lower())


def runs(text: str, n: int = 13) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


def shown(row: Row) -> dict[str, str]:
    """Texts of a pair that leave with its question, by id."""
    own = {row["question_id"]: row["question"], row["preferred_id"]: row["preferred"]}
    own |= dict(zip(row["evidence_ids"], row["evidence"], strict=True))
    return own if row["related_question_id"] else own | {row["rejected_id"]: row["rejected"]}


def naive(before: list[Row], evaluated: list[str]) -> set[str]:
    """Ids of the pairs that stay, where every evaluation text is long."""
    bad = set().union(*map(runs, evaluated))
    shingles = [runs(text, 3) for text in evaluated]

    def leaks(text: str) -> bool:
        own = runs(text, 3)
        return bool(runs(text) & bad) or any(len(own & other) / len(own | other) >= 0.5 for other in shingles)

    gone = {row["question_id"] for row in before if any(map(leaks, shown(row).values()))}
    return {row["pair_id"] for row in before if row["question_id"] not in gone and not leaks(row["rejected"])}


def spaced(text: str, size: int, skip: int = 20) -> str:
    """Some words of a text, otherwise set, between others."""
    words = words_of(text)[skip : skip + size]
    assert len(words) == size
    return "Elsewhere one reads: **" + " ".join(words).upper() + "** and nothing more of it"


@pytest.fixture(scope="module")
def planted(version: Version) -> dict[str, str]:
    """Evaluation texts, by what of a training pair they hold."""
    posts = (row for row in rows(version, "pairs", "train") if row["source"] == "stackexchange")
    train = sorted(posts, key=lambda row: row["pair_id"])
    questions = list(dict.fromkeys(row["question_id"] for row in train))
    first = {key: next(row for row in train if row["question_id"] == key) for key in questions}
    votes = next(row for row in train if row["axiom"] == 0 and row["question_id"] == questions[1])
    grounded = next(row for row in train if row["evidence"] and row["question_id"] == questions[2])
    related = next(row for row in train if row["related_question_id"] and row["question_id"] == questions[3])
    return {
        "near-duplicate of a question": first[questions[0]]["question"].replace(" the ", " THAT ", 1),
        "run of an answer": spaced(votes["preferred"], 13),
        "run of evidence": spaced(grounded["evidence"][0], 14, 4),
        "run of a negative": spaced(related["rejected"], 16),
        "twelve words": spaced(first[questions[-1]]["question"], 12, 0),
    }


def test_planted_texts_take_out_what_sets_of_words_say(
    home: Path, version: Version, planted: dict[str, str], tmp_path: Path
) -> None:
    lines = tmp_path / "own.jsonl"
    lines.write_text("".join(json.dumps({"id": name, "answer": text}) + "\n" for name, text in planted.items()))
    found, build = built(home, "v2", decontaminate=str(lines))
    before = rows(version, "pairs", "train")
    kept = {row["pair_id"] for row in rows(found, "pairs", "train")}
    assert kept == naive(before, list(planted.values()))
    assert 0 < len(kept) < len(before)
    assert rows(found, "pairs", "test") == rows(version, "pairs", "test")
    assert {row["pair_id"] for row in rows(found, "preference", "train")} == kept
    (entry,) = (entry for entry in build.done if entry.stage == "decontaminate")
    reasons = {reason for _, reason in entry.artifact.rejected()}
    assert reasons == {"near-duplicate of an evaluation text", "words in common with an evaluation text"}
    assert sum(entry.artifact.rejected().values()) == len(before) - len(kept)
    tables = {table["title"]: table["rows"] for table in json.loads((found.folder / "tables.json").read_text())}
    (row,) = (row for row in tables["Decontamination"] if row["set"] == "own.jsonl")
    assert (row["texts"], row["training pairs removed"]) == (len(planted), len(before) - len(kept))
    assert not list(check(Store(home), found))


@pytest.mark.parametrize(
    "name", ["near-duplicate of a question", "run of an answer", "run of evidence", "run of a negative", "twelve words"]
)
def test_the_audit_finds_each_planted_text_in_a_version_that_was_not_decontaminated(
    version: Version, planted: dict[str, str], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "ranking.parquet"
    (row,) = rows(version)[:1]
    row["answers"] = [{**row["answers"][0], "text": planted[name], "negative": False, "answer_id": "a"}]
    row["question"] = "What did somebody else ask on another day?"
    schema = pq.read_schema(version.files("ranking", "test")[0])
    pq.write_table(pa.Table.from_pylist([row], schema=schema), path)
    train = version.files("pairs", "train")
    found = list(contaminated({"pairs": {"train": train}, "ranking": {"test": [path]}}))
    texts = {
        key: text
        for pair in rows(version, "pairs", "train")
        for key, text in [*shown(pair).items(), (pair["rejected_id"], pair["rejected"])]
    }
    bad = runs(planted[name])
    by_run = {key for key, text in texts.items() if runs(text) & bad}
    assert {one.key for one in found} >= by_run
    assert bool(found) == (name != "twelve words")


def test_the_audit_looks_at_comparisons_and_at_the_test_split(version: Version, tmp_path: Path) -> None:
    train = rows(version, "pairs", "train")
    files = {"pairs": {"train": version.files("pairs", "train"), "test": version.files("pairs", "test")}}
    assert not list(contaminated(files))
    schema = pq.read_schema(version.files("comparisons", "test")[0])
    (row,) = rows(version, "comparisons")[:1]
    row["preferred"]["evidence"] = [spaced(train[0]["preferred"], 13)]
    pq.write_table(pa.Table.from_pylist([row], schema=schema), tmp_path / "c.parquet")
    assert list(contaminated({**files, "comparisons": {"test": [tmp_path / "c.parquet"]}}))
    pair = {
        **rows(version, "pairs", "test")[0],
        "evidence": [spaced(train[0]["preferred"], 13)],
        "evidence_ids": ["x#1"],
    }
    pair_schema = pq.read_schema(version.files("pairs", "test")[0])
    pq.write_table(pa.Table.from_pylist([pair], schema=pair_schema), tmp_path / "p.parquet")
    assert list(contaminated({"pairs": {**files["pairs"], "test": [tmp_path / "p.parquet"]}}))


def test_files_of_ones_own_may_be_parquet_or_text_and_must_hold_texts(
    home: Path, version: Version, planted: dict[str, str], tmp_path: Path
) -> None:
    text = planted["run of an answer"]
    (tmp_path / "lines.txt").write_text(f"one short line\n\n{text}\n")
    pd.DataFrame([{"question": "Who?", "answers": [text], "other": 1}]).to_parquet(tmp_path / "rows.parquet")
    kept = naive(rows(version, "pairs", "train"), [text])
    for name in ("lines.txt", "rows.parquet"):
        found, _ = built(home, name.replace(".", "-"), decontaminate=str(tmp_path / name))
        assert {row["pair_id"] for row in rows(found, "pairs", "train")} == kept
    (tmp_path / "none.jsonl").write_text('{"content": "no such column"}\n')
    with pytest.raises(SourceError, match="no text in question, title"):
        built(home, "none", decontaminate=str(tmp_path / "none.jsonl"))
