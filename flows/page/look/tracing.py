"""One published row with everything that it was made from: as `longform trace` tells it, and the rows, calls and
sources themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flows.inspection.tracing import rows_behind, trace_row
from flows.page.look.answers import check_answers
from flows.page.look.catalogue import check_keys
from flows.page.look.tables import readable, rows_named, table_of, taking_turns
from flows.registry import DATASETS, stages_of
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.errors import LongformError
from longform.llm.offline import MODEL
from longform.llm.price import NANO
from longform.llm.responses.records import REPLY, Record
from longform.llm.responses.store import open_responses
from longform.llm.send.bodies import read_completion
from longform.settings import responses
from tasks.publishing.lineage import built_by, published_row

Row = dict[str, Any]

KEY = re.compile(r"[0-9a-f]{64}")
MOST_SOURCES, MOST_CALLS, MOST_NAMES = 40, 40, 400


@dataclass(frozen=True, slots=True)
class Call:
    """A model call: `messages`, (role, text) as sent, and the `reply`; both empty if it is not stored, for which
    `missing` gives the reason.
    """

    key: str
    made: str
    prompt: str = ""
    model: str = ""
    endpoint: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    reply: str = ""
    failed: bool = False
    served: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    batch: bool = False
    created: datetime | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Traced:
    """A row and what it came from. `lines`: (title, text) as `longform trace` prints them; `behind`: (title, row) of
    the stages' rows; `sources`: rows of attribution.parquet; `problems`: why some of this is not known.
    """

    config: str
    row: Row
    lines: list[tuple[str, str]]
    behind: list[tuple[str, Row]]
    calls: list[Call]
    sources: list[Row]
    problems: list[str]


def traced(store: Store, version: Version, row_id: str) -> Traced:
    """The row with this id, or the only one whose id begins with it, and its trace. UsageError if there is none;
    StoreError if a file of the version is damaged. What cannot be told beyond the row becomes a problem.
    """
    name = f"{version.dataset} {version.name}"
    with taking_turns(), readable(name):
        check_keys(version)
        config, row = published_row(version, row_id)
        key = str(row[version.key(config)])
        problems: list[str] = []
        found: dict[str, Any] = {}
        if version.dataset in DATASETS:
            with _noting(problems), readable(name):
                check_answers(store.home)
                found = trace_row(store, version, key)
        else:
            problems.append(f"This release has no dataset {version.dataset}, so it cannot follow a row further back.")
        behind = list(_rows_in(found))
        with _noting(problems), readable(name):
            behind += _further(store, version, row, behind)
        lines = [(str(title), str(text)) for title, text in found.get("lines", [])] or _built(store, version, problems)
    sources: list[Row] = []
    calls: list[Call] = []
    with _noting(problems):
        check_answers(store.home)
        calls = _calls(store, [row, *(each for _, each in behind)])
    with _noting(problems):
        sources = _sources(store, version, [row, *(each for _, each in behind)])
    return Traced(config, row, lines, behind, calls, sources, problems)


@contextmanager
def _noting(problems: list[str]) -> Iterator[None]:
    """A context in which an error becomes a problem, once. Versions of other releases lack columns and stages."""
    try:
        yield
    except LongformError as error:
        said = str(error)
    except (LookupError, AttributeError, TypeError, ValueError, StopIteration) as error:
        said = f"This release does not understand all rows of the version ({type(error).__name__}: {error})."
    else:
        return
    if said not in problems:
        problems.append(said)


def _built(store: Store, version: Version, problems: list[str]) -> list[tuple[str, str]]:
    """The stages of the version as one line, for a row that cannot be traced; [] if their records are gone."""
    with _noting(problems):
        return [("built by", " <- ".join(built_by(store, version, [*version.stages][-1])))] if version.stages else []
    return []


def _rows_in(found: dict[str, Any]) -> Iterator[tuple[str, Row]]:
    """(title, row) of the rows of stages in what a dataset's own trace returns, but for the published row."""
    for name, value in found.items():
        if name in ("calls", "stages", "lines", "row", "pair", "config"):
            continue
        for number, row in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(row, dict) and row:
                several = f" {number + 1}" if isinstance(value, list) and len(value) > 1 else ""
                yield str(row.get("stage") or f"{name}{several}"), row


