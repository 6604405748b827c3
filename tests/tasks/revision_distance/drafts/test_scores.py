"""ROUGE and BERTScore of drafts: against hand-computed values, and a package that cuts as the real one does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row
from longform.errors import UsageError
from schemas.revision_distance import CASES, DRAFTS
from tasks.metrics.bertscore import Bert, bertscore, check_bertscore, load_bertscore
from tasks.revision_distance.drafts.scores import score_drafts, scores

UTILS = """
model2layers = {"roberta-large": 17, "small-model": 5, "roberta-gone": 2}

class Tokenizer:
    cls_token_id, sep_token_id = 0, 1

    def __init__(self, model_max_length):
        self.model_max_length = model_max_length

class Network:
    def __init__(self, most_tokens):
        self.most_tokens, self.device = most_tokens, None

    def to(self, device):
        self.device = device

def get_tokenizer(model_type):
    if model_type == "roberta-gone":
        raise OSError("no such file\\nand more")
    return Tokenizer({"small-model": 10, "/models/roberta-large": 10**30}.get(model_type, 512))

def get_model(model_type, num_layers):
    assert num_layers == {"roberta-large": 17, "small-model": 5}[model_type.split("/")[-1]]
    return Network(10 if model_type == "small-model" else 512)

def sent_encode(tokenizer, sent):
    if tokenizer.model_max_length > 2**32:
        raise OverflowError("int too big to convert")
    return [0, *range(2, 2 + len(sent.split())), 1][: tokenizer.model_max_length]

def bert_cos_score_idf(model, refs, hyps, tokenizer, idf_dict, batch_size, device):
    assert (model.device, device, [idf_dict[n] for n in (0, 1, 2)]) == ("cpu", "cpu", [0, 0, 1.0])
    for text in (*hyps, *refs):
        assert 2 < len(sent_encode(tokenizer, text)) <= model.most_tokens
    both = [(set(one.split()), set(other.split())) for one, other in zip(hyps, refs)]
    return [[None, None, len(one & other) / len(one | other)] for one, other in both]
