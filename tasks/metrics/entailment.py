"""Whether evidence supports a claim: by a lexical score or an NLI model, and how long evidence is shortened for either.

The lexical score needs no model and compares words only. "Not" is one word among many to it, and a paraphrase without
shared words counts as not supported. It is a baseline; rows that it scores name it.
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from longform.artifacts.recipe import fingerprint
from longform.errors import UsageError

LEXICAL = "lexical-1"
LEXICAL_THRESHOLD = 0.65  # where true less false positive rate is largest on 768 labelled claims of ExpertQA
NLI_THRESHOLD = 0.5
MOST_TOKENS = 512
BEST_SENTENCES = 2
BATCH = 16
REPLIES = ["1", "0"]  # of models that write
ENTAILING = ("entailment", "entailed", "entails", "supports", "supported")  # what models call it
UNLOADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, ImportError)
WEIGHTS = (".safetensors", ".bin")  # of files
DECIMALS = 6  # of a score: below it floating point differs from machine to machine

_WORD = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)|\d+(?:\.\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_STOP_WORDS = """
a about above after again all also although am an and any are as at be because been before being below between both
but by can could did do does doing don down during each either else etc even every few for from further had has have
having he hence her here hers him his how however i if in into is it its itself just may me might more most much must
my neither no nor not of off often on once one only or other our out over own per rather same shall she should since
so some such than that the their them then there therefore these they this those though through thus to too under
until up upon us very was we well were what when where whether which while who whom whose why will with within without
would yet you your
"""
_LOADING = threading.Lock()
_STOPPED = frozenset(_STOP_WORDS.split())
_VOWELS = frozenset("aeiouy")

Precision = Literal["float32", "bfloat16"]
Pair = tuple[str, str]  # evidence, claim
Score = Callable[[Sequence[str], str], list[float]]  # (texts, claim) -> how far each entails it, in [0, 1]
Fits = Callable[[str, str], bool]  # (evidence, claim) -> whether it can be read whole
Measure = Callable[[str, str], int]  # (evidence, claim) -> tokens of both as the model reads them


# ---------------------------------------------------------------- long evidence


class Evidence(NamedTuple):
    """The evidence as a judge reads it: `text` is all of it, or its best sentences joined; `best` has these sentences
    with their scores (0 to 1), in the order of the text, and is empty if all was read.
    """

    text: str
    best: tuple[tuple[str, float], ...] = ()


def whole_or_best_sentences(
    texts: Sequence[str], claim: str, *, sentences: Callable[[str], list[str]], fits: Fits, score: Score
) -> Evidence:
    """The texts joined by empty lines if they fit, else the BEST_SENTENCES (two) sentences of them that entail the
    claim most, joined by blanks in the order of the texts.

    `sentences`: cuts a text into sentences. `fits`: whether evidence and claim can be read whole. `score`: how far
    each sentence entails the claim. A repeated sentence counts once; of equal scores the earlier sentence is taken
    (Schuster et al. 2022; section 5.1 of ExpertQA).
    """
    whole = "\n\n".join(texts)
    if fits(whole, claim):
        return Evidence(whole)
    cut = list(dict.fromkeys(sentence for text in texts for sentence in sentences(text)))
    scores = score(cut, claim)
    places = sorted(sorted(range(len(cut)), key=lambda place: (-scores[place], place))[:BEST_SENTENCES])
    return Evidence(" ".join(cut[place] for place in places), tuple((cut[place], scores[place]) for place in places))


# ---------------------------------------------------------------- lexical


def lexical_entailment(evidence: str, claim: str) -> float:
    """Share of the claim's content words that the evidence has, in [0, 1]; 0 for a claim without a word.

    Content words are the distinct words of the claim except some 140 English stop words (if it has no others, these),
    as light stems. Numbers count as words and must be equal (1,000 is 1000, 3.5 is not 3). Case, compatibility forms of
    characters, order and repetition do not matter.
    """
    wanted = content_words(claim)
    return round(len(wanted & _stems(evidence)) / len(wanted), DECIMALS) if wanted else 0.0


@lru_cache(maxsize=64)  # a claim is compared with every sentence of its evidence
def content_words(claim: str) -> frozenset[str]:
    """The stems of the claim's words that lexical entailment looks for: without stop words, unless it has no others;
    empty for a claim without a word. Cached.
    """
    found = _words(claim)
    return frozenset(map(stem, [word for word in found if word not in _STOPPED] or found))


def lexical_scores(texts: Sequence[str], claim: str) -> list[float]:
    """The lexical entailment of the claim by each text, in [0, 1], in their order."""
    return [lexical_entailment(text, claim) for text in texts]


@lru_cache(maxsize=65_536)  # most words of a text have been in others
def stem(word: str) -> str:
    """A key by which forms of a lower-case word are compared, not always a word: without one ending of a plural, past
    or -ing form, then without the second of two equal consonants (but s) at its end, then, if more than three letters
    are left, without all final e's. Cached.

    studies, studied and studying become study; stopped stop; falling fal; housing and houses hous. Numbers, words with
    an apostrophe and words of up to three letters stay. Short words can miss: tree is tr, trees tre; use stays, used
    is us.
    """
    if len(word) <= 3 or not word.isalpha():
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        left = word.removesuffix(ending)
        if left != word and len(left) >= 2 and _VOWELS & set(left) and not word.endswith(("ss", "us", "is")):
            word = left + instead
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeious":
        word = word[:-1]
    return word.rstrip("e") if len(word) > 3 else word


def _words(text: str) -> list[str]:
    """Lower-cased words and numbers, in order, repeated ones too; possessive 's and thousands' commas are dropped."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return [word.removesuffix("'s").replace(",", "") for word in _WORD.findall(folded)]


