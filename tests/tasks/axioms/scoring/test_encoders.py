"""Cross-encoders as scorers, against a package of the same name that only counts words."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from longform.errors import UsageError
from longform.files import sha256_of
from tasks.axioms.scoring.encoders import QUESTION_TOKENS, by_encoder
from tasks.axioms.scoring.groups import Group
from tasks.axioms.scoring.scorers import scorer_of
from tasks.retrieval import cross_encoder
from tasks.retrieval.cross_encoder import MOST_TOKENS, load_cross_encoder

PACKAGE = '''
"""Scores 10 words of the first text and 0.1 of the second more; tokens are words."""
import re
from pathlib import Path

LOADED = []


class Read(dict):
    input_ids = property(lambda self: self["input_ids"])


class Tokenizer:
    def __init__(self, fast):
        self.is_fast, self.model_max_length = fast, 512 if fast else int(1e30)

    def __call__(self, text, add_special_tokens=True, return_offsets_mapping=False, verbose=True):
        words = list(re.finditer(r"\\S+", text))
        return Read(input_ids=[word[0] for word in words], offset_mapping=[word.span() for word in words])

    def decode(self, ids):
        return " ".join(ids)


class CrossEncoder:
    def __init__(self, place):
        kind = (Path(place) / "kind.txt").read_text()
        if kind == "broken":
            raise OSError("no weights here")
        self.kind, self.max_length, self.tokenizer = kind, None, Tokenizer(kind != "slow")
        LOADED.append(self)

    def predict(self, pairs, activation_fn, show_progress_bar):
        self.pairs = pairs
        found = [10.0 * len(one.split()) + 0.1 * len(other.split()) for one, other in pairs]
        if self.kind == "nan":
            found[0] = float("nan")
        return [[activation_fn(one)] * (3 if self.kind == "three" else 1) for one in found]
'''
TORCH = "class nn:\n    class Identity:\n        def __call__(self, value):\n            return value\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside stand-ins for sentence_transformers and torch, which are imported from it."""
    for name in ("sentence_transformers", "torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text(PACKAGE if name == "sentence_transformers" else TORCH)
    monkeypatch.syspath_prepend(tmp_path)
    cross_encoder._loaded.cache_clear()
    yield tmp_path
    cross_encoder._loaded.cache_clear()
    for name in ("sentence_transformers", "torch"):
        sys.modules.pop(name, None)


def encoder(folder: Path, kind: str = "fast") -> Path:
    place = folder / f"model-{kind}"
    place.mkdir()
    (place / "kind.txt").write_text(kind)
    return place


def test_scores_are_what_the_model_gives_before_any_activation(folder: Path) -> None:
    scorer = scorer_of(f"encoder:{encoder(folder)}", {}, sha256_of)
    assert scorer.encoder is not None
    assert scorer.name == "encoder:model-fast"
    groups = [Group("q", "one two", (), [("a", "x"), ("b", "x y z")]), Group("r", "one", (), [("c", "")])]
    found = {group.key: scores for group, scores in by_encoder(scorer.encoder, groups)}
    assert found == {"q": [20.1, 20.3], "r": [10.0]}
    (loaded,) = sys.modules["sentence_transformers"].LOADED
    assert loaded.max_length == 512
    assert load_cross_encoder(scorer.encoder.place)([("", "x")]) == [round(1 / (1 + math.exp(-0.1)), 6)]


@pytest.mark.parametrize("kind", ["fast", "slow"])
def test_questions_are_cut_and_passages_follow_them_whole(folder: Path, kind: str) -> None:
    scorer = scorer_of(f"encoder:{encoder(folder, kind)}", {}, sha256_of)
    assert scorer.encoder is not None
    question = " ".join(f"w{number}" for number in range(400))
    list(by_encoder(scorer.encoder, [Group("q", question, ("Said so.", "And so."), [("a", "An answer.")])]))
    (loaded,) = sys.modules["sentence_transformers"].LOADED
    assert loaded.max_length == (512 if kind == "fast" else MOST_TOKENS)
    ((first, second),) = loaded.pairs
    kept, *passages = first.split("\n\n")
    assert kept.split() == question.split()[:QUESTION_TOKENS]
    assert passages == ["Passage 1:\nSaid so.", "Passage 2:\nAnd so."]
    assert second == "An answer."


def test_other_weights_are_another_scorer(folder: Path) -> None:
    place = encoder(folder)
    before = scorer_of(f"encoder:{place}", {}, sha256_of).identity()
    (place / "kind.txt").write_text("fast ")
    assert scorer_of(f"encoder:{place}", {}, sha256_of).identity() != before


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("broken", "cannot be loaded .no weights here"), ("three", "gives 3 scores"), ("nan", "gave no number")],
)
def test_a_model_that_gives_no_single_number_is_refused(folder: Path, kind: str, sentence: str) -> None:
    scorer = scorer_of(f"encoder:{encoder(folder, kind)}", {}, sha256_of)
    assert scorer.encoder is not None
    with pytest.raises(UsageError, match=sentence):
        list(by_encoder(scorer.encoder, [Group("q", "Q", (), [("a", "A")])]))
