"""Exports: what was imported comes out as it was, ours in the same form, chats, entailment pairs, the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paths
import pyarrow as pa
import pytest
from axioms_builds import Silent
from hypothesis import given, settings
from hypothesis import strategies as st

from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.stage import PerGroup, Row, StageContext, stage
from longform.engine.thread_tasks import SequentialStages
from longform.errors import LongformError, StoreError
from longform.files import sha256_of, write_json
from longform.llm.models import Models
from schemas.expertqa import ANSWERS, CLAIMS, PUBLISHED_CLAIMS, QUESTIONS, RANDOM_SPLIT
from tasks.expertqa.answers.claims import released_claims
from tasks.expertqa.answers.released import answers_of, labels_of
from tasks.expertqa.bank import jsonl_records, open_banks, parse_questions, read_questions
from tasks.expertqa.exports import StageRows, chats, entailments, examples, line

REAL = paths.REAL_DATA / "expertqa"
LONGFORM = str(Path(sys.executable).with_name("longform"))


def stored(rows: list[Row], schema: pa.Schema) -> list[Row]:
    """As they come back from a file."""
    found: list[Row] = pa.RecordBatch.from_pylist(rows, schema=schema).to_pylist()
    return found


def questions_of(*records: Any) -> list[Row]:
    found = list(parse_questions(jsonl_records([json.dumps(one).encode() for one in records]), "MIT"))
    assert not any(isinstance(one, Rejected) for one in found)
    return stored(found, QUESTIONS)  # type: ignore[arg-type]


def released(questions: list[Row]) -> list[Row]:
    found = [one for question in questions for one in answers_of(question) if not isinstance(one, Rejected)]
    return stored(found, ANSWERS)


def claims_of(answers: list[Row]) -> list[Row]:
    return stored([claim for answer in answers if answer["claims"] for claim in released_claims(answer)], CLAIMS)


def exported(questions: list[Row], made: StageRows, **options: Any) -> list[Any]:
    """As a reader of the file gets them."""
    return [json.loads(line(example)) for _, example in examples(questions, made, **options)]


# what was imported


CLAIM = {"claim_string": "Copper turns green [1].", "evidence": ["[1] https://copper.example"], "support": None}
ANSWER = {"answer_string": "Copper turns green [1].", "claims": [CLAIM, {"claim_string": "So."}], "annotator_id": "a"}
ASKED = {"question": "Why?", "annotator_id": "a", "answers": {"gpt4": ANSWER}, "metadata": {"field": "Law"}}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
TEXTS = st.lists(st.text(max_size=6), max_size=2)
MAYBE_CLAIMS = st.fixed_dictionaries(
    {"claim_string": st.text(max_size=8)},
    optional={"evidence": TEXTS | VALUES, "support": VALUES, "revised_evidence": VALUES, "x": VALUES},
)
MAYBE_ANSWERS = st.fixed_dictionaries(
    {"answer_string": st.text(max_size=8)},
    optional={"attribution": TEXTS, "claims": st.lists(MAYBE_CLAIMS, max_size=2) | VALUES, "x": VALUES},
)
RECORDS = st.fixed_dictionaries(
    {"question": st.text(max_size=8).map(lambda text: f"Q{text}"), "metadata": VALUES},
    optional={
        "answers": st.dictionaries(st.text(max_size=6), MAYBE_ANSWERS | VALUES, max_size=3) | VALUES,
        "annotator_id": VALUES,
        "question_types": VALUES,
        "x": VALUES,
    },
)


@settings(max_examples=200)
@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_any_example_comes_out_as_it_was_imported(records):
    questions = questions_of(*records)
    answers = released(questions)
    found = exported(questions, {"answers": answers, "claims": claims_of(answers)})
    assert found == records
    assert [json.dumps(one) for one in found] == [json.dumps(one) for one in records]  # order of keys, 1 or 1.0


@pytest.mark.parametrize("name", ["rand_val.jsonl", "r1_data_anon.jsonl"])
def test_the_released_files_come_out_as_they_were(name):
    if not (REAL / name).exists():
        pytest.skip("the released files are not beside the project")
    records = [json.loads(one) for one in (REAL / name).read_bytes().splitlines()]
    questions = questions_of(*records)
    answers = released(questions)
    assert exported(questions, {"answers": answers, "claims": claims_of(answers)}) == records


# ours, in the released form


def own_answer(question: Row, system: str, text: str) -> Row:
    return {
        **{"answer_id": f"a_{system}", "question_id": question["question_id"], "system": system, "text": text},
        **{"kind": "closed_book", "attribution": [], "original": None, "claims": None},
        "cited": [
            {"number": 1, "url": "https://copper.example", "passage_id": None, "title": None, "text": None},
            {"number": 2, "url": None, "passage_id": "p#0", "title": None, "text": "Moist air."},
        ],
    }


def own_claim(answer: Row, position: int, text: str, *evidence: Row) -> Row:
    keys = {name: answer[name] for name in ("answer_id", "question_id", "system")}
    return {
        **{"claim_id": f"{answer['answer_id']}#{position}", "position": position, **keys},
        **{"text": text, "evidence": list(evidence)},
    }


def piece(number: int | None, url: str | None, text: str | None) -> Row:
    return {"number": number, "url": url, "passage_id": None, "text": text, "given": None}


OWN = {"question": "Why does copper turn green?", "field": "Chemistry", "question_types": "I, IV", "annotator_id": "a"}


def made_of_ours() -> tuple[list[Row], dict[str, list[Row]]]:
    (question,) = questions_of(OWN)
    gpt4, read = own_answer(question, "gpt4", "It rusts [1]."), own_answer(question, "rr_gs_gpt4", "Air [2].")
    first = own_claim(gpt4, 0, "It rusts [1].", piece(1, "https://copper.example", None))
    second = own_claim(gpt4, 1, "Air does it.", piece(None, "https://air.example", "Moist air."))
    unsampled = own_claim(read, 0, "Air [2].", piece(2, "https://air.example", "Moist air."))
    said = {
        "support": "Complete",
        "reason_missing_support": "",
        "informativeness": "Very relevant",
        "worthiness": "Yes",
    }
    more = {"correctness": "Unsure", "reliability": None, "revised_claim": "It oxidises [1].", "revised_evidence": []}
    label = {
        **{name: gpt4[name] for name in ("answer_id", "question_id")},
        **{
            "usefulness": "Useful",
            "revised_answer": None,
            "annotation_time": 60.0,
            "annotator_id": "a",
            "source": "jsonl",
        },
        "claims": [{"claim_id": "a_gpt4#0", "said_as": None, **said, **more}],
    }
    keys = {"answer_id": "a_gpt4", "question_id": question["question_id"]}
    revised = [
        {**keys, "text": "It oxidises.", "revised_by": "person"},
        {**keys, "answer_id": "a_rr_gs_gpt4", "text": "By a machine.", "revised_by": "model"},
    ]
    tables = {
        "answers": [gpt4, read],
        "split": [first, second, unsampled],
        "claims": [first, second],
        "labels": [label],
        "revised": revised,
    }
    return [question], tables


def test_our_answers_are_written_in_the_released_form():
    questions, tables = made_of_ours()
    (found,) = exported(questions, tables)
    nulls = dict.fromkeys(
        ["support", "reason_missing_support", "informativeness", "worthiness", "correctness", "reliability"]
    )
    assert found == {
        "question": "Why does copper turn green?",
        "annotator_id": "a",
        "answers": {
            "gpt4": {
                "answer_string": "It rusts [1].",
                "attribution": ["[1] https://copper.example", "[2] p#0"],
                "claims": [
                    {
                        "claim_string": "It rusts [1].",
                        "evidence": ["[1] https://copper.example"],
                        "support": "Complete",
                        "reason_missing_support": "",
                        "informativeness": "Very relevant",
                        "worthiness": "Yes",
                        "correctness": "Unsure",
                        "reliability": None,
                        "revised_claim": "It oxidises [1].",
                        "revised_evidence": [],
                    },
                    {
                        "claim_string": "Air does it.",
                        "evidence": ["https://air.example\n\nMoist air."],
                        **nulls,
                        "revised_claim": None,
                        "revised_evidence": None,
                    },
                ],
                "revised_answer_string": "It oxidises.",
                "usefulness": "Useful",
                "annotation_time": 60_000.0,
                "annotator_id": "a",
            },
            "rr_gs_gpt4": {
                "answer_string": "Air [2].",
                "attribution": ["[1] https://copper.example", "[2] p#0"],
                "claims": [
                    {
                        "claim_string": "Air [2].",
                        "evidence": ["[2] https://air.example\n\nMoist air."],
                        **nulls,
                        "revised_claim": None,
                        "revised_evidence": None,
                    }
                ],
                "revised_answer_string": None,
                "usefulness": None,
                "annotation_time": None,
                "annotator_id": None,
            },
        },
        "metadata": {
            "question_type": "Directed question that has a single unambiguous answer"
            "| Advice or suggestions on how to approach a problem",
            "field": "Chemistry",
            "specific_field": None,
        },
    }


def test_what_we_export_is_imported_with_all_its_labels():
    questions, tables = made_of_ours()
    exports = exported(questions, tables)
    (again,) = questions_of(*exports)
    assert [again[name] for name in ("question", "annotator_id", "field", "question_types")] == [
        questions[0][name] for name in ("question", "annotator_id", "field", "question_types")
    ]
    gpt4, read = released([again])
    assert [gpt4["text"], read["text"]] == ["It rusts [1].", "Air [2]."]
    labels, wrong = labels_of(gpt4, claims_of([gpt4]))
    assert wrong == []
    first, second = labels["claims"]
    given = tables["labels"][0]["claims"][0]
    assert {name: first[name] for name in given if name != "claim_id"} == {
        name: given[name] for name in given if name != "claim_id"
    }
    assert {name for name, value in second.items() if value is not None} == {"claim_id"}
    assert exported([again], {"answers": [gpt4, read]}) == exports


def test_our_answers_are_added_to_imported_ones_or_left_out():
    (question,) = questions_of(ASKED)
    answers = [*released([question]), own_answer(question, "bing_chat", "So [1].")]
    (found,) = exported([question], {"answers": answers})
    assert list(found["answers"]) == ["gpt4", "bing_chat"]
    assert found["answers"]["gpt4"] == ANSWER
    assert {**found, "answers": {"gpt4": ANSWER}} == ASKED
    assert exported([question], {"answers": answers}, only_imported=True) == [ASKED]
    assert exported([question], {"answers": [own_answer(question, "gpt4", "Not this.")]}) == [ASKED]
    own, tables = made_of_ours()
    assert exported(own, tables, only_imported=True) == []


def test_a_question_imported_without_answers_gets_ours():
    (question,) = questions_of({"question": "Why?", "answers": {}, "metadata": {"field": "Law"}})
    made = {"answers": [own_answer(question, "gpt4", "So.")]}
    (found,) = exported([question], made)
    assert found["answers"]["gpt4"]["answer_string"] == "So."
    assert exported([question], {}) == [{"question": "Why?", "answers": {}, "metadata": {"field": "Law"}}]


def estimates(question: Row, answer_id: str) -> dict[str, list[Row]]:
    def fact(number: int) -> Row:
        claim = f"{answer_id}#0"
        keys = {"fact_id": f"{claim}.{number}", "claim_id": claim, "question_id": question["question_id"]}
        return {**keys, "text": f"Fact {number}.", "position": number}

    def verdict(number: int, is_true: bool | None, *passages: str) -> Row:
        return {**fact(number), "is_true": is_true, "passages": list(passages), "model": "judge"}

    read = [
        {"passage_id": "p#0", "text": "Moist air.", "corpus": "gs"},
        {"passage_id": "p#1", "text": "Acid rain.", "corpus": "gs"},
    ]
    key = question["question_id"]
    return {
        "facts": [fact(number) for number in range(4)],
        "judged": [verdict(0, True, "p#1", "p#0"), verdict(1, False, "gone#0"), verdict(2, None)],
        "found": [
            {"fact_id": f"{answer_id}#0.{number}", "question_id": key, "passages": passages}
            for number, passages in ((0, read), (3, read[:1]))
        ],
        "attributions": [
            {"claim_id": f"{answer_id}#0", "question_id": key, "backend": "lexical-1", "attributable": True},
            {"claim_id": f"{answer_id}#1", "question_id": key, "backend": "lexical-1", "attributable": None},
        ],
    }


ESTIMATED = {
    "atomic_claims": ["Fact 0.", "Fact 1.", "Fact 2.", "Fact 3."],  # of the last no verdict could be read
    "atomic_evidences": ["Acid rain.\n\nMoist air.", "gone#0", "", "Moist air."],
    "fact_score": 0.5,
    "autoais_label": "Y",
}
UNSCORED = {"atomic_claims": [], "atomic_evidences": [], "fact_score": None, "autoais_label": None}


def test_estimates_are_in_each_claim_as_in_the_full_released_file():
    (question,) = questions_of(
        {**ASKED, "answers": {"gpt4": {**ANSWER, "claims": [{**CLAIM, "fact_score": 1.0}, CLAIM]}}}
    )
    answers = released([question])
    made = {"answers": answers, **estimates(question, answers[0]["answer_id"])}
    (found,) = exported([question], made, estimates=True)
    assert found["answers"]["gpt4"]["claims"] == [{**CLAIM, **ESTIMATED}, {**CLAIM, **UNSCORED}]


def test_estimates_that_were_released_stay_where_no_others_were_made():
    own = {**ESTIMATED, "autoais_label": "N", "fact_score": 1}
    (question,) = questions_of({**ASKED, "answers": {"gpt4": {**ANSWER, "claims": [{**CLAIM, **own}, CLAIM]}}})
    answers = released([question])
    made = estimates(question, answers[0]["answer_id"])
    unjudged = {"answers": answers, "attributions": made["attributions"]}
    (found,) = exported([question], unjudged, estimates=True)
    first, second = found["answers"]["gpt4"]["claims"]
    assert (first, second) == ({**CLAIM, **own, "autoais_label": "Y"}, {**CLAIM, "autoais_label": None})
    taken = [{**row, "backend": "released", "attributable": False} for row in made["attributions"]]
    (found,) = exported([question], {"answers": answers, "attributions": taken}, estimates=True)
    assert found["answers"]["gpt4"]["claims"] == [{**CLAIM, **own}, CLAIM]


def test_estimates_of_our_claims():
    questions, tables = made_of_ours()
    made = {**tables, **estimates(questions[0], "a_gpt4")}
    (found,) = exported(questions, made, estimates=True)
    gpt4, read = found["answers"]["gpt4"]["claims"], found["answers"]["rr_gs_gpt4"]["claims"]
    assert [{name: claim[name] for name in UNSCORED} for claim in (*gpt4, *read)] == [ESTIMATED, UNSCORED, UNSCORED]
    (plain,) = exported(questions, {**tables, **estimates(questions[0], "a_gpt4")})
    assert not UNSCORED.keys() & plain["answers"]["gpt4"]["claims"][0].keys()


def test_rows_in_another_order_are_an_error_and_no_loss():
    first, second = questions_of(ASKED, {**ASKED, "question": "How?"})
    answers = released([second, first])
    with pytest.raises(StoreError, match=r"answers of question .* are not in the order"):
        exported([first, second], {"answers": answers})


def test_a_line_is_a_line_for_every_reader():
    text = line({"a": "one\u2028two\x85three\u2029four\nfive\x0b"})
    assert len(text.decode().splitlines()) == 1
    assert text.endswith(b"\n")
    assert json.loads(text) == {"a": "one\u2028two\x85three\u2029four\nfive\x0b"}


# chats and entailment pairs


def long_form(number: int, split: str) -> Row:
    return {
        **{"row_id": f"r_{number}", "question_id": f"expertqa/{number}", "question": f"Why {number}?"},
        **{"answer": f"Because {number}.", "field": "Law", "specific_field": None, "question_types": ["I"]},
        **{"system": "gpt4", "original_answer": "So.", "revised_by": "person", "annotator_id": "a", "licence": "MIT"},
        **{"model": None, "response": None, "answer_id": "a_1", "revised_id": f"v_{number}", "split": split},
        "split_from": "hash",
        "cited_answer": f"Because {number} [1].",
        "sources": [{"number": 1, "url": "https://a.example", "title": None, "text": None}],
    }


def test_a_chat_is_a_question_and_its_revised_answer():
    rows = [long_form(1, "train"), long_form(2, "test"), long_form(3, "train")]
    found = list(chats(rows, split="train"))
    assert found[0] == {
        "messages": [{"role": "user", "content": "Why 1?"}, {"role": "assistant", "content": "Because 1."}],
        "metadata": {
            "row_id": "r_1",
            "question_id": "expertqa/1",
            "answer_id": "a_1",
            "revised_id": "v_1",
            "system": "gpt4",
            "field": "Law",
            "revised_by": "person",
            "split": "train",
            "cited_answer": "Because 1 [1].",
            "sources": [{"number": 1, "url": "https://a.example", "title": None, "text": None}],
        },
    }
    assert [one["messages"][0]["content"] for one in found] == ["Why 1?", "Why 3?"]


def published(support: str | None, evidence: list[str], urls: list[str], split: str | None = "train") -> Row:
    ids = {"claim_id": "a_1#0", "claim": "Copper turns green [1][2].", "random_split": split, "domain_split": "test"}
    return {**ids, "support": support, "evidence": evidence, "evidence_urls": urls}


@pytest.mark.parametrize(
    ("support", "evidence", "urls", "pair"),
    [
        ("Complete", ["Air."], ["https://a.example"], ("Air.", 1)),
        ("Partial", ["Air."], [""], ("Air.", 0)),
        ("Incomplete", ["Air.", "Rain."], ["https://a.example", ""], ("Air.\n\nRain.", 0)),
        ("Missing", ["Air."], [""], ("Air.", 0)),
        ("Complete", ["https://b.example", "Air."], ["https://b.example", "https://a.example"], ("Air.", 1)),
        ("Complete", ["https://b.example"], ["https://b.example"], "only the address of its evidence is known"),
        ("Complete", [""], [""], "only the address of its evidence is known"),
        ("Missing", [], [], "no evidence"),
        ("N/A", ["Air."], [""], "support N/A"),
        (None, ["Air."], [""], "nobody judged its support"),
    ],
)
def test_an_entailment_pair_needs_text_that_a_person_has_judged(support, evidence, urls, pair):
    (found,) = entailments([published(support, evidence, urls)], split="train", config="random")
    if isinstance(pair, str):
        assert found == pair
    else:
        assert found == {
            "claim": "Copper turns green.",
            "evidence": pair[0],
            "label": pair[1],
            "claim_id": "a_1#0",
        }


@pytest.mark.parametrize("claim", ["[1]", "[1] [2].", " [^3^] "])
def test_a_claim_that_is_only_a_citation_mark_is_no_pair(claim):
    row = published("Complete", ["Air."], [""]) | {"claim": claim}
    assert list(entailments([row], split="train", config="random")) == ["no word but citation marks"]


def test_pairs_are_those_of_the_questions_split():
    rows = [published("Complete", ["Air."], [""], split) for split in ("train", "test", None)]
    assert len(list(entailments(rows, split="train", config="random"))) == 1
    assert len(list(entailments(rows, split="test", config="domain"))) == 3
    assert list(entailments(rows, split="train", config="domain")) == []


# the command


@stage(RANDOM_SPLIT, revision=1, split_by="split")
def split_randomly(context: StageContext, questions: PerGroup) -> Iterator[Row]:
    for number, question in enumerate(questions):
        yield {**long_form(number, "test" if number else "train"), "question_id": question["question_id"]}


@stage(PUBLISHED_CLAIMS, revision=1, split_by="split")
def publish_claims(context: StageContext, questions: PerGroup) -> Iterator[Row]:
    nothing = {column.name: None for column in PUBLISHED_CLAIMS if column.nullable}
    for number, question in enumerate(questions):
        yield {
            **nothing,
            **{"claim_id": f"a#{number}", "answer_id": "a", "question_id": question["question_id"], "question": "Why?"},
            **{"field": "Law", "question_types": [], "system": "gpt4", "answer": "So.", "position": 0},
            **{"claim": "So [1].", "evidence": ["Air."] * (1 - number), "evidence_urls": [""] * (1 - number)},
            **{"support": "Complete", "revised_evidence": [], "atomic_claims": [], "atomic_judgements": []},
            **{"annotators": 1, "undecided": []},
            **{"random_split": "train", "domain_split": "test", "split": "all"},
            **{"random_split_from": "hash", "domain_split_from": "hash"},
        }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of two imported questions, of the stages that exports read."""
    top = tmp_path_factory.mktemp("exports")
    bank = top / "bank.jsonl"
    bank.write_text("".join(json.dumps({**ASKED, "question": text}) + "\n" for text in ("Why?", "How?")))
    home = top / "home"
    store = Store(home)
    store.prepare()
    build = Build(
        store,
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    questions = read_questions(build, open_banks([bank], digest=sha256_of), licence="MIT")
    made = [questions, split_randomly(build, questions), publish_claims(build, questions)]
    build.close()
    stages = {rows.stage: rows.fingerprint for rows in made}
    manifest = {"number": 1, "recipe": "r", "stages": stages, "splits": {}, "configs": {}, "offline": True, "files": {}}
    write_json(home / "datasets" / "expertqa" / "v1" / "manifest.json", manifest)
    return home


class Command:
    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        """Exit code, what it printed and what it complained of, in this process."""
        from flows.cli.exports import app

        try:
            app([*map(str, arguments), "--home", str(self.home)], standalone_mode=False)
            code = 0
        except LongformError as error:
            code = error.exit_code
            print(error, file=sys.stderr)
        said = self.capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def export(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(home, capsys)


def read(file: Path) -> list[Any]:
    return [json.loads(one) for one in file.read_text().splitlines()]


def test_the_command_writes_what_was_imported(export, tmp_path):
    file = tmp_path / "out.jsonl"
    code, said, _ = export("expertqa", "--format", "expertqa-jsonl", "--to", file)
    assert (code, said) == (0, f"Wrote 2 rows of expertqa v1 to {file}.\n")
    assert read(file) == [{**ASKED, "question": "Why?"}, {**ASKED, "question": "How?"}]
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    assert export("expertqa@v1", "--format", "expertqa-jsonl", "--to", file, "--split", "test", "--force")[0] == 0
    assert len(read(file)) == 1


def test_the_command_writes_chats_and_pairs(export, tmp_path):
    code, said, _ = export("expertqa", "--format", "chat-jsonl", "--to", tmp_path / "chat.jsonl", "--json")
    assert (code, json.loads(said)["rows"]) == (0, 1)
    assert [one["metadata"]["split"] for one in read(tmp_path / "chat.jsonl")] == ["train"]
    code, _, left_out = export("expertqa", "--format", "entailment-jsonl", "--to", tmp_path / "pairs.jsonl")
    assert (code, left_out) == (0, "  1 left out: no evidence\n")
    assert [(one["claim"], one["evidence"], one["label"]) for one in read(tmp_path / "pairs.jsonl")] == [
        ("So.", "Air.", 1)
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["revision-distance", "--format", "expertqa-jsonl"], '"revision-distance" has no exports'),
        (["axioms", "--format", "expertqa-jsonl"], '--format "expertqa-jsonl" is not known; there is preference-jsonl'),
        (["expertqa"], "expertqa has several exports: name one by --format; there is expertqa-jsonl, chat-jsonl"),
        (["expertqa@v9", "--format", "expertqa-jsonl"], "expertqa has no version v9"),
        (["expertqa", "--format", "csv"], '--format "csv" is not known; there is expertqa-jsonl, chat-jsonl'),
        (["expertqa", "--format", "chat-jsonl", "--split", "dev"], '--split "dev" is not known; there is train'),
        (["expertqa", "--format", "chat-jsonl", "--config", "field"], '--config "field" is not known'),
        (["expertqa", "--format", "chat-jsonl", "--config", "domain"], "has no stage split_by_field"),
        (
            ["expertqa", "--format", "chat-jsonl", "--split", "validation"],
            "nothing to export as chat-jsonl of split val",
        ),
        (
            ["expertqa", "--format", "chat-jsonl", "--estimates"],
            "--estimates goes with --format expertqa-jsonl",
        ),
        (["expertqa", "--format", "expertqa-jsonl", "--estimates"], "expertqa v1 has no estimates"),
    ],
)
def test_a_wrong_export_is_refused_in_a_sentence_and_leaves_nothing(export, tmp_path, arguments, says):
    code, said, complaint = export(*arguments, "--to", tmp_path / "out.jsonl")
    assert (code, said) == (2, "")
    assert says in complaint
    assert complaint.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_stays_unless_it_is_to_be_replaced(export, tmp_path):
    file = tmp_path / "out.jsonl"
    file.write_text("mine")
    wanted = ("expertqa", "--format", "expertqa-jsonl", "--to")
    assert export(*wanted, file)[0] == 2
    assert file.read_text() == "mine"
    assert export(*wanted, file, "--force")[0] == 0
    assert len(read(file)) == 2
    assert export(*wanted, tmp_path, "--force")[0] == 2
    assert export(*wanted, tmp_path / "no folder" / "out.jsonl")[0] == 2


def test_a_damaged_part_is_an_error_of_the_store_and_the_file_stays(export, home, tmp_path):
    (part,) = home.glob("stages/read_questions/parts/*/rows.parquet")
    whole = part.read_bytes()
    file = tmp_path / "out.jsonl"
    file.write_text("mine")
    try:
        part.write_bytes(whole[:4] + bytes(len(whole) - 8) + whole[-4:])
        code, _, complaint = export("expertqa", "--format", "expertqa-jsonl", "--to", file, "--force")
    finally:
        part.write_bytes(whole)
    assert code == 1
    assert "build again with --force read_questions" in complaint
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_the_command_line_knows_export():
    done = subprocess.run([LONGFORM, "export", "--help"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0
    assert "entailment-jsonl" in done.stdout
