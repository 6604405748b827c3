"""What training starts from: a model of the Hugging Face hub or a folder, or a small encoder of random weights.

A transformer of random weights learns slowly that two tokens are equal, and only for those it was shown. So in the
first layer of random:<size> queries and keys start as one random projection, by which equal tokens attend to each other
(after Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", 2023), and rather to those of the other
text than to themselves: a token is told from the first step whether the other text has it, also a token that training
never shows. The later layers start with almost even attention, so that the first token reads them all. Every weight is
random and is trained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from longform.errors import UsageError
from longform.hints import hint

RANDOM = "random:"
SIZES = {
    "tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 1, "vocabulary": 8_000},
    "small": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 2, "vocabulary": 16_000},
}
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
OF_PLACES = 0.1  # size of the vectors of positions beside those of tokens
SHARPNESS = 1.5  # of the attention to equal tokens
EVEN = 0.02  # size of queries and keys whose attention is almost even
OF_HEAD = 0.25  # so that scores at first differ by less than a margin
UNLOADABLE = (OSError, ValueError, KeyError, ImportError, RuntimeError)


def size_of(backbone: str) -> str | None:
    """The size that random:<size> names; None for a model that is loaded. UsageError for an unknown size."""
    if not backbone.startswith(RANDOM):
        return None
    size = backbone.removeprefix(RANDOM)
    if size not in SIZES:
        raise UsageError(f'There is no backbone "{backbone}"; {hint(size, SIZES, "sizes of random: are")}')
    return size


def load(backbone: str, *, texts: Iterable[str], max_tokens: int, seed: int) -> tuple[Any, Any, int]:
    """(the model with a head of one score, its tokenizer, the tokens it can read: at most `max_tokens`).

    `texts`: those of the training pairs, of which the tokenizer of random:<size> is made. The head, and all weights of
    random:<size>, are drawn by the seed. UsageError if the backbone cannot be loaded.
    """
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(seed)
    if size := size_of(backbone):
        tokenizer = tokenizer_of(texts, int(SIZES[size]["vocabulary"]))
        model = random_encoder(size, tokenizer, max_tokens)
    else:
        model, tokenizer = _loaded(backbone)
    most = min(max_tokens, _positions(model) or max_tokens)
    tokenizer.model_max_length = most
    tokenizer.init_kwargs["split_special_tokens"] = True  # so that it is saved: a mark such as [SEP] in a text is text
    model.config.sentence_transformers = {"activation_fn": "torch.nn.modules.linear.Identity"}
    return model, tokenizer, most


def _loaded(backbone: str) -> tuple[Any, Any]:
    """(model, tokenizer) of a folder or of the hub."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(backbone)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            backbone, num_labels=1, dtype=torch.float32
        )
    except UNLOADABLE as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f'The backbone "{backbone}" cannot be loaded ({reason}): give a folder that holds a model and its '
            "tokenizer, a name of the Hugging Face hub, or random:tiny."
        ) from None
    if not tokenizer.is_fast:
        raise UsageError(f'The backbone "{backbone}" has no fast tokenizer, which the cap of questions needs.')
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


def _positions(model: Any) -> int | None:
    """The most tokens that a model with positions of its own can read; None if it has no such bound."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is None:
        return None
    offset = 2 if model.config.model_type in ("roberta", "xlm-roberta", "camembert") else 0  # which begin at 2
    return int(most) - offset


def tokenizer_of(texts: Iterable[str], vocabulary: int) -> Any:
    """A tokenizer of byte pairs within words, in lower case, made of these texts: equal texts give the same one. (That
    of WordPiece numbers its pieces in another order each time.)
    """
    core = Tokenizer(models.BPE(unk_token=SPECIAL["unk_token"]))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = list(SPECIAL.values())
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, min_frequency=2, special_tokens=special, show_progress=False)
    core.train_from_iterator(texts, trainer)
    cls, sep = (SPECIAL[name] for name in ("cls_token", "sep_token"))
    core.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(name, core.token_to_id(name)) for name in (cls, sep)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, model_input_names=["input_ids", "token_type_ids", "attention_mask"], **SPECIAL
    )


def random_encoder(size: str, tokenizer: Any, max_tokens: int) -> Any:
    """A BERT of this size with random weights, by torch's generator."""
    sizes = SIZES[size]
    width = sizes["hidden_size"]
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=max_tokens,
        intermediate_size=4 * width,
        hidden_dropout_prob=0.0,  # its noise would be larger than what the first steps have to find
        attention_probs_dropout_prob=0.0,
        initializer_range=width**-0.5,
        num_labels=1,
        pad_token_id=tokenizer.pad_token_id,
        **{name: value for name, value in sizes.items() if name != "vocabulary"},
    )
    model = transformers.BertForSequenceClassification(config)
    first, *later = model.bert.encoder.layer
    embeddings = model.bert.embeddings
    with torch.no_grad():
        embeddings.position_embeddings.weight.mul_(OF_PLACES)
        _match_equal_tokens(first.attention.self, embeddings.token_type_embeddings.weight)
        for layer in later:
            for each in (layer.attention.self.query, layer.attention.self.key):
                each.weight.mul_(EVEN * width**0.5)
        model.classifier.weight.mul_(OF_HEAD)
    return model


def _match_equal_tokens(attention: Any, of_texts: torch.Tensor) -> None:
    """Let queries and keys of each head be one random projection whose rows are orthonormal, so that a token's own
    vector is the one with which its product is greatest, but for the direction in which the two texts differ, which
    queries have the other way round. `of_texts`: the vectors of the two texts, (2, width of the model).
    """
    heads = attention.num_attention_heads
    width = attention.query.weight.shape[1]
    direction = of_texts[0] - of_texts[1]
    direction = direction / direction.norm()
    for rows in torch.arange(width).chunk(heads):
        projection = torch.nn.init.orthogonal_(torch.empty(len(rows), width))
        turned = SHARPNESS * projection - 2 * torch.outer(projection @ direction, direction)
        attention.query.weight[rows] = turned
        attention.key.weight[rows] = projection
