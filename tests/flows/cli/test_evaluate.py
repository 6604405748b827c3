"""`longform evaluate axioms`: what it prints and writes, refuses, plans, leaves out, and asks only once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from bad_models import REFUSALS, drawn, said
from endpoint_server import Server, Verdict, server
from evaluation_versions import QUESTIONS, pair_rows, ranking_rows, write_version
from typer.testing import CliRunner

from flows.cli.main import app
from flows.config.prompts import PROMPTS
from longform.errors import BudgetError, EndpointError, GateError, SourceError, UsageError
from longform.llm.ask.prompts import load_prompt

__all__ = ["server"]

JUDGES = ("judge_listwise", "judge_pointwise", "judge_listwise_plain", "judge_pointwise_plain")
GROUPS_OF_RANKING = 3 * QUESTIONS
DIFFERENT_ANSWERS = 4 * QUESTIONS  # the sets have the same questions and answers


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_version(tmp_path / "home")
    return tmp_path / "home"


def invoked(home: Path, *words: str) -> Any:
    result = CliRunner().invoke(app, ["evaluate", "axioms", "--home", str(home), *words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def evaluated(home: Path, *words: str) -> dict[str, Any]:
    return dict(json.loads(invoked(home, "--json", *words).stdout))


def asking(home: Path, server: Server, **endpoint: object) -> list[str]:
    """The words by which the server is the endpoint `mine`, which answers judges' prompts by the offline rules."""
    names = {load_prompt(f"axioms/{name}", PROMPTS).system.strip(): f"axioms/{name}" for name in JUDGES}
    server.tasks |= names
    fields = {"base_url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "m", **endpoint}
    lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
    path = home.parent / "mine.toml"
    path.write_text("\n".join(["[endpoints.mine]", *lines, "price = { input = 1.0, output = 2.0 }", ""]))
    return ["--config", str(path)]


def values(found: dict[str, Any], scorer: str, metric: str) -> dict[tuple[str, str], float]:
    rows = found["metrics"]
    return {
        (row["set"], row["subset"]): row["value"]
        for row in rows
        if row["scorer"] == scorer and row["metric"] == metric and row["against"] is None
    }


def test_length_finds_the_best_answers_where_these_are_the_longest(home: Path) -> None:
    found = evaluated(home, "--scorer", "length", "--scorer", "bm25")
    for metric in ("MRR", "NDCG"):
        assert values(found, "length", metric) == dict.fromkeys(
            [("stackexchange", "all"), ("eli5", "all"), ("eli5", "reddit.com/r/a"), ("eli5", "reddit.com/r/b")], 100.0
        )
    assert values(found, "length", "accuracy")["people", "all"] == pytest.approx(100 * 2 / 3)
    assert found["absent"] == {"msmarco": "ranking"}
    against = [row for row in found["metrics"] if row["against"]]
    assert {(row["scorer"], row["against"]) for row in against} == {("bm25", "length")}


def test_tables_show_the_papers_rows_of_the_same_sets(home: Path) -> None:
    lines = invoked(home, "--scorer", "length").stdout.splitlines()
    assert any(line.split() == ["paper:", "length", "15.0", "35.4"] for line in lines)
    assert any(line.split() == ["paper:", "length", "56.7"] for line in lines)
    assert any(line.split()[:2] == ["msmarco:", "nothing"] for line in lines)
    assert max(map(len, lines)) <= 100


def test_what_is_written_is_read_as_scores_again_and_gives_the_same_figures(home: Path, tmp_path: Path) -> None:
    first = evaluated(home, "--scorer", "judge:offline", "--to", str(tmp_path / "one"))
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == [
        "figures",
        "metrics.parquet",
        "report.html",
        "scores.parquet",
    ]
    again = evaluated(home, "--scorer", str(tmp_path / "one" / "scores.parquet"), "--to", str(tmp_path / "two"))
    assert again["left_out"] == []
    for one, other in zip(first["metrics"], again["metrics"], strict=True):
        assert {**one, "scorer": ""} == {**other, "scorer": ""}
    evaluated(home, "--scorer", "judge:offline", "--to", str(tmp_path / "three"))
    for name in ("scores.parquet", "figures/scores-1.svg", "report.html"):
        assert (tmp_path / "three" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    metrics = pq.read_table(tmp_path / "one" / "metrics.parquet").to_pylist()
    assert [row["value"] for row in metrics] == [row["value"] for row in first["metrics"]]
    page = (tmp_path / "one" / "report.html").read_text()
    assert "GPT-4 listwise" in page
    assert "Offline model." in page
    with pytest.raises(UsageError, match=r"scores\.parquet is there already"):
        evaluated(home, "--scorer", "length", "--to", str(tmp_path / "one"))


def test_the_figures_are_in_the_report_and_beside_it(home: Path, tmp_path: Path) -> None:
    files = []
    for name, sign in (("constant", 1), ("critic", -1)):
        rows = [("set,question_id,answer_id,score")]
        for row in pair_rows():
            for side in ("preferred", "rejected"):
                rows.append(f"pairs,{row['question_id']},{row[f'{side}_id']},{sign * len(row[side])}")
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("\n".join([*dict.fromkeys(rows), ""]))
    judges = ("judge:offline", "judge:offline:plain", "judge:offline:pointwise")
    scorers = ("length", *map(str, files), *judges)
    words = [word for scorer in scorers for word in ("--scorer", scorer)]
    evaluated(home, *words, "--to", str(tmp_path / "to"))
    drawn = {path.stem: texts(path) for path in (tmp_path / "to" / "figures").iterdir()}
    assert set(drawn) == {*(f"scores-{n}" for n in range(1, 7)), "side-by-side", "judge-variants"}
    kinds = {text.partition(": mean")[0] for text in drawn["scores-1"] if ": mean" in text}
    of_pairs = ("human", "hard negative", "open_book", "closed_book", "combined")
    assert kinds == {"stackexchange: human", *(f"pairs: {kind}" for kind in of_pairs)}
    assert [text for text in drawn["side-by-side"] if text[1:2] == ":"] == ["1: constant.csv", "2: critic.csv"]
    assert {"listwise", "pointwise", "critique first", "without critique"} <= set(drawn["judge-variants"])
    page = (tmp_path / "to" / "report.html").read_text()
    assert page.count("<svg") == len(drawn)
    people = {(row["question_id"], row["preferred_id"]): row["preferred"] for row in pair_rows() if row["axiom"] < 2}
    people |= {
        (row["question_id"], row["rejected_id"]): row["rejected"] for row in pair_rows() if row["axiom"] in (0, 5)
    }
    mean = sum(map(len, people.values())) / len(people)
    assert f"1 is constant.csv (human: mean {mean:.1f} of {len(people)}; generated: mean" in page
    assert f"2 is critic.csv (human: mean {-mean:.1f} of {len(people)}; generated: mean" in page
    for scorer in ("length", "constant.csv", "critic.csv", *judges):
        assert f"Scores by kind of answer: {scorer}</h2>" in page
    (tmp_path / "again" / "figures").mkdir(parents=True)
    with pytest.raises(UsageError, match="figures is there already"):
        evaluated(home, "--scorer", "length", "--to", str(tmp_path / "again"))
    evaluated(home, "--scorer", "length", "--sets", "eli5,webgpt", "--to", str(tmp_path / "none"))
    assert not (tmp_path / "none" / "figures").exists()


def texts(svg: Path) -> list[str]:
    return [node.text or "" for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_a_constant_scorer_is_as_good_as_chance_and_missing_answers_are_told(home: Path, tmp_path: Path) -> None:
    answers = [(row["question_id"], each["answer_id"]) for row in ranking_rows() for each in row["answers"]]
    rows = [{"question_id": question, "answer_id": answer, "score": 1} for question, answer in answers]
    missing = [row for row in rows if row["answer_id"] != "tea.example/0-1"]
    unknown = [{"question_id": "nobody", "answer_id": "asked", "score": 1}]
    path = tmp_path / "constant.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in [*missing, *unknown]))
    found = evaluated(home, "--scorer", str(path), "--sets", "stackexchange,eli5")
    by_chance = 100 * (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4
    assert values(found, "constant.jsonl", "MRR")["stackexchange", "all"] == pytest.approx(by_chance, abs=1e-9)
    assert [row["left_out"] for row in found["metrics"] if row["set"] == "stackexchange"] == [1, 1]
    told = {(row["set"], row["reason"]): row["number"] for row in found["left_out"]}
    assert told == {
        ("stackexchange", "no score in the file"): 1,
        ("", "in the file, not asked for (e.g. nobody asked)"): 1,
    }
    empty = tmp_path / "empty.csv"
    empty.write_text("question_id,answer_id,score\nnobody,asked,1\n")
    with pytest.raises(SourceError, match=r"No answer has a score: empty.csv: \d+ of eli5 no score in the file"):
        evaluated(home, "--scorer", str(empty))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scorer", "gpt"], '"gpt" is no scorer: give length, bm25, judge:'),
        (["--scorer", "judge:gpt"], r"Add \[endpoints.gpt\]"),
        (["--scorer", "length", "--sets", "eli"], 'There is no set "eli" to score; did you mean'),
        (["--scorer", "length", "--sets", "msmarco"], "has no row of msmarco; it has the sets stackexchange, eli5"),
        (["--scorer", "length", "--version", "v9"], "axioms has no version v9"),
        (["--scorer", "length", "--set", "neighbours=3"], "--set neighbours: an evaluation has no such setting"),
        (["--scorer", "length", "--set", "modle=x"], 'no setting "modle"; did you mean "mode"'),
        (["--scorer", "length", "--set", "stages.score_answers.model=x"], "--scorer judge:ENDPOINT says who judges"),
        (["--scorer", "length", "--max-cost", "-1"], "no amount of US dollars"),
    ],
)
def test_wrong_words_are_refused_with_what_is_right(words: list[str], sentence: str, home: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        evaluated(home, *words)


def test_other_datasets_and_homes_without_a_version_are_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["evaluate", "kiwi", "--scorer", "length", "--home", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert "axioms has" in str(result.exception)
    with pytest.raises(UsageError, match="axioms has no version"):
        evaluated(tmp_path, "--scorer", "length")


def test_a_version_is_named_either_way(home: Path) -> None:
    write_version(home, name="v0", comparisons=[])
    for words in (["axioms@v0"], ["axioms", "--version", "v0"], ["axioms@v0", "--version", "v0"]):
        command = ["evaluate", *words, "--home", str(home), "--scorer", "length", "--sets", "webgpt"]
        assert "axioms v0 has no row of webgpt" in str(CliRunner().invoke(app, command).exception)
    command = ["evaluate", "axioms@v0", "--version", "v1", "--home", str(home), "--scorer", "length"]
    assert "name two versions" in str(CliRunner().invoke(app, command).exception)


def test_two_files_of_one_name_are_refused(home: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "s.csv").write_text("question_id,answer_id,score\nq,a,1\n")
    with pytest.raises(UsageError, match=r'2 scorers are called "s\.csv"'):
        evaluated(home, "--scorer", str(tmp_path / "a" / "s.csv"), "--scorer", str(tmp_path / "b" / "s.csv"))


def test_the_price_is_told_first_and_nothing_is_asked_without_consent(home: Path, server: Server) -> None:
    words = [*asking(home, server), "--sets", "stackexchange,eli5", "--scorer", "length"]
    planned = json.loads(invoked(home, *words, "--scorer", "judge:mine", "--plan", "--json").stdout)
    (asked,) = [stage for stage in planned["stages"] if stage["endpoint"] == "mine"]
    assert asked["calls"] == GROUPS_OF_RANKING
    assert asked["usd_high"] > 0
    one_by_one = json.loads(invoked(home, *words, "--scorer", "judge:mine:pointwise", "--plan", "--json").stdout)
    assert one_by_one["total"]["calls"] == DIFFERENT_ANSWERS
    with pytest.raises(UsageError, match="Nothing was asked"):
        evaluated(home, *words, "--scorer", "judge:mine")
    assert not server.bodies


def test_no_reply_is_bought_twice_whatever_is_added(home: Path, server: Server) -> None:
    words = [*asking(home, server), "--yes", "--sets", "eli5,stackexchange"]
    first = evaluated(home, *words, "--scorer", "judge:mine", "--limit", "1")
    assert len(server.bodies) == 2
    assert values(first, "judge:mine", "MRR").keys() == {("stackexchange", "all"), ("eli5", "all")}
    evaluated(home, *words, "--scorer", "judge:mine")
    assert len(server.bodies) == GROUPS_OF_RANKING
    found = evaluated(home, *words, "--scorer", "length", "--scorer", "judge:mine", "--scorer", "judge:mine:pointwise")
    assert len(server.bodies) == GROUPS_OF_RANKING + DIFFERENT_ANSWERS
    assert set(server.bodies.values()) == {1}
    assert values(found, "judge:mine:pointwise", "NDCG").keys() == values(found, "length", "NDCG").keys()
    (gate,) = {line.partition(":")[0] for line in found["gates"]} or {"score_answers"}
    assert gate == "score_answers"


def refusing(server: Server, share: float) -> None:
    """Have the server decline this share of the questions."""

    def fails(body: dict[str, Any]) -> Verdict | None:
        return said(REFUSALS["refusal-en"]) if drawn(body["messages"][1]["content"], share) else None

    server.fails = fails


def test_a_judge_that_refuses_ends_the_command_unless_that_is_accepted(home: Path, server: Server) -> None:
    refusing(server, 1.0)
    words = [*asking(home, server), "--yes", "--scorer", "judge:mine:pointwise", "--sets", "stackexchange,eli5"]
    with pytest.raises(GateError, match=r"score_answers: .* replies decline") as caught:
        evaluated(home, *words, "--scorer", "length")
    assert caught.value.exit_code == 7
    found = evaluated(home, *words, "--scorer", "length", "--accept", "score_answers")
    assert set(server.bodies.values()) == {1}
    told = {(row["scorer"], row["set"], row["reason"]): row["number"] for row in found["left_out"]}
    assert told == {
        ("judge:mine:pointwise", "eli5", "model: refusal"): 8 * QUESTIONS,
        ("judge:mine:pointwise", "stackexchange", "model: refusal"): 4 * QUESTIONS,
    }
    assert {row["scorer"] for row in found["metrics"]} == {"length"}
    with pytest.raises(SourceError, match="No answer has a score"):
        evaluated(home, *words, "--accept", "score_answers")


def test_a_question_with_a_refused_answer_is_left_out_and_counted(home: Path, server: Server) -> None:
    refusing(server, 0.08)
    words = [*asking(home, server), "--yes", "--scorer", "judge:mine:pointwise", "--accept", "score_answers"]
    found = evaluated(home, *words, "--sets", "eli5")
    (refused,) = found["left_out"]
    assert 0 < refused["number"] < 8 * QUESTIONS
    (row,) = [row for row in found["metrics"] if (row["metric"], row["subset"]) == ("MRR", "all")]
    assert 0 < row["left_out"] <= refused["number"]
    assert row["n"] + row["left_out"] == 2 * QUESTIONS


def test_a_limit_of_cost_and_a_missing_key_end_the_command(home: Path, server: Server) -> None:
    words = [*asking(home, server), "--yes", "--sets", "eli5", "--scorer", "judge:mine"]
    with pytest.raises(BudgetError):
        evaluated(home, *words, "--max-cost", "0.0001")
    words = [*asking(home, server, key_env="NO_SUCH_KEY_IS_SET"), "--yes", "--sets", "eli5", "--scorer", "judge:mine"]
    with pytest.raises(EndpointError, match="The key NO_SUCH_KEY_IS_SET"):
        evaluated(home, *words)
    assert not server.bodies
    assert json.loads(invoked(home, *words, "--plan", "--json").stdout)["total"]["calls"] == 2 * QUESTIONS


def test_a_judge_is_not_shown_which_answer_is_preferred(home: Path, server: Server) -> None:
    words = [*asking(home, server), "--yes", "--scorer", "judge:mine", "--sets", "pairs,webgpt,people"]
    evaluated(home, *words)
    firsts = []
    for raw in server.bodies:
        prompt = json.loads(raw)["messages"][-1]["content"]
        assert not any(word in prompt for word in ("preferred", "rejected", "closed_book", "human5"))
        if "is not fermented" in prompt and "Paint" in prompt:
            firsts.append(prompt.index("is not fermented") < prompt.index("Paint"))
    assert len(firsts) == QUESTIONS
    assert len(pair_rows()) > QUESTIONS


def test_scores_of_a_listwise_judge_are_those_of_its_answers_whatever_their_order(home: Path, tmp_path: Path) -> None:
    """The offline judge scores an answer by its own words, alone or beside others."""
    scorers = ["judge:offline", "judge:offline:pointwise", "judge:offline:plain", "judge:offline:pointwise:plain"]
    evaluated(home, *[word for name in scorers for word in ("--scorer", name)], "--to", str(tmp_path / "to"))
    rows = pq.read_table(tmp_path / "to" / "scores.parquet").to_pylist()
    by_answer: dict[tuple[str, ...], set[float]] = {}
    for row in rows:
        key = (row["set"], row["question_id"], row["answer_id"], row["evidence"])
        by_answer.setdefault(key, set()).add(row["score"])
    assert all(len(scores) == 1 for scores in by_answer.values())
    assert len({score for scores in by_answer.values() for score in scores}) > 5


def test_what_is_too_long_or_too_much_for_one_call_is_left_out_and_told(home: Path, server: Server) -> None:
    many = [row for row in ranking_rows(1) if row["set"] == "stackexchange"]
    answers = [many[0]["answers"][0] | {"answer_id": f"a{n}", "gain": float(n)} for n in range(101)]
    big = home.parent / "big"
    write_version(big, ranking=[many[0] | {"answers": answers}], judged=False)
    words = [*asking(big, server), "--yes", "--scorer", "judge:mine", "--scorer", "length"]
    found = evaluated(big, *words, "--sets", "stackexchange")
    (row,) = found["left_out"]
    assert (row["reason"], row["number"]) == ("more than 100 answers to read at once", 101)
    assert not server.bodies
    for judge, window in (("judge:mine", 900), ("judge:mine:pointwise:plain", 500)):
        words = [*asking(home, server, window=window), "--yes", "--scorer", judge, "--scorer", "length"]
        found = evaluated(home, *words, "--sets", "eli5")
        told = {(row["scorer"], row["reason"], row["number"]) for row in found["left_out"]}
        assert told == {(judge, "longer than the endpoint's window", 8 * QUESTIONS)}
    assert not server.bodies