@lru_cache(maxsize=1_024)  # the sentences of a passage are read for several claims of an answer
def _stems(evidence: str) -> frozenset[str]:
    """The stems of all words of the evidence; cached."""
    return frozenset(map(stem, _words(evidence)))


# ---------------------------------------------------------------- natural language inference


class Nli:
    """A model of natural language inference. `score` and `scores` give the probability that evidence entails a claim;
    they cut pairs of more than `most_tokens`: the claim's end to half of these, then the evidence's.

    Made from two functions: `measure(evidence, claim)` counts tokens as the model reads them, `predict(pairs)` returns
    the probabilities of a batch of pairs that fit. Pairs of one batch may be padded to one length, which moves a score
    by about 1e-7.
    """

    def __init__(
        self,
        measure: Measure,
        predict: Callable[[list[Pair]], list[float]],
        most_tokens: int = MOST_TOKENS,
        batch: int = BATCH,
    ) -> None:
        self._measure, self._predict, self._most, self._batch = measure, predict, most_tokens, batch

    def fits(self, evidence: str, claim: str) -> bool:
        """Whether evidence and claim together have at most `most_tokens`: 512, or fewer if the model can read fewer."""
        return self._measure(evidence, claim) <= self._most

    def score(self, texts: Sequence[str], claim: str) -> list[float]:
        """The probability that each text entails the claim, in [0, 1], in their order. UsageError if the model returns
        no finite number.
        """
        return self.scores([(text, claim) for text in texts])

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        """The probability of entailment for each pair (evidence, claim), in [0, 1], in their order; pairs that are too
        long are cut. UsageError if the model returns no finite number.
        """
        cut = [self.cut(*pair) for pair in pairs]
        batches = (cut[start : start + self._batch] for start in range(0, len(cut), self._batch))
        found = [score for batch in batches for score in self._predict(batch)]
        if not all(map(math.isfinite, found)):
            raise UsageError(
                "The entailment model gave no number for a claim: its weights are damaged, so choose another model."
            )
        return [round(float(score), DECIMALS) for score in found]

    def cut(self, evidence: str, claim: str) -> Pair:
        """The pair (evidence, claim) as the model reads it. If it does not fit, the claim is cut to half of
        `most_tokens`, then the evidence until the pair fits.
        """
        if self.fits(evidence, claim):
            return evidence, claim
        claim = _longest_beginning(claim, lambda text: self._measure("", text) <= self._most // 2)
        return _longest_beginning(evidence, lambda text: self._measure(text, claim) <= self._most), claim


def _longest_beginning(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of a text that fits, found by bisection; "" if none of a character or more does. `fits`
    must hold for every beginning of a text for which it holds.
    """
    if fits(text):
        return text
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(text[:middle]) else (low, middle)
    return text[:low]


@dataclass(frozen=True, slots=True)
class NliSetting:
    """An entailment model as a setting; its weights are not loaded. `place`: a folder, or a name of the Hugging Face
    hub.

    `name`: what rows call it. `digest`: hash of its files, for the hub the commit, None if unknown. `precision`:
    float32, or bfloat16, in which 11 billion parameters take 22 GB. `batch`: pairs that are read at once. All but the
    place is its identity in the recipe of a stage, as precision and batches change scores.
    """

    name: str
    place: str
    digest: str | None
    precision: Precision = "float32"
    batch: int = 1
    one_process: ClassVar[bool] = True  # workers would load it once each

    def identity(self) -> dict[str, Any]:
        """Name, digest, precision and batch, as they stand in the recipe of a stage."""
        return {"name": self.name, "digest": self.digest, "precision": self.precision, "batch": self.batch}


def nli_model(
    place: str, digest: Callable[[Path], str], *, precision: Precision = "float32", batch: int = 1
) -> NliSetting:
    """The model as a setting; all but its weights is opened as a check. UsageError if it, or a package it needs, is
    missing, or it is no entailment model.

    `place`: a folder, or a name of the Hugging Face hub. `digest`: the hash of a file. A folder's model is called by
    the folder's name.
    """
    folder = Path(place)
    if not folder.is_dir():
        return NliSetting(place, place, getattr(open_nli(place).config, "_commit_hash", None), precision, batch)
    open_nli(place)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    known = fingerprint([[path.name, digest(path)] for path in files])
    return NliSetting(folder.resolve().name, place, known, precision, batch)


class Opened(NamedTuple):
    """The parts of a Hugging Face model that can be read before its weights. `writes`: the model writes 1 or 0, as T5
    of the TRUE kind does; else it classifies. `most_tokens`: how many it can read, at most MOST_TOKENS.
    """

    config: Any
    tokenizer: Any
    writes: bool  # 1 or 0, as T5 of the TRUE kind does; else it classifies
    most_tokens: int


@cache
def open_nli(model: str) -> Opened:
    """The configuration and tokenizer of a model, a name of the hub or a folder; cached. UsageError if it cannot be
    opened, is no entailment model, a folder has no weights, or a package is missing.

    A text with `</s>` or `[SEP]` in it means these letters: by default a tokenizer would end the evidence there.
    """
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise UsageError(
                f'The entailment model "{model}" needs the package {package}: install the extra with '
                '`pip install -c constraints.txt -e ".[nli]"`, or set the backend to lexical or model.'
            )
    transformers = import_module("transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(model)
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, split_special_tokens=True)
    except UNLOADABLE as error:
        raise _unloadable(model, error) from None
    if Path(model).is_dir() and not any(each.suffix in WEIGHTS for each in Path(model).iterdir()):
        raise _unloadable(model, OSError("the folder holds no weights"))
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise _unloadable(model, OSError("it has no tokenizer"))
    classifies = any(name.endswith("ForSequenceClassification") for name in config.architectures or ())
    writes = config.is_encoder_decoder and not classifies
    if not writes:
        entailment_index(model, config.id2label)
    elif len({tuple(reply) for reply in tokenizer(REPLIES).input_ids}) == 1:
        raise _unloadable(model, ValueError("its tokenizer knows neither 1 nor 0"))
    positions = getattr(config, "max_position_embeddings", None) or MOST_TOKENS
    return Opened(config, tokenizer, writes, min(MOST_TOKENS, tokenizer.model_max_length, positions))


def load_nli(model: str, precision: Precision = "float32", batch: int = BATCH) -> Nli:
    """The loaded entailment model, a name of the hub or a folder, as `loaded_nli` returns it; under a lock, so that
    threads load a model only once. UsageError if it cannot be loaded or is no entailment model.
    """
    with _LOADING:
        return loaded_nli(model, precision, batch)


@cache
def loaded_nli(model: str, precision: Precision = "float32", batch: int = BATCH) -> Nli:
    """The loaded model, a name of the hub or a folder: a sequence classifier, or a model that writes 1 or 0 (as T5
    TRUE). Cached; where the package accelerate is installed it is spread over graphics cards, memory and disk as they
    hold it (`device_map="auto"`), else it is on a graphics card if there is one.

    It computes in this precision, however it was stored: in bfloat16, batches change scores in the second decimal.
    UsageError if a package is missing, or the model cannot be loaded, lacks weights, or is of neither kind.
    """
    opened = open_nli(model)
    torch, transformers = import_module("torch"), import_module("transformers")
    kind = transformers.AutoModelForSeq2SeqLM if opened.writes else transformers.AutoModelForSequenceClassification
    try:
        spread = {"device_map": "auto"} if find_spec("accelerate") and torch.cuda.is_available() else {}
        chosen = getattr(torch, precision)
        loaded, report = kind.from_pretrained(model, dtype=chosen, output_loading_info=True, **spread)
    except (*UNLOADABLE, import_module("safetensors").SafetensorError) as error:
        raise _unloadable(model, error) from None
    if report["missing_keys"]:
        named = ", ".join(sorted(report["missing_keys"])[:3])
        raise _unloadable(model, OSError(f"its files hold no weights for {named}"))
    ready = (loaded if spread else loaded.to("cuda" if torch.cuda.is_available() else "cpu")).eval()
    return (_writer if opened.writes else _classifier)(torch, opened, ready, batch)


def _unloadable(model: str, error: Exception) -> UsageError:
    """The UsageError that says why a model cannot be loaded: the first line of `error`, at most 200 characters."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return UsageError(
        f'The entailment model "{model}" cannot be loaded ({reason}): give a folder that holds it, '
        "or set the backend to lexical or model."
    )


def premise(evidence: str, claim: str) -> str:
    """The input of models of the TRUE kind (Honovich et al. 2022) for a pair: "premise: <evidence> hypothesis:
    <claim>".
    """
    return f"premise: {evidence} hypothesis: {claim}"


def _writer(torch: Any, opened: Opened, model: Any, batch: int) -> Nli:
    """An Nli of a model that writes 1 or 0: the probability of the reply 1, given that it is one of the two. `torch`:
    the module; `model`: the loaded one.
    """
    tokenizer = opened.tokenizer
    replies = tokenizer(REPLIES).input_ids

    def predict(pairs: list[Pair]) -> list[float]:
        read = tokenizer([premise(*pair) for pair in pairs], padding=True, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            encoded = model.get_encoder()(input_ids=read.input_ids, attention_mask=read.attention_mask)
            yes, no = (_log_likelihood(torch, model, encoded, read.attention_mask, reply) for reply in replies)
        return list((yes - no).double().sigmoid().tolist())

    return Nli(
        lambda *pair: len(tokenizer(premise(*pair), verbose=False).input_ids), predict, opened.most_tokens, batch
    )


def _log_likelihood(torch: Any, model: Any, encoded: Any, mask: Any, reply: list[int]) -> Any:
    """The log-likelihood of the same reply to each of the encoded texts, a tensor with a number for each. `encoded`,
    `mask`: the encoder's output and its attention mask. `reply`: token ids.
    """
    labels = torch.tensor([reply] * mask.shape[0], device=mask.device)
    logits = model(encoder_outputs=encoded, attention_mask=mask, labels=labels).logits
    return logits.float().log_softmax(-1).gather(2, labels.unsqueeze(-1)).squeeze(-1).sum(1)


def _classifier(torch: Any, opened: Opened, model: Any, batch: int) -> Nli:
    """An Nli of a sequence classifier: the probability of its label for entailment among all its labels. UsageError if
    it has no such label. `torch`: the module; `model`: the loaded one.
    """
    tokenizer, place = opened.tokenizer, entailment_index(opened.config.name_or_path, opened.config.id2label)

    def predict(pairs: list[Pair]) -> list[float]:
        texts, claims = (list(side) for side in zip(*pairs, strict=True))
        read = tokenizer(texts, claims, padding=True, return_tensors="pt").to(model.device)
        with torch.inference_mode():
            shares = model(**read).logits.float().softmax(-1)
        return [float(share) for share in shares[:, place].tolist()]

    return Nli(lambda *pair: len(tokenizer(*pair, verbose=False).input_ids), predict, opened.most_tokens, batch)


def entailment_index(name: str, labels: dict[int, str]) -> int:
    """The index of the one label of a classifier that means entailment (one of ENTAILING, case aside). UsageError if
    none does, several do, or it is the only label.

    `name`: the model, in the error. `labels`: index -> label.
    """
    places = [place for place, label in labels.items() if str(label).strip().lower() in ENTAILING]
    if len(places) != 1 or len(labels) < 2:
        raise UsageError(
            f'The model "{name}" has the labels {", ".join(map(str, labels.values()))}: an entailment model has '
            "exactly one named entailment, and another for what is not entailed, so choose another."
        )
    return places[0]
