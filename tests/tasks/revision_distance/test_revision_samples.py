"""The samples through the real readers: every reason to leave something out is among them, and enough cases stay."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paths
import pytest
from expertqa_toys import rejected_of
from toy_stages import building

from flows.sources import acl_ocl, ultrafeedback, wildchat
from longform.artifacts.rows import Rows
from longform.engine.build import Build
from longform.errors import SourceError
from longform.files import sha256_of
from schemas.revision_distance import STRUCTURE
from schemas.sources.papers import METADATA
from tasks.revision_distance.cases.related import find_cited
from tasks.revision_distance.cases.selection import select_conversations, select_preferences
from tasks.revision_distance.cases.structure import open_pairs, pairs, read_structure
from tasks.sources.papers.related import related_paragraphs

SAMPLES = paths.SAMPLES / "revision_distance"
LENGTHS = {"least_words": 50, "most_words": 2_000}


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    with building(tmp_path_factory.mktemp("samples")) as made:
        yield made


def reasons(rows: Rows) -> Counter[str]:
    return Counter(reason for _, reason in rejected_of(rows).values())


def test_half_of_the_conversations_ask_for_an_email_a_letter_or_an_article(builder: Build) -> None:
    [talks] = wildchat.read(builder, [SAMPLES / "wildchat.jsonl"], wildchat.Read(toxic=True))
    easy = select_conversations(
        builder, talks, kinds=["email", "letter", "article"], languages=["English"], regions=["US"], **LENGTHS
    )
    assert Counter(row["kind"] for row in easy) == {"email": 5, "letter": 4, "article": 4}
    assert reasons(easy) == {
        "no writing request": 5,
        "asked for in a later turn only": 1,
        "reply refuses": 1,
        "reply asks back": 1,
        "text too short": 1,
        "flagged as toxic": 1,
        "another language": 1,
    }
    assert sum(row["scrubbed"] for row in easy) == 4
    texts = " ".join(row["request"] + row["reference"] for row in easy)
    assert texts.count("[mail]") == texts.count("[phone]") == 2
    assert "mail.test" not in texts


def test_the_chosen_texts_are_the_best_rated_ones(builder: Build) -> None:
    [rated] = ultrafeedback.read(builder, [SAMPLES / "ultrafeedback.jsonl"], ultrafeedback.Read())
    free = list(select_preferences(builder, rated, seed=0, regions=["US"], **LENGTHS))
    assert len(free) == 9
    for row in free:
        chosen, rejected = row["given"]
        assert (chosen["system"], rejected["system"]) == ("chosen", "rejected")
        assert chosen["score"] == 5.0 > rejected["score"]
    assert {row["kind"] for row in free} == {
        "email",
        "letter",
        "article",
        "story",
        "speech",
        "review",
        "essay",
        "announcement",
    }


def test_instructions_that_make_no_case(builder: Build) -> None:
    [rated] = ultrafeedback.read(builder, [SAMPLES / "ultrafeedback.jsonl"], ultrafeedback.Read())
    free = select_preferences(builder, rated, seed=0, regions=["US"], **LENGTHS)
    assert reasons(free) == {"no writing request": 4, "no completion with a lower score": 1, "reply refuses": 1}


def test_related_work_leads_to_the_abstracts_of_what_it_cites(builder: Build) -> None:
    papers, versions = acl_ocl.read(builder, [SAMPLES / "acl_ocl"], acl_ocl.Read())
    assert papers.count == 15
    none = Rows(builder.store, METADATA, "none", "0" * 16, [])
    related = related_paragraphs(builder, papers)
    hard = find_cited(builder, related, papers, none, versions, least_cited=2, **LENGTHS)
    assert {row["paper_id"].rsplit(".", 1)[1] for row in hard} == {"9201", "9202", "9203", "9204", "9205", "9206"}
    for row in hard:
        written = json.loads(next(SAMPLES.rglob(f"{row['paper_id'].removeprefix('acl/')}.json")).read_text())
        paragraphs = [one for one in written["pdf_parse"]["body_text"] if one["text"] == row["reference"]]
        entries = written["pdf_parse"]["bib_entries"]
        [paragraph] = paragraphs
        wanted = [entries[span["ref_id"]]["authors"][0]["last"] for span in paragraph["cite_spans"]]
        cited = {one["paper_id"]: one for one in papers if one["paper_id"] in {c["paper_id"] for c in row["cited"]}}
        assert [cited[one["paper_id"]]["authors"][0].split()[-1] for one in row["cited"]] == wanted
        assert all(one["abstract"] == cited[one["paper_id"]]["abstract"] for one in row["cited"])
    assert {one["by"] for row in hard for one in row["cited"]} == {"title"}
    assert reasons(hard) == {"text too short": 2, "no abstract of its own": 1}


def test_citation_spans_hold_citation_marks() -> None:
    files = sorted((SAMPLES / "acl_ocl").rglob("*.json"))
    assert len(files) == 15
    for file in files:
        for paragraph in json.loads(file.read_text())["pdf_parse"]["body_text"]:
            for span in paragraph["cite_spans"]:
                assert paragraph["text"][span["start"] : span["end"]] == span["text"]


# ---------------------------------------------------------------- structure


def test_reordered_references_are_the_same_words_to_rouge(builder: Build) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    rows = list(read_structure(builder, open_pairs([SAMPLES / "structure.jsonl"], digest=sha256_of)))
    assert [row["case_id"] for row in rows] == [f"structure/{number}" for number in range(1, 6)]
    scorer = RougeScorer(["rouge1", "rougeL"])
    for row in rows:
        [given] = row["given"]
        scores = scorer.score(row["reference"], given["text"])
        assert given["system"] == "reordered"
        assert scores["rouge1"].fmeasure == 1.0
        assert scores["rougeL"].fmeasure < 1.0


@contextmanager
def written(folder: Path, *lines: Any) -> Iterator[list[Path]]:
    file = folder / "pairs.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    other = folder / "more.jsonl"
    other.write_text(json.dumps({"original": "C. D.", "reordered": "D. C."}) + "\n")
    yield [file, other]


def test_lines_that_are_no_pair_say_why_and_files_have_numbers(builder: Build, tmp_path: Path) -> None:
    pair = {"original": "A. B.", "reordered": "B. A."}
    bad = [
        "{",
        "[1]",
        {"original": "A."},
        {"original": "A.", "reordered": 3},
        {"original": " ", "reordered": "A."},
        {"original": "A. B.", "reordered": "B. A. A."},
        {"original": "A. B.", "reordered": "a, b"},
        pair,
        {"original": "A " * 200_000, "reordered": "A"},
    ]
    with written(tmp_path, pair, "", *bad) as files:
        rows = read_structure(builder, open_pairs(files, digest=sha256_of))
        assert [row["case_id"] for row in rows] == ["structure/1", "structure/2.1"]
        found = rejected_of(rows)
    assert [found[f"structure/{number}"] for number in range(3, 12)] == [
        ("defect", "no JSON"),
        ("defect", "no record"),
        *[("defect", "original or reordered is no text")] * 3,
        ("filtered", "not the same words"),
        ("filtered", "the same order"),
        ("filtered", "repeated pair"),
        ("defect", "text too long"),
    ]


@pytest.mark.parametrize("name", ["README.md", "pairs", "pairs.json", "pairs.jsonl.zip", "pairs.csv", ".jsonl~"])
def test_a_file_of_something_else_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"original": "A. B.", "reordered": "B. A."}\n')
    (tmp_path / "sound.JSONL").write_text("{}\n")

    def never(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    with pytest.raises(SourceError) as told:
        open_pairs((tmp_path / one for one in ("sound.JSONL", name)), digest=never)
    assert str(told.value).startswith(f"{tmp_path / name} does not end in .jsonl, .jsonl.gz, .jsonl.zst: give ")
    assert told.value.exit_code == 5


def test_folders_packed_files_and_capitals_are_files_of_pairs(tmp_path: Path) -> None:
    folder = tmp_path / "given.md"
    folder.mkdir()
    for name in ("a.jsonl", "b.JSONL", "c.jsonl.gz", "README.md"):
        (folder / name).write_text(name)
    found = open_pairs([folder], digest=sha256_of)
    assert [Path(one.path).name for one in found] == ["a.jsonl", "b.JSONL", "c.jsonl.gz"]
    assert [one.path for one in open_pairs([folder / "c.jsonl.gz", str(folder / "b.JSONL")], digest=sha256_of)] == [
        str(folder / "c.jsonl.gz"),
        str(folder / "b.JSONL"),
    ]
    with pytest.raises(SourceError, match=r"gone\.md does not exist"):
        open_pairs([tmp_path / "gone.md"], digest=sha256_of)


def test_a_pair_is_a_whole_row() -> None:
    [row] = pairs([b'{"original": "Ask a@boats.test. B.", "reordered": "B. Ask a@boats.test."}'])
    assert isinstance(row, dict)
    assert row.keys() == {*STRUCTURE.names}
    assert (row["reference"], row["given"][0]["text"], row["scrubbed"]) == ("Ask [mail]. B.", "B. Ask [mail].", 2)
