"""What live sessions are about: the questions of a built version of kiwi, their first answers and their passages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from flows.config import configuration
from flows.kiwi import KiwiConfig
from longform.artifacts.rows import Row
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, stage_rows, versions
from longform.errors import StoreError, UsageError
from tasks.publishing.lineage import stage_rows_where

DATASET = "kiwi"


@dataclass(frozen=True)
class Study:
    """A version whose questions are read live. `config`: its endpoints, prompts and retrieval. `questions`: id -> row
    of QUESTIONS; `answers`: question id -> system -> row of ANSWERS; `readers`: reader, in lower case -> ids of the
    questions of their sessions in the version.
    """

    store: Store
    version: Version
    config: KiwiConfig
    questions: dict[str, Row] = field(default_factory=dict)
    answers: dict[str, dict[str, Row]] = field(default_factory=dict)
    readers: dict[str, set[str]] = field(default_factory=dict)

    @cached_property
    def topics(self) -> list[str]:
        """The topics of the questions that have an answer, sorted."""
        return sorted({topic for name in self.answers if (topic := self.questions[name]["topic"])})

    def read_by(self, annotator_id: str) -> set[str]:
        """The questions on which the version has a session of this reader."""
        return self.readers.get(annotator_id.casefold(), set())

    def passages(self, question_id: str) -> list[Row]:
        """The passages of a question, rows of PASSAGES."""
        return stage_rows_where(self.store, self.version, "split_passages", "question_id = ?", question_id)


def opened(home: Path, file: Path | None) -> Study | None:
    """The newest version of kiwi in a home, with the settings of a configuration file; None if there is no version with
    a first answer of one of its writers. UsageError for a wrong configuration.
    """
    config: KiwiConfig = configuration.read(DATASET, KiwiConfig, file, [])
    for version in reversed(versions(home, DATASET)):
        study = _read(Store(home), version, config)
        if study is not None:
            return study
    if file is not None:
        raise UsageError(
            f"{file} is for live sessions, but no version of kiwi in {home} has an answer of its writers "
            f"({', '.join(_writers(config))}): build it first, longform build kiwi --config {file}."
        )
    return None


def _read(store: Store, version: Version, config: KiwiConfig) -> Study | None:
    """The study of a version; None if it has no answer of a writer, or its stages are gone."""
    writers, answers = _writers(config), defaultdict[str, dict[str, Row]](dict)
    try:
        for row in stage_rows(store, version, "answer_first"):
            if row["system"] in writers:
                answers[row["question_id"]][row["system"]] = row
        questions, readers = _by_id(stage_rows(store, version, "collect_questions")), defaultdict[str, set[str]](set)
        for row in stage_rows(store, version, "collect_sessions", ["question_id", "annotator_id"]):
            readers[row["annotator_id"].casefold()].add(row["question_id"])
    except (StoreError, UsageError):
        return None
    return Study(store, version, config, questions, dict(answers), dict(readers)) if answers else None


def _by_id(rows: Iterable[Row]) -> dict[str, Row]:
    return {row["question_id"]: row for row in rows}


def _writers(config: KiwiConfig) -> list[str]:
    """The names of the endpoints that answer."""
    from flows.kiwi import writers_of

    return [writer.name for writer in writers_of(config) if writer is not None]
