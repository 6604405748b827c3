"""What models made of a conversation, an instruction or a paper goes with it; what they made of others stays."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from expertqa_tables import Home, filled
from revision_rows import case, cited, draft, drafted, edits_of, made, rating_of

from longform.artifacts.parts import Parts
from longform.artifacts.rows import Row
from longform.llm.ask.fence import fenced
from longform.llm.responses.records import Record
from longform.llm.responses.store import ResponseStore, open_responses
from longform.settings import responses
from schemas.revision_distance import (
    CANDIDATES,
    CASES,
    CHECKED,
    DRAFTS,
    EDITS,
    HARD,
    KNOWLEDGE,
    RATINGS,
    SEGMENTS,
)
from schemas.sources.papers import RELATED
from tasks.revision_distance.takedown import responses_of


def words(name: str) -> str:
    """A text that holds windows of letters, and none of another name's."""
    return " ".join(f"{name}{number:04}" for number in range(40))


EASY = case("easy/wildchat/c1", request=words("asked"), reference=words("letter"))
OTHER = case("easy/wildchat/c11", request=words("others"), reference=words("answer"))
FREE = case("free/ultrafeedback/u1", request="Short.", given=[drafted("chosen", words("chosen"))])
HARD_ONE = case(
    "hard/acl/2020.tea-1.1#3",
    kind="related_work",
    title="On tea",
    abstract=words("abstract"),
    cited=[cited("acl/A", abstract=words("kettle")), cited("acl/B", abstract=words("leaves"))],
    reference=words("paragraph"),
)
SAME_PAPER = case(
    "hard/acl/2020.tea-1.1#4",
    kind="related_work",
    title="On tea",
    abstract=words("abstract"),
    cited=[cited("acl/B", abstract=words("leaves"))],
    reference=words("second"),
)
CASES_THERE = [EASY, OTHER, FREE, HARD_ONE, SAME_PAPER]


class Built:
    """The model stages of a build: of each case each stage's row, with a response named <stage>/<record>."""

    def __init__(self, path: Path) -> None:
        self.home = Home(path)
        self.write("take_cases", CASES, CASES_THERE)
        self.write("check_requests", CHECKED, [self.checked(one) for one in (EASY, OTHER, FREE)])
        for system, of in (("weak", (EASY, OTHER)), ("strong", (EASY, OTHER)), ("vanilla", (HARD_ONE, SAME_PAPER))):
            self.write(f"write_{system}", DRAFTS, [self.drafted(one, system) for one in of])
        hard = (HARD_ONE, SAME_PAPER)
        texts = {one["case_id"]: {"case_id": one["case_id"], "text": "Short."} for one in hard}
        self.write(
            "recall_knowledge",
            KNOWLEDGE,
            [filled(KNOWLEDGE, knowledge_id="k", **texts[one["case_id"]], **self.by("recall", one)) for one in hard],
        )
        self.write(
            "write_segments",
            SEGMENTS,
            [filled(SEGMENTS, segment_id="s", **texts[one["case_id"]], **self.by("segment", one)) for one in hard],
        )
        self.write("write_cot", DRAFTS, [self.drafted(one, "cot") for one in hard])
        drafts = [draft(one, "d") for one in CASES_THERE]
        self.write(
            "propose_edits",
            EDITS,
            [{**edits_of(row), **self.by("edits", of)} for row, of in zip(drafts, CASES_THERE, strict=True)],
        )
        self.write(
            "rate_drafts",
            RATINGS,
            [{**rating_of(row), **self.by("rate", of)} for row, of in zip(drafts, CASES_THERE, strict=True)],
        )

    def by(self, stage: str, of: Row) -> Row:
        return made(f"{stage}/{of['source_id'].rsplit('/', 1)[1]}")

    def checked(self, of: Row) -> Row:
        return filled(CHECKED, check_id=of["case_id"], case_id=of["case_id"], **self.by("check", of))

    def drafted(self, of: Row, system: str) -> Row:
        return {**draft(of, system, words(f"{system}{of['source_id'][-1]}")), **self.by(system, of)}

    def write(self, stage: str, schema: pa.Schema, rows: list[Row], key: str = "easy/0-00000") -> None:
        parts = Parts(self.home.store, stage, schema, [key], None)
        for row in rows:
            parts.add(row)
        parts.finish()

    def gone(self, *ids: str, stored: dict[str, str] | None = None) -> set[str]:
        """The names of the responses that go; `stored`: name -> request, of those that are in the store."""
        with closing(open_responses(responses(self.home.store.home))) as store:
            put(store, stored or {})
            keys = responses_of(self.home.store, ids, store)
        return {bytes.fromhex(key).rstrip(b"\0").decode() for key in keys}


