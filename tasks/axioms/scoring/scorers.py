"""Scorers: what they are, how the command line names them, and what they give.

length                           words of the answer
bm25                             the question's words in the answer
judge:ENDPOINT                   a model that reads all answers to a question together (listwise)
judge:ENDPOINT:pointwise         a model that reads each answer alone; `:plain` asks for no critique first
encoder:FOLDER, encoder:NAME     a cross-encoder or reward model, of a folder or of the Hugging Face hub
FILE.parquet, .jsonl, .csv       scores that are there already
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from longform.artifacts.recipe import fingerprint
from longform.errors import UsageError
from longform.hints import hint
from tasks.axioms.scoring.encoders import by_encoder
from tasks.axioms.scoring.files import ENDINGS, read_scores
from tasks.axioms.scoring.groups import Group, Missing, Scored
from tasks.axioms.scoring.words import Statistics, by_bm25, by_length, count_texts
from tasks.retrieval.cross_encoder import CrossEncoderSetting, cross_encoder, has_cross_encoders

if TYPE_CHECKING:
    from longform.engine.stage import StageContext
    from longform.llm.ask.prompts import Prompt
    from longform.llm.ask.types import Endpoint

Kind = Literal["length", "bm25", "judge-listwise", "judge-pointwise", "encoder", "file"]
FORMS = "length, bm25, judge:ENDPOINT[:pointwise][:plain], encoder:FOLDER, or a file of scores"
CHARACTERS = 30_000


@dataclass(frozen=True, slots=True)
class Scorer:
    """A scorer as a setting; nothing is loaded or asked. `name`: what rows and tables call it.

    Of a judge `endpoint` and `prompt`, of an encoder `encoder`, of a file `path` and `digest`, its SHA-256. A stage
    that scores passes endpoint, prompt and encoder as arguments of its own, too, by which builds and plans know what
    is asked.
    """

    kind: Kind
    name: str
    endpoint: Endpoint | None = None
    prompt: Prompt | None = None
    encoder: CrossEncoderSetting | None = None
    path: Path | None = None
    digest: str | None = None

    @property
    def is_judge(self) -> bool:
        """Whether a model is asked."""
        return self.endpoint is not None

    def identity(self) -> str:
        """The kind, and a hash of what else determines its scores: not what it is called, nor where a file is."""
        parts = (self.endpoint, self.prompt, self.encoder)
        return f"{self.kind} {fingerprint([*(part and part.identity() for part in parts), self.digest])[:8]}"


def scorer_of(
    text: str,
    endpoints: Mapping[str, Endpoint],
    digest: Callable[[Path], str],
    prompts: Mapping[str, Prompt] | None = None,
) -> Scorer:
    """The scorer that a text names (see above). Nothing is loaded; a file of scores is read, so that its faults are
    told at once.

    `endpoints`: name -> endpoint. `digest`: the hash of a file. `prompts`: name -> prompt, those of judges.
    UsageError if the text names no scorer, or one that cannot be used here.
    """
    kind, colon, rest = text.partition(":")
    if text in ("length", "bm25"):
        return Scorer("length" if text == "length" else "bm25", text)
    if kind == "judge" and colon:
        return _judge(text, rest, endpoints, prompts or {})
    if kind == "encoder" and colon:
        return _encoder(rest, digest)
    path = Path(text)
    if path.suffix in ENDINGS:
        if not path.is_file():
            raise UsageError(f"There is no file of scores {path}: give one that is there, or {FORMS}.")
        found = digest(path)
        read_scores(path, found)
        return Scorer("file", path.name, path=path, digest=found)
    raise UsageError(f'"{text}" is no scorer: give {FORMS}.')


def _judge(text: str, rest: str, endpoints: Mapping[str, Endpoint], prompts: Mapping[str, Prompt]) -> Scorer:
    """The judge `ENDPOINT[:pointwise][:plain]`. UsageError for an unknown endpoint or word."""
    name, *words = rest.split(":")
    if wrong := [word for word in words if word not in ("listwise", "pointwise", "plain")]:
        raise UsageError(f'"{text}": a judge is not "{wrong[0]}", but listwise, pointwise or plain.')
    if name not in endpoints:
        near = hint(name, endpoints, "there is")
        raise UsageError(f'There is no endpoint "{name}" to judge; {near} Add [endpoints.{name}] to the configuration.')
    kind: Kind = "judge-pointwise" if "pointwise" in words else "judge-listwise"
    prompt = prompt_name(kind, plain="plain" in words)
    return Scorer(kind, text, endpoint=endpoints[name], prompt=prompts[prompt])


def prompt_name(kind: str, *, plain: bool = False) -> str:
    """The name of a judge's prompt, e.g. judge_listwise, judge_pointwise_plain."""
    return f"{kind.replace('-', '_')}{'_plain' if plain else ''}"


