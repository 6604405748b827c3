"""Revisions that live sessions ask for, through the model layer: stored, priced, and never bought twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flows.kiwi import OFFLINE, embedding_of, prompts, writers_of
from flows.page.live.study import Study
from longform.artifacts.rows import Row
from longform.errors import LongformError
from longform.llm.ask.types import Answer, Endpoint, Request
from longform.llm.models import Models
from longform.settings import responses
from tasks.answers import made_by
from tasks.kiwi.interaction import INFORMATION, as_shown, revision, summary
from tasks.kiwi.retrieval import SHOWN, embedder, searching

STAGE = "live"
FAILED = "The model gave no usable answer to this. Ask again, or in other words; nothing of your session is lost."

GONE = "The model of this session is not served here any more: finish it, or tell your administrator. Nothing is lost."


class Unwritten(LongformError):
    """Raised where no model gave a usable reply; the message is for the reader."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a turn took: billionths of a US dollar (0 where a price is unknown), and calls."""

    nano: int
    calls: int


class Writing:
    """Writes the revisions of a study's sessions. For threads; `close` ends it.

    Replies are kept in `<home>/page/responses.sqlite`, as a build writes to the home's own file; in PostgreSQL, if the
    responses are there.
    """

    def __init__(self, study: Study) -> None:
        home, where = study.store.home, responses(study.store.home)
        place = home / "page" / "responses.sqlite" if isinstance(where, Path) else where
        self._study, self._prompts = study, prompts(study.config)
        self._writers = {each.name: each for each in writers_of(study.config) if each is not None}
        self._embedding = embedding_of(study.config)
        self._models = Models(place, dataset="kiwi", run="page", offline=OFFLINE, home=home)

    def close(self) -> None:
        """End all calls and close the response store."""
        self._models.close()

    def embed(self, endpoint: Endpoint, texts: list[str]) -> list[list[float]]:
        """Vectors of texts, by an endpoint."""
        return self._models.client(endpoint, stage=STAGE).embed(texts)

    def written(self, system: str, question: Row, turn: Row) -> tuple[Row, Cost]:
        """(passages, summary, answer and MADE_BY of a turn; what it took). `turn`: kind, instruction, before and
        references. Unwritten without a usable reply, and where the configuration has this writer no more; other errors
        as of `Client.ask`.
        """
        if system not in self._writers:
            raise Unwritten(GONE)
        writer, keys, found, passages = self._writers[system], list[str](), None, list[Row]()
        texts = question["question"], turn["before"], turn["instruction"]
        if turn["kind"] == INFORMATION:
            passages = self._nearest(question["question_id"], turn["instruction"])
            request = summary(writer, self._prompts["summarise"], *texts, passages, turn["references"])
            found = self._asked(writer, request, keys).value
        prompt, request = revision(writer, self._prompts, *texts, found)
        answer = self._asked(writer, request, keys)
        written = {"passages": as_shown(passages), "summary": found, "answer": answer.value}
        return {**written, **made_by(answer, writer, prompt)}, self._cost(keys)

    def _nearest(self, question_id: str, query: str) -> list[Row]:
        config = self._study.config
        search = searching(config.retrieval, self._study.passages(question_id), embedder(self, self._embedding))
        return search(query, SHOWN)

    def _asked(self, writer: Endpoint, request: Request, keys: list[str]) -> Answer:
        def note(used: Iterable[str]) -> None:
            keys.extend(used)

        ((_, reply),) = self._models.client(writer, stage=STAGE, note=note).ask([(None, request)])
        if not isinstance(reply, Answer):
            raise Unwritten(FAILED)
        return reply

    def _cost(self, keys: list[str]) -> Cost:
        """What the responses with these keys cost when they were bought."""
        stored = self._models.store.get(keys) if keys else {}
        return Cost(sum(record.cost_nano or 0 for record in stored.values()), len(keys))
