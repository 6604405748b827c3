"""A task: a kind of writing on which feedback is given. It is data, a folder:

introductions/
    task.toml          what a text is called, who gives feedback, examples for the judges, where texts come from
    guidelines/*.md    guideline documents, whose sections are aspects; or instead
    criteria.jsonl     criteria, and perhaps demonstrations, of somebody else, in the released layout
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from longform.errors import UsageError

RESERVED = {
    *["feedback", "critiques", "aspects", "criteria", "demonstrations", "texts", "checks", "judgements", "figures"]
}
FILE, GUIDELINES, CRITERIA = "task.toml", "guidelines", "criteria.jsonl"
NAME = r"^[a-z][a-z0-9_]{0,39}$"
FIELDS_OF = {
    "papers": {"section", "strata"},
    "commits": {"language", "least_lines"},
    "posts": {"subreddits", "tags", "most_popular"},
    "files": set[str](),
}

Word = Annotated[str, Field(min_length=1)]


class _Data(BaseModel):
    """Base of what a task's file holds: immutable, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Judged(_Data):
    """A worked judgement, shown to the judge of critiques as an example."""

    text: Word
    feedback: Word
    criterion: Word
    reasoning: Word
    extraction: str
    critique: Literal["yes", "no"]
    helpful: Literal["yes", "no"]

    def shown(self) -> list[str]:
        """The texts of the example as the prompt has them: text, feedback, criterion, and the judgement in lines."""
        answers = [f"extraction: {self.extraction or 'nothing'}", f"critique: {self.critique}"]
        return [
            self.text,
            self.feedback,
            self.criterion,
            "\n".join([self.reasoning, *answers, f"helpful: {self.helpful}"]),
        ]


class Texts(_Data):
    """Where the texts of a task come from. `source`: papers (a section of them), commits (files of CommitPackFT), posts
    (of Reddit) or files (JSON lines or plain texts of your own). `paths`: from the task's folder. `strata`: groups of
    decisions on papers, drawn in equal numbers.
    """

    source: Literal["papers", "commits", "posts", "files"]
    paths: list[Word]
    section: Literal["introduction", "related_work"] = "introduction"
    strata: list[list[str]] = []
    language: str = "Python"
    least_lines: int = Field(30, ge=1)
    subreddits: list[str] = []
    tags: list[str] = []
    most_popular: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def fits_its_source(self) -> Texts:
        """The settings unchanged; ValueError for one that has no effect with this source."""
        known = FIELDS_OF[self.source] | {"source", "paths"}
        if idle := sorted(self.model_fields_set - known):
            raise ValueError(f"{', '.join(idle)} has no effect with source = {self.source}: leave it out")
        return self


class WritingTask(_Data):
    """A task as its folder describes it. `kinds`: of the demonstrations of each aspect, one each (1 violates every
    criterion, 2 meets at least some, 3 violates some, 4 meets all or stays as it is). `mixed`: what feedback counts as
    that belongs to the text only in part. `unhelpful`: grounds on which a critique does not help.
    """

    name: str = Field(pattern=NAME)
    folder: Path
    noun: Word = "text"
    role: Word = "an experienced editor of such texts"
    kinds: list[Annotated[int, Field(ge=1, le=4)]] = [1, 2, 3, 4]
    mixed: Literal["match", "not match"] = "match"
    unhelpful: list[Word] = [
        "It repeats a general rule and does not say what to do in this text.",
        "It speaks of things that are not in this text, or is wrong about it.",
        "It is vague: it does not say where, or what exactly is to be changed.",
        "It names nothing that the writer could do.",
    ]
    specific: list[Word] = [
        "The second paragraph explains the method before it says what the problem is.",
        "The text meets this point: “three of ten visitors” tells how often it happens.",
    ]
    not_specific: list[Word] = [
        "Good texts say early what they are about.",
        "Writers should check names and numbers before they publish.",
    ]
    texts: Texts
    judged: list[Judged] = []

    @property
    def guidelines(self) -> list[Path]:
        """The folder of its guideline documents; [] if it has criteria of somebody else instead."""
        return [] if self.criteria else [self.folder / GUIDELINES]

    @property
    def criteria(self) -> list[Path]:
        """The file of criteria of somebody else; [] if there is none."""
        return [self.folder / CRITERIA] if (self.folder / CRITERIA).is_file() else []

    @property
    def paths(self) -> list[Path]:
        """Where its texts are."""
        return [self.folder / path for path in self.texts.paths]


def load_task(folder: Path) -> WritingTask:
    """The task that a folder describes, by the folder's name unless its file has a `name`. UsageError if its file is
    missing or wrong, or if there is neither a guideline nor a file of criteria.
    """
    file = folder / FILE
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        if "folder" in told:
            raise UsageError(f"{file}: folder: a task is where its file is; leave it out.")
        task = WritingTask(**{"name": folder.resolve().name, **told, "folder": folder})
    except OSError as error:
        raise UsageError(
            f"The task {folder} has no readable {FILE} ({error.strerror}): name a folder that has one."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no TOML ({error}): mend it.") from None
    except ValidationError as error:
        raise UsageError(f"{file}: {_first(error)}.") from None
    if not task.criteria and not (folder / GUIDELINES).is_dir():
        raise UsageError(f"The task {folder} has neither {GUIDELINES}/ nor {CRITERIA}: add one of the two.")
    return task


def load_tasks(folders: list[str]) -> list[WritingTask]:
    """The tasks of these folders, in their order. UsageError as by `load_task`, and for two of one name."""
    tasks = [load_task(Path(folder)) for folder in folders]
    names = [task.name for task in tasks]
    if taken := RESERVED.intersection(names):
        raise UsageError(f'A task cannot have the name "{min(taken)}", which a table has: give it another `name`.')
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f'Two tasks have the name "{twice[0]}": give one of them another `name` in its {FILE}.')
    return tasks


def _first(error: ValidationError) -> str:
    """The first thing that is wrong, as `texts.source: …`."""
    found: Any = error.errors()[0]
    place = ".".join(map(str, found["loc"]))
    return f"{place}: {found['msg'].removeprefix('Value error, ')}".removeprefix(": ")