def put(store: ResponseStore, stored: dict[str, str]) -> None:
    records = [
        (
            made(name)["response"],
            Record("e", "m", "t", "p", json.dumps({"messages": [{"content": text}]}).encode(), b"{}"),
        )
        for name, text in stored.items()
    ]
    asyncio.run(store.put(records))


@pytest.fixture
def built(tmp_path: Path) -> Built:
    return Built(tmp_path)


EASY_STAGES = ("check", "weak", "strong", "edits", "rate")
HARD_STAGES = ("vanilla", "recall", "segment", "cot", "edits", "rate")
MADE_OF = {
    "wildchat/c1": {f"{stage}/c1" for stage in EASY_STAGES},
    "ultrafeedback/u1": {"check/u1", "edits/u1", "rate/u1"},
    "acl/2020.tea-1.1": {f"{stage}/2020.tea-1.1#{n}" for stage in HARD_STAGES for n in (3, 4)},
    "acl/A": {f"{stage}/2020.tea-1.1#3" for stage in HARD_STAGES},
    "acl/B": {f"{stage}/2020.tea-1.1#{n}" for stage in HARD_STAGES for n in (3, 4)},
    "acl/2020.tea-1": set(),
    "wildchat/c": set(),
}


@pytest.mark.parametrize("record", MADE_OF)
def test_every_response_of_its_cases_goes_and_no_other(built: Built, record: str) -> None:
    assert built.gone(record) == MADE_OF[record]


def test_a_takedown_of_two_or_more_records_at_once(built: Built) -> None:
    assert built.gone("wildchat/c1", "acl/A") == MADE_OF["wildchat/c1"] | MADE_OF["acl/A"]


NAMED = {
    "wildchat/c1": ("asked", "letter", "weak1", "strong1"),
    "ultrafeedback/u1": ("chosen",),
    "acl/2020.tea-1.1": ("abstract", "paragraph", "second", "cot3", "vanilla4"),
    "acl/A": ("kettle", "paragraph", "cot3"),
    "acl/B": ("leaves", "paragraph", "second", "cot3", "cot4"),
}
UNNAMED = {
    "wildchat/c1": ("others", "answer"),
    "ultrafeedback/u1": ("asked",),
    "acl/2020.tea-1.1": ("kettle", "leaves", "asked"),
    "acl/A": ("abstract", "leaves", "second", "cot4"),
    "acl/B": ("abstract", "kettle"),
}


@pytest.mark.parametrize("record", NAMED)
def test_what_no_row_names_goes_by_its_words(built: Built, record: str) -> None:
    stored = {
        f"unnamed/{name}": f"Improve this.\n{words(name)}\nThanks." for name in {*NAMED[record], *UNNAMED[record]}
    }
    found = built.gone(record, stored=stored)
    assert found - MADE_OF[record] == {f"unnamed/{name}" for name in NAMED[record]}


def test_a_record_that_was_read_but_not_drawn_is_found_by_its_words(tmp_path: Path) -> None:
    built = Built(tmp_path)
    paper = "acl/2021.pot-1.9"
    related = {"related_id": f"{paper}#0", "paper_id": paper, "text": words("pots"), "abstract": words("clay")}
    built.write("related_paragraphs", RELATED, [filled(RELATED, **related)])
    columns = set(HARD.names) - {"related_id", "paper_id"}
    drawn = {name: value for name, value in case(f"hard/{paper}#1").items() if name in columns}
    built.write(
        "find_cited",
        HARD,
        [{**drawn, "related_id": f"{paper}#1", "paper_id": paper, "reference": words("mugs")}],
    )
    kept = {name: value for name, value in case(f"hard/{paper}#2").items() if name in CANDIDATES.names}
    built.write("draw_candidates", CANDIDATES, [{**kept, "cited": [cited("acl/C", abstract=words("cups"))]}])
    stored = {f"x/{name}": words(name) for name in ("pots", "clay", "mugs", "cups", "other")}
    assert built.gone(paper, stored=stored) == {"x/pots", "x/clay", "x/mugs"}
    assert built.gone("acl/C", stored=stored) == {"x/cups"}


def test_a_paper_without_an_abstract_is_found_by_a_title_that_is_a_whole_text(tmp_path: Path) -> None:
    built = Built(tmp_path)
    of = {**case("hard/acl/2021.pot-1.9#1", title="On\npots"), "cited": [cited("acl/C", title="On cups")]}
    built.write("take_cases", CASES, [of])
    stored = {"x/own": fenced("On pots"), "x/cited": fenced("On cups"), "x/other": fenced("On cups and On pots")}
    assert built.gone("acl/2021.pot-1.9", stored=stored) == {"x/own"}
    assert built.gone("acl/C", stored=stored) == {"x/cited"}


def test_a_home_without_any_stage_holds_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with closing(open_responses(responses(home.store.home))) as store:
        put(store, {"a": words("a")})
        assert responses_of(home.store, ["wildchat/c1"], store) == set()