def _further(store: Store, version: Version, row: Row, behind: Sequence[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """(stage, row) of stages' rows that the row names, without those in `behind`; none of a dataset that this release
    does not know.
    """
    if version.dataset not in DATASETS:
        return
    there = {title for title, each in behind if each.get("stage")}
    if "key" in {name for _, each in behind for name in each}:  # they were found in this way
        return
    for each in rows_behind(store, version, row, stages_of(version.dataset)):
        if each["stage"] not in there:
            yield each["stage"], each


def _calls(store: Store, rows: Sequence[Row]) -> list[Call]:
    """The model calls that rows name, in their order, at most MOST_CALLS."""
    made: dict[str, tuple[str, Row]] = {}
    for row in rows:
        for name, value in row.items():
            if (name == "response" or name.endswith("_response")) and isinstance(value, str) and KEY.fullmatch(value):
                before = made.get(value)
                if before is None or "prompt" not in before[1]:
                    made[value] = name.removesuffix("response").removesuffix("_"), row
    keys = [*made][:MOST_CALLS]
    if not keys:
        return []
    with closing(open_responses(responses(store.home), read_only=True)) as stored:
        records = stored.get(keys)
    return [_call(key, *made[key], records.get(key)) for key in keys]


def _call(key: str, prefix: str, row: Row, record: Record | None) -> Call:
    def named(name: str) -> str:
        return str(row.get(f"{prefix}_{name}" if prefix else name) or "")

    prompt = named("prompt")
    if prompt and "@" not in prompt and named("prompt_hash"):
        prompt = f"{prompt}@{named('prompt_hash')[:12]}"
    what = prefix or str(row.get("stage") or "").replace("_", " ") or "this row"
    if record is None:
        offline = named("endpoint") == "offline" or named("model") == MODEL
        why = (
            "The offline model answers by rules: what it is asked and answers is computed at each build and not stored."
            if offline
            else "The response store of this home has no such answer: it was made elsewhere, or purged."
        )
        return Call(key, what, prompt, named("model"), named("endpoint"), missing=why)
    return Call(
        key,
        what,
        prompt or record.task,
        record.model,
        record.endpoint,
        tuple(_messages(record.request)),
        _reply(record),
        record.state != REPLY,
        record.served_model or "",
        record.input_tokens,
        record.output_tokens,
        None if record.cost_nano is None else record.cost_nano / NANO,
        record.batch,
        datetime.fromtimestamp(record.created, UTC) if record.created else None,
    )


def _messages(request: bytes) -> Iterator[tuple[str, str]]:
    """(role, text) of the messages that were sent; what has no messages comes whole, as one of no role."""
    try:
        document = json.loads(request)
    except ValueError:
        document = None
    sent = (document.get("messages") or document.get("input")) if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(document.get("instructions"), str):
        yield "system", document["instructions"]
    if not isinstance(sent, list) or not all(isinstance(each, dict) for each in sent):
        yield "", sent if isinstance(sent, str) else request.decode("utf-8", "replace")
        return
    for each in sent:
        content = each.get("content")
        yield (
            str(each.get("role", "")),
            content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        )


def _reply(record: Record) -> str:
    """The text of a stored reply; its bytes as they came if it is no completion."""
    body = record.body.decode("utf-8", "replace")
    if record.state != REPLY:
        return body
    found = read_completion(record.body)
    return (found.text or found.refusal) if found else body


def _sources(store: Store, version: Version, rows: Sequence[Row]) -> list[Row]:
    """The rows of attribution.parquet that are about something the rows name, at most MOST_SOURCES."""
    path = version.folder / "attribution.parquet"
    if not path.is_file():
        return []
    table = table_of(store.home, f"attribution.parquet of {version.dataset} {version.name}", [path], "")
    ids = [
        column.name for column in table.columns if column.kind == "text" and column.name.endswith(("_id", "used_by"))
    ]
    return rows_named(table, ids, _names(rows), MOST_SOURCES)


def _names(rows: Sequence[Row]) -> list[str]:
    """The ids in rows: texts of columns whose names end with `id` or `ids`, each once, at most MOST_NAMES."""
    found: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            if name.endswith(("_id", "_ids")):
                listed = value if isinstance(value, list) else [value]
                found.update(dict.fromkeys(each for each in listed if isinstance(each, str) and each))
    return [*found][:MOST_NAMES]
