"""Models of natural language inference as `transformers` loads them, made on the spot; needs the extra nli."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from longform.errors import UsageError
from longform.files import sha256_of
from tasks.metrics.entailment import MOST_TOKENS, load_nli, loaded_nli, nli_model, open_nli, premise

torch: Any = pytest.importorskip("torch", reason="the extra nli is not installed")
transformers: Any = pytest.importorskip("transformers", reason="the extra nli is not installed")

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are its own

WORDS = ["casks", "kegs", "taps", "stout", "porter", "lambics", "beer", "sour", "brown", "dark"]
NOUNS = [*WORDS, "premise", "hypothesis", ":", "1", "0"]
HOSTILE = "kegs </s> [SEP] <pad> </s> taps"


def pairs(number: int, most: int = 40) -> list[tuple[str, str]]:
    dice = random.Random(number)
    return [(" ".join(dice.choices(WORDS, k=dice.randint(1, most))), dice.choice(WORDS)) for _ in range(number)]


def tokenizer(folder: Path, *, pair: str, most: int | None = 512) -> Any:
    """Whose tokens are words; `pair` is how two texts become one."""
    import tokenizers

    names = ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]"]
    vocabulary = {word: place for place, word in enumerate(dict.fromkeys([*names, *NOUNS]))}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [(name, vocabulary[name]) for name in ("</s>", "[CLS]", "[SEP]") if name in pair]
    single = pair.replace(" $B:1 [SEP]:1", "").replace(" $B", "")
    made.post_processor = tokenizers.processors.TemplateProcessing(single=single, pair=pair, special_tokens=ends)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        **({"model_max_length": most} if most else {}),
    )
    fast.save_pretrained(folder)
    return fast


def classifier(folder: Path, labels: list[str], *, positions: int = 512, kind: str = "Bert", **more: Any) -> Path:
    """One with random weights."""
    torch.manual_seed(0)
    tokenizer(folder, pair="[CLS] $A [SEP] $B:1 [SEP]:1" if kind == "Bert" else "$A $B </s>", most=None)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=32,
        max_position_embeddings=positions,
        id2label=dict(enumerate(labels)),
        label2id={label: place for place, label in enumerate(labels)},
        pad_token_id=0,
        eos_token_id=1,
        **more,
    )
    getattr(transformers, f"{kind}ForSequenceClassification")(config).save_pretrained(folder)
    return folder


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.5,
}
THREE = ["contradiction", "Entailment", "neutral"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("bert"), THREE, **SMALL)


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 that learned to write 1 where the evidence has the claim's word, else 0."""
    folder = tmp_path_factory.mktemp("true")
    read = tokenizer(folder, pair="$A $B </s>")
    torch.manual_seed(0)
    sizes = {"d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=32, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **sizes)
    )
    steps = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(400):
        asked = pairs(1_000 + step, most=4)[:48]
        given = read([premise(*pair) for pair in asked], padding=True, return_tensors="pt")
        labels = read(["1" if claim in evidence.split() else "0" for evidence, claim in asked], return_tensors="pt")
        model(input_ids=given.input_ids, attention_mask=given.attention_mask, labels=labels.input_ids).loss.backward()
        steps.step()
        steps.zero_grad()
    model.eval().save_pretrained(folder)
    return folder


def test_a_writer_is_read_as_its_greedy_reply_is(true: Path) -> None:
    """The published way: it is asked to write, and 1 is yes."""
    read = transformers.AutoTokenizer.from_pretrained(true)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(true)
    asked = pairs(60, most=4)
    written = [
        read.decode(model.generate(**read(premise(*pair), return_tensors="pt"), max_new_tokens=10)[0], True)
        for pair in asked
    ]
    assert set(written) == {"1", "0"}
    assert [score >= 0.5 for score in load_nli(str(true)).scores(asked)] == [reply == "1" for reply in written]


def test_a_classifier_gives_the_share_of_its_label_entailment(bert: Path) -> None:
    read = transformers.AutoTokenizer.from_pretrained(bert)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(bert)
    for pair in pairs(20):
        with torch.inference_mode():
            shares = model(**read(*pair, return_tensors="pt")).logits.softmax(-1)[0]
        assert load_nli(str(bert)).scores([pair])[0] == pytest.approx(float(shares[1]), abs=2e-6)


@pytest.mark.parametrize("model", ["true", "bert"])
def test_no_order_and_no_neighbour_changes_a_score_by_more_than_its_last_decimal(
    model: str, request: pytest.FixtureRequest
) -> None:
    judge = load_nli(str(request.getfixturevalue(model)))
    asked = pairs(45, most=300)
    together = judge.scores(asked)
    assert together == judge.scores(asked)
    assert together == pytest.approx([judge.scores([pair])[0] for pair in asked], abs=1.1e-6)
    assert together == pytest.approx(judge.scores(asked[::-1])[::-1], abs=1.1e-6)


def test_a_model_stored_in_16_bits_computes_in_32(bert: Path, tmp_path: Path) -> None:
    tokenizer(tmp_path, pair="[CLS] $A [SEP] $B:1 [SEP]:1")
    half = transformers.AutoModelForSequenceClassification.from_pretrained(bert).to(torch.bfloat16)
    half.save_pretrained(tmp_path)
    judge, asked = load_nli(str(tmp_path)), pairs(45, most=300)
    assert judge.scores(asked) == pytest.approx([judge.scores([pair])[0] for pair in asked], abs=1.1e-6)


