"""TRL's trainers read a published version without renaming a column, and run. `make test-train` has what this needs."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from axioms_builds import build_axioms

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore")]

SPECIAL = ["<pad>", "<unk>", "<eos>", "<bos>"]
TEMPLATE = "{% for message in messages %}<bos> {{ message.role }} {{ message.content }} <eos> {% endfor %}"
LONGEST = 1_024
STEPS = 2
CPU = {
    "per_device_train_batch_size": 2,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a version built from the samples."""
    version, _, _ = build_axioms(tmp_path_factory.mktemp("home"))
    assert version
    return version.folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    for name, value in {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)


def split_of(folder: Path, config: str, split: str = "train") -> Any:
    from datasets import load_dataset

    return load_dataset(str(folder), config, split=split)


def tokenizer_of(rows: Any) -> Any:
    """A tokenizer of words, made from the texts of these rows alone."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel(unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = (str(value) for value in chain(rows["prompt"], rows["chosen"], rows["rejected"]))
    core.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=4_000, special_tokens=SPECIAL))
    names = dict(zip(("pad_token", "unk_token", "eos_token", "bos_token"), SPECIAL, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **names)
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny(kind: str, tokenizer: Any) -> Any:
    """A random model of one layer, 16 numbers wide."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2 * LONGEST,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        num_labels=1,
    )
    return getattr(transformers, kind)(config)


def trained(kind: str, rows: Any, folder: Path) -> Any:
    """A trainer of TRL after two steps on these rows: kind Reward or DPO."""
    import trl

    tokenizer = tokenizer_of(rows)
    model = {"Reward": "LlamaForSequenceClassification", "DPO": "LlamaForCausalLM"}[kind]
    reference = {"ref_model": tiny(model, tokenizer)} if kind == "DPO" else {}  # else it is looked for on the hub
    arguments = getattr(trl, f"{kind}Config")(output_dir=str(folder), max_steps=STEPS, **CPU)
    assert arguments.max_length == LONGEST, "the default that the card counts by"
    trainer = getattr(trl, f"{kind}Trainer")(
        model=tiny(model, tokenizer), args=arguments, processing_class=tokenizer, train_dataset=rows, **reference
    )
    loss = trainer.train().training_loss
    assert trainer.state.global_step == STEPS
    assert 0 < loss < 20
    return trainer


@pytest.mark.parametrize("kind", ["Reward", "DPO"])
@pytest.mark.parametrize("config", ["preference", "preference_sampled", "preference_text"])
def test_a_trainer_runs_on_the_published_folder(kind: str, config: str, published: Path, tmp_path: Path) -> None:
    rows = split_of(published, config)
    trainer = trained(kind, rows, tmp_path)
    assert len(trainer.train_dataset) > 0.99 * len(rows)


def test_the_trainer_of_reward_models_drops_the_long_rows_that_the_card_counts(published: Path, tmp_path: Path) -> None:
    rows = split_of(published, "preference")
    trainer = trained("Reward", rows, tmp_path)
    estimated = {row["pair_id"]: max(row["chosen_tokens"], row["rejected_tokens"]) for row in rows}
    dropped = estimated.keys() - {row["pair_id"] for row in trainer.train_dataset}
    assert dropped
    assert all(estimated[pair] > 0.9 * LONGEST for pair in dropped), "words and signs are fewer than tokens"
    assert dropped <= {pair for pair, tokens in estimated.items() if tokens > LONGEST}
    assert len(trained("DPO", rows, tmp_path).train_dataset) == len(rows), "which cuts texts"


def test_the_trainer_of_reward_models_reads_the_margin_and_the_evidence(published: Path, tmp_path: Path) -> None:
    rows = split_of(published, "preference")
    grounded = rows.filter(lambda row: row["axiom"] == 2)
    trainer = trained("Reward", grounded, tmp_path)
    batch = next(iter(trainer.get_train_dataloader()))
    assert batch["margin"].tolist() == [0.25] * len(batch["margin"])
    read = trainer.processing_class.decode(trainer.train_dataset[0]["chosen_ids"])
    for word in ("user", "Passage 1 :", "assistant"):
        assert word in read


def test_prompt_and_answer_do_not_run_together_in_the_plain_form(published: Path, tmp_path: Path) -> None:
    rows = split_of(published, "preference_text")
    trainer = trained("Reward", rows, tmp_path)
    first = rows[0]
    whole = trainer.processing_class(first["prompt"])["input_ids"]
    assert trainer.train_dataset[0]["chosen_ids"][: len(whole)] == whole