def _encoder(place: str, digest: Callable[[Path], str]) -> Scorer:
    """The cross-encoder in a folder, or of this name. UsageError if its package is not installed."""
    if not place:
        raise UsageError("encoder: names no model: give encoder:FOLDER, or encoder:NAME of the Hugging Face hub.")
    if not has_cross_encoders():
        raise UsageError(
            f'The scorer "encoder:{place}" is a model of sentence-transformers, which is not installed: install the '
            'extra with `pip install -c constraints.txt -e ".[dense]"`, or score elsewhere and give a file of scores.'
        )
    found = cross_encoder(place, digest)
    return Scorer("encoder", f"encoder:{found.name}", encoder=found)


def score_groups(
    context: StageContext,
    scorer: Scorer,
    groups: Iterable[Group],
    *,
    characters: int = CHARACTERS,
    seed: int = 0,
) -> Iterator[tuple[Group, list[float | None]]]:
    """(group, a score of each of its answers, the higher the better) for each group; None where there is none: the
    judge gave no usable reply, or a file lacks the answer. Groups that a judge cannot be asked about come last.

    BM25 takes its statistics from these groups, which it holds in memory. `characters`: of longer texts a judge reads
    the beginning. `seed`: of the order in which a listwise judge reads the answers.
    """
    for group, found in score_with_reasons(context, scorer, groups, characters=characters, seed=seed):
        yield group, [None if isinstance(each, Missing) else each for each in found]


def score_with_reasons(
    context: StageContext,
    scorer: Scorer,
    groups: Iterable[Group],
    *,
    characters: int = CHARACTERS,
    seed: int = 0,
    statistics: Statistics | None = None,
) -> Iterator[Scored]:
    """As `score_groups`, with the reason, a Missing, in place of None. `statistics`: those of BM25, if they are known;
    else of these groups.
    """
    if scorer.endpoint is not None and scorer.prompt is not None:
        from tasks.axioms.scoring.judges import by_listwise, by_pointwise

        judged = by_listwise if scorer.kind == "judge-listwise" else by_pointwise
        yield from judged(context, scorer.endpoint, scorer.prompt, groups, characters=characters, seed=seed)
    elif scorer.encoder is not None:
        yield from by_encoder(scorer.encoder, groups)
    else:
        yield from _by_rule(scorer, groups, statistics)


def _by_rule(scorer: Scorer, groups: Iterable[Group], statistics: Statistics | None) -> Iterator[Scored]:
    """(group, scores) by a scorer that needs no model."""
    if scorer.kind == "length":
        yield from ((group, by_length(group)) for group in groups)
    elif scorer.kind == "bm25":
        if statistics is None:
            groups = list(groups)
            statistics = count_texts(groups, (group.question for group in groups))
        yield from ((group, by_bm25(group, statistics)) for group in groups)
    elif scorer.path is not None and scorer.digest is not None:
        known = read_scores(scorer.path, scorer.digest)
        yield from ((group, known.of(group)) for group in groups)
