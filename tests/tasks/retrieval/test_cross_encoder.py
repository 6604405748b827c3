"""Cross-encoders, made on the spot with random weights; needs the extra dense."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms

from longform.artifacts.store import Store
from longform.artifacts.versions import artifact
from longform.errors import UsageError
from longform.files import sha256_of
from tasks.retrieval.cross_encoder import cross_encoder, load_cross_encoder

sentence_transformers: Any = pytest.importorskip("sentence_transformers", reason="the extra dense is not installed")
transformers: Any = pytest.importorskip("transformers", reason="the extra dense is not installed")
torch: Any = pytest.importorskip("torch", reason="the extra dense is not installed")

pytestmark = [pytest.mark.check, pytest.mark.filterwarnings("default")]  # those of transformers are its own

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAIRS = [
    ("how long does beer keep", "six weeks"),
    ("a", "b"),
    ("beer " * 900, "weeks " * 900),
    ("cold beer", "warm tea"),
]


def encoder(folder: Path, *, labels: int = 1, seed: int = 0) -> Path:
    """A cross-encoder whose tokens are letters."""
    torch.manual_seed(seed)
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=2.0,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_scores_are_the_sigmoid_of_what_the_model_gives(tmp_path: Path) -> None:
    place = encoder(tmp_path / "encoder")
    model = transformers.BertForSequenceClassification.from_pretrained(place).eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(place)
    scores = load_cross_encoder(str(place))(PAIRS)
    for pair, score in zip(PAIRS, scores, strict=True):
        with torch.inference_mode():
            read = tokenizer(*pair, truncation=True, max_length=64, return_tensors="pt")
            logit = float(model(**read).logits[0, 0])
        assert score == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-5)
    assert len(set(scores)) == len(PAIRS)


def test_a_model_with_several_labels_or_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gives 3 scores for a pair of texts: choose a cross-encoder"):
        load_cross_encoder(str(encoder(tmp_path / "three", labels=3)))(PAIRS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r'cross-encoder ".*empty" cannot be loaded'):
        load_cross_encoder(str(tmp_path / "empty"))


def test_other_weights_are_another_judge_and_another_folder_is_the_same(tmp_path: Path) -> None:
    one = cross_encoder(str(encoder(tmp_path / "encoder")), sha256_of)
    other = cross_encoder(str(encoder(tmp_path / "other", seed=1)), sha256_of)
    (tmp_path / "moved").mkdir()
    moved = cross_encoder(str(shutil.copytree(one.place, tmp_path / "moved" / "encoder")), sha256_of)
    assert one.identity() == moved.identity()
    assert one.digest != other.digest


def test_a_build_leaves_out_what_scores_above_the_bound(tmp_path: Path) -> None:
    place = str(encoder(tmp_path / "encoder"))
    version, _, _ = build_axioms(tmp_path / "home", negatives_judge=place, negatives_answer_above=0.6)
    assert version is not None
    store = Store(tmp_path / "home")
    rows = {
        stage: [
            row
            for part in artifact(store, version, stage).parts
            if part.rows
            for row in pq.read_table(store.rows_path(part)).to_pylist()
        ]
        for stage in ("judge_negatives", "pair_with_related", "find_related", "scrub_posts")
    }
    posts = {row["post_id"]: row for row in rows["scrub_posts"]}
    verdicts = {(row["question_id"], row["answer_id"]): row for row in rows["judge_negatives"]}
    assert len(verdicts) == sum(len(row["negatives"]) for row in rows["find_related"])
    assert {row["answers"] for row in verdicts.values()} == {True, False}
    for row in verdicts.values():
        assert row["answers"] == (row["score"] > 0.6)
        assert (row["model"], row["endpoint"], row["response"], row["prompt"]) == ("encoder", None, None, None)
    some = list(verdicts)[:50]
    texts = [(f"{posts[q]['title']}\n\n{posts[q]['text']}", posts[a]["text"]) for q, a in some]
    again = load_cross_encoder(place)(texts)
    assert [verdicts[pair]["score"] for pair in some] == pytest.approx(again, abs=1e-5)
    paired = {(row["question_id"], row["rejected_id"]) for row in rows["pair_with_related"]}
    assert paired == {pair for pair, row in verdicts.items() if not row["answers"]}
