"""The report of a version against pandas: labels planted by this test, figures counted from these and the files.

Nothing of the tables' own code is used: cells are read from report.html, as a reader sees them.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pandas
import paths
import pytest
from axioms_builds import Silent
from lxml import etree
from typer.testing import CliRunner

from flows.builds.building import Options, build
from flows.cli.main import app
from flows.expertqa import SAMPLES, ExpertqaConfig
from longform.artifacts.versions import Version
from longform.engine.thread_tasks import SequentialStages

RELEASED = paths.REAL_DATA / "expertqa" / "rand_val.jsonl"
SYSTEMS = ["gpt4", "bing_chat", "rr_sphere_gpt4", "rr_gs_gpt4", "post_hoc_sphere_gpt4", "post_hoc_gs_gpt4"]
TYPES = ["I", "II", "III", "IV", "V", "VI", "VII"]
USEFULNESS = ["Useful", "Partially useful", "Not useful at all"]
RATINGS = {
    "support": ["Complete", "Partial", "Incomplete", "Missing", "N/A"],
    "informativeness": ["Very relevant", "A bit relevant", "Not too important", "Uninformative"],
    "worthiness": ["Yes", "No"],
    "correctness": ["Definitely correct", "Probably correct", "Unsure", "Likely incorrect", "Definitely incorrect"],
    "reliability": ["Reliable", "Somewhat reliable", "Not reliable at all", "Missing", "N/A"],
}
CORRECT = ["Definitely correct", "Probably correct"]
UNLABELLED = {  # samples that came without anybody's labels
    "questions": str(SAMPLES / "questions.jsonl"),
    "commercial": str(SAMPLES / "bing_chat.jsonl"),
    "corpus": str(SAMPLES / "corpus.jsonl"),
    "pages": str(SAMPLES / "pages.jsonl"),
}
SIDES = {"train": 0.8, "validation": 0.1, "test": 0.1}
RESAMPLES = 400

pytestmark = pytest.mark.check

Cells = dict[str, float | str | None]


def make(home: Path, name: str, **settings: Any) -> Version:
    published, _ = build(
        "expertqa", ExpertqaConfig(**settings), Options(home, name), tasks=SequentialStages(), progress=Silent()
    )
    assert published is not None
    return published.version


# ---------------------------------------------------------------- the report as a reader sees it


def report(version: Version) -> dict[str, list[Cells]]:
    """heading -> rows of its table; a share is named after the label before it, a bound after its figure."""
    tree = etree.parse(str(version.folder / "report.html"), etree.HTMLParser(encoding="utf-8"))
    return {" ".join(table.xpath("string(preceding::h2[1])").split()): rows(table) for table in tree.iter("table")}


def rows(table: Any) -> list[Cells]:
    head, *body = ([" ".join("".join(cell.itertext()).split()) for cell in line] for line in table.iter("tr"))
    names: list[str] = []
    for name in head:
        figure = next((one for one in reversed(names) if one.endswith(", %")), "")
        names.append(f"{names[-1]} %" if name == "%" else f"{figure} {name}" if name in ("from", "to") else name)
    return [dict(zip(names, map(cell, line), strict=True)) for line in body]


def cell(text: str) -> float | str | None:
    if text == "–":
        return None
    return float(text.replace(",", "")) if re.fullmatch(r"-?[\d,]+(\.\d+)?", text) else text


def agree(found: Cells, expected: dict[str, float | None]) -> None:
    for name, value in expected.items():
        said = found[name]
        assert (said is None) == (value is None), (found, name, value)
        assert value is None or said == pytest.approx(value, abs=0.00501), (found, name, value)


def percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


# ---------------------------------------------------------------- a labelled version of the samples


@dataclass(frozen=True)
class Labelled:
    """`claims` and `answers`: one row each, with the planted labels; `second`: those of a second annotator."""

    version: Version
    tables: dict[str, list[Cells]]
    claims: pandas.DataFrame
    answers: pandas.DataFrame
    second: pandas.DataFrame
    predicted: pandas.DataFrame


def plant(sheets: Sequence[dict[str, Any]], seed: int, who: str) -> Iterator[dict[str, Any]]:
    """The sheets, filled in: drawn labels, a tenth of them left open, and every sixth sheet not handed in."""
    for number, sheet in enumerate(sheets):
        if number % 6 == 5:
            continue
        drawn = random.Random(f"{seed} {sheet['answer_id']}")
        both = random.Random(sheet["answer_id"])  # so that two annotators agree more often than by chance
        claims = [claim | {name: chosen(drawn, both, of) for name, of in RATINGS.items()} for claim in sheet["claims"]]
        revised = [claim | {"revised_claim": f"{claim['claim']} Said otherwise."} for claim in claims]
        yield sheet | {"annotator_id": who, "usefulness": chosen(drawn, both, USEFULNESS), "claims": revised}


def chosen(drawn: random.Random, both: random.Random, words: Sequence[str]) -> str | None:
    agreed = both.choices(words, weights=[5, 3, 2, 1, 1][: len(words)])[0]
    chance = drawn.random()
    return None if chance < 0.1 else agreed if chance < 0.7 else drawn.choice(words)


def write(path: Path, lines: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def flat(sheets: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """One row a claim, with the sheet's own properties beside it."""
    return pandas.DataFrame(
        {**claim, **{name: sheet[name] for name in ("answer_id", "field", "usefulness")}}
        for sheet in sheets
        for claim in sheet["claims"]
    )