@pytest.mark.parametrize("kind", ["Bert", "Bart"])
def test_marks_of_a_tokenizer_in_a_text_are_letters(kind: str, tmp_path: Path) -> None:
    """BART refuses a batch whose texts have different numbers of `</s>`."""
    more = {"d_model": 32, **{f"{side}_{name}": 4 for side in ("encoder", "decoder") for name in ("layers", "ffn_dim")}}
    heads = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    sizes = SMALL if kind == "Bert" else {**more, **heads, "decoder_start_token_id": 1, "bos_token_id": 1}
    judge = load_nli(str(classifier(tmp_path, THREE, kind=kind, **sizes)))
    assert len(judge.scores([(HOSTILE, "kegs"), ("kegs", "kegs")])) == 2


def test_a_model_of_few_positions_is_never_given_more(tmp_path: Path) -> None:
    judge = load_nli(str(classifier(tmp_path, THREE, positions=64, **SMALL)))
    assert judge.fits("kegs " * 60, "taps")
    assert not judge.fits("kegs " * 61, "taps")
    assert len(judge.scores([("kegs " * 900, "taps " * 900)])) == 1
    assert judge.cut("kegs " * 900, "taps")[0].split() == ["kegs"] * 60


def test_512_tokens_are_read_whole_and_513_not(bert: Path) -> None:
    judge = load_nli(str(bert))
    assert judge.fits("kegs " * (MOST_TOKENS - 4), "taps")
    assert not judge.fits("kegs " * (MOST_TOKENS - 3), "taps")


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (["LABEL_0", "LABEL_1", "LABEL_2"], "labels LABEL_0, LABEL_1, LABEL_2: an entailment model has exactly one"),
        (["entailment"], "labels entailment: an entailment model has exactly one named entailment, and another"),
    ],
)
def test_a_classifier_of_something_else_is_refused_before_its_weights_are_read(
    labels: list[str], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=reason):
        open_nli(str(classifier(tmp_path, labels, **SMALL)))


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_a_part_is_refused_before_a_stage_runs(missing: str, tmp_path: Path) -> None:
    (classifier(tmp_path, THREE, **SMALL) / missing).unlink()
    if missing == "tokenizer.json":
        (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(UsageError, match="cannot be loaded"):
        open_nli(str(tmp_path))


def test_weights_that_are_damaged_or_incomplete_are_refused(bert: Path, tmp_path: Path) -> None:
    """Else transformers fills in random ones, with no more than a warning."""
    from safetensors.torch import load_file, save_file

    file = classifier(tmp_path, THREE, **SMALL) / "model.safetensors"
    weights = load_file(file)
    save_file({name: it for name, it in weights.items() if "classifier" not in name}, file, {"format": "pt"})
    with pytest.raises(UsageError, match=r"no weights for classifier\.bias, classifier\.weight"):
        load_nli(str(tmp_path))
    save_file({name: it * float("nan") for name, it in weights.items()}, file, {"format": "pt"})
    with pytest.raises(UsageError, match="gave no number"):
        load_nli(str(tmp_path)).scores([("kegs", "taps")])
    file.write_bytes(file.read_bytes()[:1_000])
    loaded_nli.cache_clear()
    with pytest.raises(UsageError, match="cannot be loaded"):
        load_nli(str(tmp_path))


def test_a_writer_that_knows_neither_reply_is_refused(true: Path, tmp_path: Path) -> None:
    for file in true.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    vocabulary = tmp_path / "tokenizer.json"
    vocabulary.write_text(vocabulary.read_text().replace('"1":', '"one":').replace('"0":', '"zero":'))
    with pytest.raises(UsageError, match="knows neither 1 nor 0"):
        open_nli(str(tmp_path))


def test_a_model_is_known_by_its_files_and_never_by_its_path(tmp_path: Path, bert: Path) -> None:
    known = nli_model(str(bert), sha256_of)
    copied = tmp_path / bert.name
    shutil.copytree(bert, copied)
    assert nli_model(str(copied), sha256_of).identity() == known.identity()
    assert str(bert) not in str(known.identity())
    with (copied / "config.json").open("a") as file:
        file.write(" ")
    assert nli_model(str(copied), sha256_of).digest != known.digest


@pytest.mark.parametrize("model", ["true", "bert"])
def test_in_16_bits_and_in_batches_scores_are_near_those_of_32_bits(model: str, request: pytest.FixtureRequest) -> None:
    place, asked = str(request.getfixturevalue(model)), pairs(40)
    exact = load_nli(place, "float32", 1).scores(asked)
    assert load_nli(place, "float32", 16).scores(asked) == pytest.approx(exact, abs=2e-6)
    rough = load_nli(place, "bfloat16", 16)
    assert rough.scores(asked) == pytest.approx(exact, abs=0.05)
    assert rough.scores(asked) == rough.scores(asked)


def test_precision_and_batch_are_part_of_a_settings_identity(bert: Path) -> None:
    one = nli_model(str(bert), sha256_of)
    others = [nli_model(str(bert), sha256_of, precision="bfloat16"), nli_model(str(bert), sha256_of, batch=8)]
    assert len({str(each.identity()) for each in [one, *others]}) == 3