"""
FAKES = ("bert_score", "bert_score.utils", "torch")
TORCH = """
class cuda:
    def is_available():
        return False
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package bert_score whose tokens are words between two marks, cut at its limit as the real one cuts."""
    folder = tmp_path / "packages" / "bert_score"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "utils.py").write_text(UTILS)
    (folder.parent / "torch.py").write_text(TORCH)
    for name in FAKES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder.parent)
    load_bertscore.cache_clear()
    yield
    load_bertscore.cache_clear()
    for name in FAKES:
        sys.modules.pop(name, None)


def words(number: int) -> str:
    return " ".join(f"w{n}" for n in range(number))


@pytest.mark.usefixtures("package")
def test_what_the_model_cannot_read_whole_is_left_out_and_never_cut() -> None:
    bert = load_bertscore("roberta-large")
    assert (bert.most_tokens, bert.count(words(5_000))) == (512, 5_002)
    pairs = [
        ("a b c", "a b d"),
        (words(510), words(510)),
        (words(511), "a"),
        ("a", words(511)),
        (words(511), words(600)),
        (" \n", "a"),
        ("a", ""),
        ("x y", "x y"),
    ]
    assert bertscore(bert, pairs) == [
        (50.0, None),
        (100.0, None),
        (None, "draft over 512 tokens"),
        (None, "reference over 512 tokens"),
        (None, "draft and reference over 512 tokens"),
        (None, "empty draft"),
        (None, "empty reference"),
        (100.0, None),
    ]
    assert bertscore(bert, [("a", "")]) == [(None, "empty reference")], "then nothing is asked of the package"
    assert bertscore(bert, []) == []


@pytest.mark.usefixtures("package")
def test_a_model_that_reads_less_than_512_tokens_says_so() -> None:
    small = load_bertscore("small-model")
    assert bertscore(small, [(words(9), "w1"), (words(8), words(8))]) == [
        (None, "draft over 10 tokens"),
        (100.0, None),
    ]


@pytest.mark.usefixtures("package")
def test_models_are_found_by_name_or_in_a_folder_of_that_name_else_the_error_says_what_to_do() -> None:
    in_folder = load_bertscore("/models/roberta-large")
    assert in_folder.model == "/models/roberta-large"
    unlimited = "its tokenizer names no limit, as many do not"
    assert (in_folder.most_tokens, in_folder.f1([("a b", "a b")])) == (512, [1.0]), unlimited
    with pytest.raises(UsageError, match=r'no layer for the model "my-bert": .*roberta-large'):
        load_bertscore("my-bert")
    with pytest.raises(UsageError, match=r'"roberta-gone" of BERTScore cannot be loaded \(no such file\): set'):
        load_bertscore("roberta-gone")


def test_without_the_package_a_model_is_refused_before_anything_runs() -> None:
    check_bertscore(None, package="no_such_package")
    check_bertscore("roberta-large", package="json")
    with pytest.raises(
        UsageError, match=r'"roberta-large" needs the package no_such_package: install .*leave bertscore'
    ):
        check_bertscore("roberta-large", package="no_such_package")
    with pytest.raises(UsageError, match="needs the package no_such_package"):
        load_bertscore("roberta-large", package="no_such_package")


def test_what_is_no_number_is_no_score() -> None:
    broken = Bert("m", 512, lambda text: 3, lambda pairs: [float("nan"), -0.125])
    assert bertscore(broken, [("a", "b")] * 2) == [(None, "the package gave no number"), (-12.5, None)]


# ---------------------------------------------------------------- rows


REFERENCES = {"easy/1": "the tide turns twice", "easy/2": "tea is hot", "free/1": None}
TEXTS = {"easy/1": "the tide turns twice", "easy/2": "hot is tea and tea", "free/1": "anything at all"}


def drafts() -> list[Row]:
    return [{"draft_id": f"d_{case}", "case_id": case, "text": text} for case, text in TEXTS.items()]


def test_rouge_is_the_f_measure_times_100_and_null_without_a_reference() -> None:
    same, other, free = scores(drafts(), REFERENCES, None)
    assert [same[name] for name in ("rouge1", "rouge2", "rougeL")] == [100.0, 100.0, 100.0]
    # "hot is tea and tea" against "tea is hot": 3 of 5 and 3 of 3 words, no pair of words, one word in order
    assert other["rouge1"] == pytest.approx(100 * 2 * 3 / 8)
    assert other["rouge2"] == 0.0
    assert other["rougeL"] == pytest.approx(100 * 2 * 1 / 8)
    assert [free[name] for name in ("rouge1", "rouge2", "rougeL", "bertscore")] == [None] * 4
    said = [(row["bertscore"], row["bertscore_model"], row["bertscore_left_out"]) for row in (same, other, free)]
    assert said == [(None, None, "no model"), (None, None, "no model"), (None, None, "no reference")]
    assert len({row["score_id"] for row in (same, other, free)}) == 3


def test_without_a_single_reference_no_model_is_loaded() -> None:
    def load() -> Bert:
        raise AssertionError("not needed")

    assert [row["bertscore_left_out"] for row in scores(drafts()[2:], REFERENCES, load)] == ["no reference"]


@pytest.mark.usefixtures("package")
def test_the_stage_scores_every_draft_and_names_the_model(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    references = {**REFERENCES, "easy/3": words(600)}
    texts = {**TEXTS, "easy/3": "w1 w2"}
    cases = [filled(CASES, case_id=case, task=case[:4], reference=text) for case, text in references.items()]
    written = [filled(DRAFTS, draft_id=f"d_{case}", case_id=case, system="weak", text=texts[case]) for case in texts]
    given = (home.table(DRAFTS, written[:2], written[2:]), home.table(CASES, cases[:2], cases[2:]))
    found = {row["case_id"]: row for row in home.run(score_drafts, *given, bertscore="roberta-large")}
    assert {case: row["bertscore"] for case, row in found.items()} == {
        "easy/1": 100.0,
        "easy/2": 75.0,
        "free/1": None,
        "easy/3": None,
    }
    assert found["easy/2"]["bertscore_model"] == "roberta-large"
    assert found["easy/3"]["bertscore_model"] is None
    assert found["easy/3"]["bertscore_left_out"] == "reference over 512 tokens"
    assert found["easy/3"]["rouge1"] == pytest.approx(100 * 2 * 2 / 602), "ROUGE reads it whole"
    without = list(home.run(score_drafts, *given, bertscore=None))
    assert {row["bertscore_left_out"] for row in without} == {"no model", "no reference"}


@pytest.mark.filterwarnings("ignore")
def test_the_real_package_sees_that_texts_are_alike() -> None:
    if find_spec("bert_score") is None:
        pytest.skip("the package bert_score is not installed")
    try:
        bert = load_bertscore("distilbert-base-uncased")
    except UsageError as error:
        pytest.skip(str(error))
    text = "The tide turns twice a day."
    same, near, far = bertscore(bert, [(text, text), (text, "Twice a day the tide turns."), (text, "Bread is dear.")])
    assert same[0] == pytest.approx(100, abs=0.01)
    assert same[0] is not None
    assert near[0] is not None
    assert far[0] is not None
    assert same[0] > near[0] > far[0]
    assert bertscore(bert, [("tide " * 600, text)]) == [(None, "draft over 512 tokens")]