def published(version: Version) -> pandas.DataFrame:
    return pandas.read_parquet(version.folder / "claims")


def plain(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Every null as None, whatever the type of its column."""
    frame = frame.astype(object)
    return frame.where(frame.notna(), None)


def long_form(version: Version, config: str) -> pandas.DataFrame:
    folder = version.folder if config == "random" else version.folder / "domain"
    read = {side: pandas.read_parquet(folder / side) for side in SIDES}
    assert all(set(rows["split"]) == {side} for side, rows in read.items())
    return pandas.concat(read.values())


def predict(version: Version) -> list[dict[str, Any]]:
    """Two models' answers to every question of both splits: the revised answer's beginning, and other words."""
    return [
        {
            "question_id": row.question_id,
            "config": config,
            "model": model,
            "zero_shot": zero,
            "text": f"{row.answer[:length]} Other words.",
        }
        for config in ("random", "domain")
        for row in long_form(version, config).itertuples()
        for model, zero, length in (("a-7b", False, 120), ("a-7b", True, 30), ("b-70b", True, 400))
    ]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    folder = tmp_path_factory.mktemp("tables")
    home = folder / "home"
    first = make(home, "v1", **UNLABELLED)
    done = CliRunner().invoke(app, ["sheets", "expertqa", "--to", str(folder / "sheets.jsonl"), "--home", str(home)])
    assert done.exit_code == 0, done.output
    sheets = [json.loads(line) for line in (folder / "sheets.jsonl").read_text(encoding="utf-8").splitlines()]
    filled, again = list(plant(sheets, 1, "first")), list(plant(sheets[::-1], 2, "second"))
    predicted = predict(first)
    version = make(
        home,
        "v2",
        **UNLABELLED,
        labels=write(folder / "first.jsonl", filled),
        second_labels=write(folder / "second.jsonl", again),
        predictions=write(folder / "predicted.jsonl", predicted),
    )
    ours = published(version).drop(columns=[*RATINGS, "usefulness", "claim", "evidence"])
    said = flat(filled).drop(columns=["answer_id", "field", "revised_claim"])
    claims = plain(ours.merge(said, on="claim_id", how="left"))
    answers = claims.drop_duplicates("answer_id")
    return Labelled(version, report(version), claims, answers, flat(again), pandas.DataFrame(predicted))


def by_system(frame: pandas.DataFrame) -> Iterator[tuple[str, pandas.DataFrame]]:
    for system in SYSTEMS:
        if (frame["system"] == system).any():
            yield system, frame[frame["system"] == system]
    yield "all", frame


def selected(table: Sequence[Cells], **of: str) -> Cells:
    [found] = [row for row in table if of.items() <= row.items()]
    return found


def test_planted_labels_are_published_as_they_were_planted(labelled: Labelled) -> None:
    said = plain(published(labelled.version)).set_index("claim_id")
    assert set(said.index) == set(labelled.claims["claim_id"])
    for name in (*RATINGS, "usefulness"):
        planted = labelled.claims.set_index("claim_id")[name].reindex(said.index)
        assert planted.notna().sum() > 40
        assert list(said[name]) == list(planted), name


# ---------------------------------------------------------------- estimates against people


SELECTIONS: dict[str, Callable[[pandas.DataFrame], Any]] = {
    "complete support": lambda claims: claims["support"] == "Complete",
    "complete support, cite-worthy": lambda claims: (claims["support"] == "Complete") & (claims["worthiness"] == "Yes"),
    "cite-worthy": lambda claims: claims["worthiness"] == "Yes",
    "all claims": lambda claims: claims["claim_id"].notna(),
}


def check_table_5(table: Sequence[Cells], claims: pandas.DataFrame) -> None:
    checked = 0
    for name, rule in SELECTIONS.items():
        for system, own in by_system(claims):
            chosen = own[rule(own)]
            scored = chosen[chosen["autoais"].notna()]
            shares = scored["autoais"].astype(float).groupby(scored["answer_id"])
            found = selected(table, system=system, **{"claims with": name})
            macro = 100 * shares.mean().mean() if len(scored) else None
            agree(found, {"macro, %": macro, "micro, %": percent(scored["autoais"].sum(), len(scored))})
            agree(found, {"claims": len(scored), "answers": len(shares), "unscored": len(chosen) - len(scored)})
            if len(shares) >= 20:
                near(found, "macro, %", [group.mean() for _, group in shares])
                checked += 1
    assert len(claims) < 500 or checked


def near(found: Cells, name: str, shares: Sequence[float]) -> None:
    """The interval against a bootstrap of our own: two percentage points and a half of difference at most."""
    draws = numpy.random.default_rng(5).choice(numpy.array(shares), (RESAMPLES * 5, len(shares))).mean(axis=1)
    for bound, value in zip(("from", "to"), numpy.percentile(draws, [2.5, 97.5]), strict=True):
        assert found[f"{name} {bound}"] == pytest.approx(100 * value, abs=2.5), (found, bound)


def check_table_6(table: Sequence[Cells], claims: pandas.DataFrame) -> None:
    people = claims[claims["support"].notna()]
    for name, chosen in {"labelled": people, "labelled, cite-worthy": people[people["worthiness"] == "Yes"]}.items():
        for system, own in by_system(chosen):
            scored = own[own["autoais"].notna()]
            says, complete = scored["autoais"].astype(bool), scored["support"] == "Complete"
            both = (says & complete).sum()
            agree(
                selected(table, claims=name, system=system),
                {
                    "precision, %": percent(both, says.sum()),
                    "recall, %": percent(both, complete.sum()),
                    "F1, %": percent(2 * both, says.sum() + complete.sum()),
                    "scored": len(scored),
                    "attributable": says.sum(),
                    "complete": complete.sum(),
                    "unscored": len(own) - len(scored),
                },
            )


def check_table_8(table: Sequence[Cells], claims: pandas.DataFrame) -> None:
    for system, own in by_system(claims):
        scored = own[own["fact_score"].notna()]
        rated = scored[scored["correctness"].isin(RATINGS["correctness"])]
        says, people = rated["fact_score"].astype(float) > 0.5, rated["correctness"].isin(CORRECT)
        agree(
            selected(table, system=system),
            {
                "F1 true, %": percent(2 * (says & people).sum(), says.sum() + people.sum()),
                "F1 false, %": percent(2 * (~says & ~people).sum(), (~says).sum() + (~people).sum()),
                "F1 overall, %": percent((says == people).sum(), len(rated)),
                "FActScore, %": 100 * scored["fact_score"].mean() if len(scored) else None,
                "labelled and scored": len(rated),
                "scored": len(scored),
                "unscored": len(own) - len(scored),
            },
        )


def test_autoais_by_system_is_the_mean_over_answers(labelled: Labelled) -> None:
    check_table_5(labelled.tables["AutoAIS (table 5)"], labelled.claims)


def test_autoais_against_people(labelled: Labelled) -> None:
    check_table_6(labelled.tables["AutoAIS against people (table 6)"], labelled.claims)


def test_factscore_against_people(labelled: Labelled) -> None:
    assert labelled.claims["fact_score"].notna().sum() > 50
    check_table_8(labelled.tables["FActScore against people (table 8)"], labelled.claims)


def test_a_claim_nothing_was_judged_of_has_no_score_and_one_judged_false_has_zero(labelled: Labelled) -> None:
    for claim in published(labelled.version).itertuples():
        judged = [value for value in claim.atomic_judgements if value is not None]
        assert len(claim.atomic_judgements) == len(claim.atomic_claims)
        if judged:
            assert claim.fact_score == pytest.approx(sum(judged) / len(judged))
        else:
            assert pandas.isna(claim.fact_score)
    assert (published(labelled.version)["fact_score"] == 0).any()


# ---------------------------------------------------------------- labels


def check_labels(tables: dict[str, list[Cells]], claims: pandas.DataFrame, answers: pandas.DataFrame) -> None:
    """Figures 5, 9 and 10, of rows with system, field, question_types and labels; null where nobody said a thing."""
    worthy = claims[claims["worthiness"] == "Yes"]
    distribution(tables["Usefulness by system (figure 5)"], answers, "usefulness", USEFULNESS, "system")
    distribution(
        tables["Support by system, cite-worthy claims (figure 5)"], worthy, "support", RATINGS["support"], "system"
    )
    distribution(tables["Support by system, all claims (figure 5)"], claims, "support", RATINGS["support"], "system")
    typed = claims.explode("question_types").rename(columns={"question_types": "question type"})
    for name, words in RATINGS.items():
        if name != "support":
            distribution(tables[f"{name.capitalize()} by system (figure 5)"], claims, name, words, "system")
        distribution(tables[f"{name.capitalize()} by field (figure 9)"], claims, name, words, "field")
        of_types = tables[f"{name.capitalize()} by question type (figure 10)"]
        distribution(of_types, typed, name, words, "question type", claims)


def distribution(
    table: Sequence[Cells],
    frame: pandas.DataFrame,
    name: str,
    words: Sequence[str],
    by: str,
    every: pandas.DataFrame | None = None,
) -> None:
    what = "answers" if name == "usefulness" else "claims"
    groups = {**dict(iter(frame.groupby(by))), "all": frame if every is None else every}
    assert {row[by] for row in table if row[f"{what} labelled"] or row["without a label"]} == set(groups)
    for group, own in groups.items():
        said = own[name].dropna()
        found = selected(table, **{by: str(group)})
        agree(found, {f"{what} labelled": len(said), "without a label": len(own) - len(said)})
        for word in words:
            number = (said == word).sum()
            agree(found, {word: number, f"{word} %": percent(number, len(said))})


def test_labels_by_system_field_and_question_type(labelled: Labelled) -> None:
    check_labels(labelled.tables, labelled.claims, labelled.answers)


def test_agreement_with_the_second_annotator(labelled: Labelled) -> None:
    """Figure 4: of what both labelled, the share alike; kappa by its definition (Cohen 1960)."""
    table = labelled.tables["Agreement with a second labelling (figure 4)"]
    claims = labelled.claims.merge(labelled.second, on="claim_id", suffixes=("", " again"))
    answers = claims.drop_duplicates("answer_id")
    compared = 0
    for name in (*RATINGS, "usefulness"):
        both = (answers if name == "usefulness" else claims)[["field", name, f"{name} again"]].dropna()
        for field, own in [("all", both), *both.groupby("field")]:
            found = selected(table, field=str(field), property=name)
            agree(found, kappa(list(own[name]), list(own[f"{name} again"])))
            compared += 1
    assert compared == len(table) > 20


def kappa(first: list[str], second: list[str]) -> dict[str, float | None]:
    pairs = len(first)
    alike = sum(a == b for a, b in zip(first, second, strict=True)) / pairs
    chance = sum(first.count(word) * second.count(word) for word in set(first)) / pairs**2
    beyond = None if chance == 1 else (alike - chance) / (1 - chance)
    return {"labelled": pairs, "agreement, %": 100 * alike, "Cohen's kappa": beyond}


# ---------------------------------------------------------------- predictions, splits


def test_rouge_of_predictions_by_its_package(labelled: Labelled) -> None:
    """Tables 9 and 14: F measures without stemming, of the test side alone, citation marks left out."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    trained = labelled.tables["Predicted answers (table 9)"]
    every = labelled.tables["Predicted answers, zero-shot ones too (table 14)"]
    for config, given in labelled.predicted.groupby("config"):
        asked = long_form(labelled.version, str(config))
        tests = asked[asked["split"] == "test"].set_index("question_id")["answer"]
        for (model, zero), own in given[given["question_id"].isin(tests.index)].groupby(["model", "zero_shot"]):
            scores = [scorer.score(bare(tests[row.question_id]), bare(row.text)) for row in own.itertuples()]
            means = {name: 100 * numpy.mean([one[name].fmeasure for one in scores]) for name in scores[0]}
            expected = {f"ROUGE-{name[5:]}": float(mean) for name, mean in means.items()}
            expected |= {"predicted": len(own), "test questions": len(tests)}
            found = selected(every, split=str(config), model=model, **{"zero-shot": "yes" if zero else "no"})
            agree(found, expected)
            if not zero:
                agree(selected(trained, split=str(config), model=model), expected)
    assert len(trained) == 2
    assert len(every) == 6


def bare(text: str) -> str:
    return re.sub(r"\s*\[\d+\]", "", text)


def check_splits(version: Version) -> None:
    """About 80/10/10 of the questions; no text on two sides; sides of claims are those of their questions."""
    for config in ("random", "domain"):
        asked = long_form(version, config)
        asked["text"] = asked["question"].map(lambda text: " ".join(text.split()).casefold())
        assert (asked.groupby("text")["split"].nunique() == 1).all()
        questions = asked.drop_duplicates("text")
        for side, share in SIDES.items():
            spread = math.sqrt(len(questions) * share * (1 - share))
            assert abs((questions["split"] == side).sum() - share * len(questions)) < 4 * spread, (config, side)
        sides = dict(zip(asked["question_id"], asked["split"], strict=True))
        for claim in plain(published(version)).itertuples():
            side = getattr(claim, f"{config}_split")
            assert side == sides.setdefault(claim.question_id, side), "one side, also without a published answer"
            assert side in {*SIDES, "overlap"}


def test_splits_of_the_samples(labelled: Labelled) -> None:
    check_splits(labelled.version)


def check_sources(version: Version) -> None:
    """attribution.parquet names every question, and every address that a published claim's evidence is from."""
    sources = pandas.read_parquet(version.folder / "attribution.parquet")
    named = set(zip(sources["question_id"], sources["url"], strict=True))
    claims = published(version)
    cited = {(row.question_id, url) for row in claims.itertuples() for url in row.evidence_urls if url}
    assert cited
    assert cited <= named
    assert set(claims["question_id"]) <= set(sources.loc[sources["kind"] == "question", "question_id"])


def test_sources_of_the_samples(labelled: Labelled) -> None:
    check_sources(labelled.version)


# ---------------------------------------------------------------- released examples


def released() -> list[dict[str, Any]]:
    if not RELEASED.exists():
        pytest.skip("the released examples are not beside the project")
    return [json.loads(line) for line in RELEASED.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The released examples with their lines in another order, in a file of another name and place."""
    lines = released()
    random.Random(1).shuffle(lines)
    folder = tmp_path_factory.mktemp("imported")
    return make(folder / "home", "v1", questions=write(folder / "släkt.jsonl", lines), systems=[], factscore="none")


def as_released() -> tuple[pandas.DataFrame, pandas.DataFrame, pandas.DataFrame]:
    """Questions, answers and claims of the file. The types are told apart by words of their own."""
    words = ["single unambiguous", "Open-ended", "Summarization", "Advice", "hypothetical", "resources", "opinion"]
    questions, answers, claims = [], [], []
    for number, line in enumerate(released()):
        said = line["metadata"]["question_type"]
        known = {
            "field": line["metadata"]["field"],
            "question_types": [key for key, word in zip(TYPES, words, strict=True) if word in said],
        }
        questions.append(known)
        for system, answer in line["answers"].items():
            known = {**known, "system": system, "answer_id": f"{number} {system}"}
            answers.append(known | {"usefulness": answer["usefulness"]})
            claims += [known | {name: claim[name] for name in RATINGS} for claim in answer["claims"]]
    return pandas.DataFrame(questions), pandas.DataFrame(answers), pandas.DataFrame(claims)


def test_released_questions_and_systems_are_counted_right(imported: Version) -> None:
    """Tables 2 and 4, and figure 8."""
    questions, answers, _ = as_released()
    tables = report(imported)
    systems = tables["Answers by system, and how many abstain (table 4)"]
    for system, number in answers["system"].value_counts().items():
        agree(selected(systems, system=str(system)), {"sampled": number, "generated": 0, "abstaining": 0})
    types = questions.explode("question_types")
    of_fields = tables["Question types by field (figure 8)"]
    for key in TYPES:
        of = types[types["question_types"] == key]
        found = selected(tables["Question types (table 2)"], type=key)
        assert found["questions"] == len(of)
        for field, own in questions.groupby("field"):
            found = selected(of_fields, field=str(field))
            agree(found, {"questions": len(own), key: (of["field"] == field).sum()})


def test_released_labels_are_counted_right(imported: Version) -> None:
    _, answers, claims = as_released()
    check_labels(report(imported), claims, answers)


def test_estimates_of_released_claims_are_counted_right(imported: Version) -> None:
    claims, tables = plain(published(imported)), report(imported)
    check_table_5(tables["AutoAIS (table 5)"], claims)
    check_table_6(tables["AutoAIS against people (table 6)"], claims)
    check_table_8(tables["FActScore against people (table 8)"], claims)


def test_splits_and_sources_of_released_examples(imported: Version) -> None:
    check_splits(imported)
    check_sources(imported)


# ---------------------------------------------------------------- a file in the released form, with all that is odd


def spelled(drawn: random.Random, word: str) -> str | None:
    return drawn.choice([word, word, word, word.lower(), f" {word} ", word.upper(), None])


def oddities(number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Records as they are released: several answers, long ones, odd spellings, nulls, estimates, unknown keys."""
    drawn = random.Random(seed)
    for at in range(number):
        question = f"How old is stone {at % (number - 5)}?"  # the last five come again
        answers = {}
        for system in drawn.sample(SYSTEMS, drawn.choice([1, 1, 2, 3])):
            claims = [
                odd_claim(drawn, f"Stone {at} of {system} is {n} years old") for n in range(drawn.choice([1, 24]))
            ]
            answers[system] = {
                "answer_string": "\n".join(claim["claim_string"] for claim in claims),
                "attribution": ["[1] https://stones.example/é"],
                "claims": claims,
                "revised_answer_string": drawn.choice([None, "", "A stone is old [1]."]),
                "usefulness": spelled(drawn, drawn.choice(USEFULNESS)),
                "annotation_time": drawn.choice([1, 2.5, None]),
                "annotator_id": "e1",
            }
        yield {
            "question": question,
            "annotator_id": f"e{at}",
            "answers": answers,
            "metadata": {
                "question_type": "Request for opinion on a topic | Summarization of information on a topic",
                "field": ["Music", "Law", "History"][at % (number - 5) % 3],
                "specific_field": drawn.choice([None, "stones"]),
                "seen": 2,
            },
        }


def odd_claim(drawn: random.Random, text: str) -> dict[str, Any]:
    others = [
        {"revised_claim_string": None, "source_reliability": None},
        {"atomic_claims": [text], "atomic_evidences": [[]], "fact_score": 0, "autoais_label": None},
        {"unknown": [12345678901234567, 1.0, {"é": None}]},
    ]
    return {
        "claim_string": f"{text} [1].",
        "evidence": drawn.choice([[], ["[1] https://stones.example/é"], [f"[1] https://stones.example/é\n\n{text}."]]),
        **{name: spelled(drawn, drawn.choice(words)) for name, words in RATINGS.items()},
        "reason_missing_support": drawn.choice([None, "", "too general \u2026"]),
        "revised_claim": drawn.choice([None, text]),
        "revised_evidence": drawn.choice([None, "", ["[1] https://stones.example/é"]]),
        **drawn.choice(others),
    }


def as_spelled(word: str | None, words: Sequence[str]) -> str | None:
    return None if word is None else next(one for one in words if one.casefold() == word.strip().casefold())


def test_a_released_file_full_of_oddities_keeps_every_label_and_comes_back_equal(tmp_path: Path) -> None:
    lines = list(oddities(40, 3))
    version = make(tmp_path / "home", "v1", questions=write(tmp_path / "odd.jsonl", lines), systems=[])
    claims = pandas.DataFrame(
        {
            **{name: as_spelled(claim[name], words) for name, words in RATINGS.items()},
            "usefulness": as_spelled(answer["usefulness"], USEFULNESS),
            "field": line["metadata"]["field"],
            "question_types": ["III", "VII"],
            "system": system,
            "answer_id": (number, system),
        }
        for number, line in enumerate(lines)
        for system, answer in line["answers"].items()
        for claim in answer["claims"]
    )
    check_labels(report(version), claims, claims.drop_duplicates("answer_id"))
    check_table_5(report(version)["AutoAIS (table 5)"], plain(published(version)))
    check_splits(version)
    check_sources(version)
    unjudged = published(version)
    assert unjudged["fact_score"].isna().all()  # there is no passage to judge them by: null, and not 0
    assert set(unjudged["atomic_claims_model"]) == {"offline-rules-1"}
    out, home = str(tmp_path / "out.jsonl"), str(tmp_path / "home")
    export = ["export", "expertqa", "--format", "expertqa-jsonl", "--to", out, "--home", home]
    done = CliRunner().invoke(app, export)
    assert done.exit_code == 0, done.output
    back = Path(out).read_text(encoding="utf-8").splitlines()
    assert [json.dumps(json.loads(line)) for line in back] == [json.dumps(line) for line in lines]
