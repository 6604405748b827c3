"""Distributions of scores: bins and means counted here in another way, and which answers are in which figure."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
from evaluation_versions import QUESTIONS, ranking_rows, write_version
from hypothesis import given
from hypothesis import strategies as st

from flows.config.prompts import PROMPTS
from longform.llm.ask.prompts import load_prompt
from longform.llm.offline import ENDPOINT
from tasks.axioms.scoring.figures import (
    CRITIQUE,
    JUDGED,
    PLAIN,
    by_kind,
    evaluation_figures,
    panel,
    people_and_models,
    scale_of,
    score_histograms,
    variants,
)
from tasks.axioms.scoring.kinds import kinds_of
from tasks.axioms.scoring.reading import sets_in
from tasks.axioms.scoring.scorers import Kind, Scorer

FILE, OTHER = Scorer("file", "one.csv"), Scorer("file", "two.csv")


def judge(kind: Kind, prompt: str) -> Scorer:
    return Scorer(kind, f"{kind} {prompt}", endpoint=ENDPOINT, prompt=load_prompt(f"axioms/{prompt}", PROMPTS))


def scored(*rows: tuple[str, str, str, float], scorer: str = FILE.name, evidence: str = "") -> pd.DataFrame:
    columns = ["set", "question_id", "answer_id", "score"]
    return pd.DataFrame(rows, columns=columns).assign(scorer=scorer, evidence=evidence)


@given(st.lists(st.integers(-500, 500).map(lambda n: n / 8), min_size=1, max_size=60))
def test_bins_and_means_are_those_of_numpy(scores: list[float]) -> None:
    found = panel("all", {"a": scores, "nobody": []}, scale_of(scores))
    low, high = min(scores), max(scores)
    edges = np.array([low + (high - low or 10) / 10 * n for n in range(11)])
    assert list(found.counts) == ["a"]
    assert sum(found.counts["a"]) == len(scores)
    assert len(found.bins) == len(found.counts["a"]) == 10
    inner = [score for score in scores if min(abs(edges - score)) > 1e-9]  # the ends of bins depend on rounding
    inside = panel("inside", {"a": inner}, scale_of(scores)).counts.get("a", [0] * 10)
    assert list(inside) == np.histogram(inner, edges)[0].tolist()
    assert edges[0] + (edges[1] - edges[0]) * (found.means["a"] + 0.5) == pytest.approx(fmean(scores), abs=1e-9)


def test_a_judges_scores_fall_into_ten_bins_whatever_there_is() -> None:
    found = panel("judge", {"a": [1.0, 10.0, 11.0, 100.0, 90.5]}, JUDGED)
    assert list(found.bins) == [f"{n}–{n + 9}" for n in range(1, 100, 10)]
    assert found.counts == {"a": [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]}
    every = panel("judge", {"a": [float(n) for n in range(1, 101)]}, JUDGED)
    assert every.counts == {"a": [10] * 10}
    assert every.means == {"a": pytest.approx(4.5)}


def test_labels_of_bins_tell_them_apart() -> None:
    for low, high in ((0.0, 1.0), (-3.2, 4.1), (1200.0, 1250.0), (5.0, 5.0), (0.0, 0.01)):
        labels = scale_of([low, high]).labels
        assert len(set(labels)) == 10, labels
        assert max(map(len, labels)) <= 6


def test_a_panel_for_each_kind_with_its_mean() -> None:
    figure = score_histograms("x", "Scores", "note", {"people": [1.0, 2.0], "model": [9.0], "nobody": []})
    assert "people: mean 1.50 of 2" in figure.svg
    assert "nobody" not in figure.svg
    assert figure.svg.count("stroke-dasharray") == 2


def test_kinds_are_those_of_the_rows(tmp_path: Path) -> None:
    ranking = ranking_rows()
    ranking[0]["answers"][0] |= {"source": "related", "negative": True}
    kinds = kinds_of(sets_in(write_version(tmp_path, ranking=ranking)))
    counted = {(str(key[0]), str(key[1])): len(own) for key, own in kinds.groupby(["set", "kind"])}
    assert counted == {
        ("stackexchange", "human"): 4 * QUESTIONS - 1,
        ("stackexchange", "hard negative"): 1,
        ("pairs", "human"): 4 * QUESTIONS,  # preferred in axioms 0 and 1, rejected in 0, two parents in 5
        ("pairs", "hard negative"): QUESTIONS,
        ("pairs", "open_book"): QUESTIONS,
        ("pairs", "closed_book"): QUESTIONS,
        ("pairs", "combined"): QUESTIONS,
    }
    assert not kinds.duplicated(["set", "question_id", "answer_id"]).any()
    assert kinds_of({}).empty


def test_generated_answers_are_held_against_human_ones_to_the_same_question() -> None:
    sources = {"h": "human", "n": "hard negative", "o": "open_book", "c": "corrupted", "i": "irrelevant_grounding"}
    known = scored(*(("pairs", "q", name, float(place)) for place, name in enumerate(sources)))
    known = pd.concat([scored(("stackexchange", "q", "h", 0.0)), known], ignore_index=True)
    known = known.assign(kind=known["answer_id"].map(sources))
    assert people_and_models(known) == {"human": [0.0], "generated": [2.0]}
    assert list(by_kind(known)) == [
        "stackexchange: human",
        *(f"pairs: {kind}" for kind in ("human", "hard negative", "open_book", "corrupted", "irrelevant_grounding")),
    ]


def test_judges_that_differ_by_critique_share_a_panel() -> None:
    asked = [("judge-listwise", "judge_listwise_plain"), ("judge-listwise", "judge_listwise"),
             ("judge-pointwise", "judge_pointwise_plain")]  # fmt: skip
    found = variants([(judge(kind, prompt), [10.0 * n + 5]) for n, (kind, prompt) in enumerate(asked)])  # type: ignore[arg-type]
    assert [(each.title, list(each.counts)) for each in found] == [
        ("listwise", [CRITIQUE, PLAIN]),
        ("pointwise", [PLAIN]),
    ]
    assert [each.counts[PLAIN].index(1) for each in found] == [0, 2]
    assert found[0].counts[CRITIQUE].index(1) == 1


def test_only_figures_with_something_to_show_are_drawn() -> None:
    kinds = pd.DataFrame([("pairs", "q", "a", "human")], columns=["set", "question_id", "answer_id", "kind"])
    one, two = scored(("pairs", "q", "a", 1.0)), scored(("pairs", "q", "a", 3.0), scorer=OTHER.name)
    both = pd.concat([one, two], ignore_index=True)
    names = [each.name for each in evaluation_figures(both, kinds, [FILE, OTHER])]
    assert names == ["scores-1", "scores-2", "side-by-side"]
    caption = evaluation_figures(both, kinds, [OTHER, FILE])[-1].note
    assert "1 is two.csv (human: mean 3.00 of 1), 2 is one.csv (human: mean 1.00 of 1)" in caption
    assert [each.name for each in evaluation_figures(both, kinds, [FILE])] == ["scores-1"]
    assert evaluation_figures(both.assign(evidence="e"), kinds, [FILE, OTHER]) == []
    assert evaluation_figures(both.assign(set="webgpt"), kinds, [FILE, OTHER]) == []
