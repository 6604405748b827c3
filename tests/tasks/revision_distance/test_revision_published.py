"""The published tables of Revision Distance, where cases come from, and the way back from a row."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from expertqa_tables import Home, filled
from revision_rows import case, cited, distance_of, draft, drafted, edit, edits_of, made, rating_of, score_of

from longform.artifacts.recipe import Recipe
from longform.artifacts.rows import Row, Rows
from longform.artifacts.store import Artifact
from longform.artifacts.versions import Version
from longform.errors import ConservationError, UsageError
from schemas.revision_distance import (
    CASES,
    CHECKED,
    DISTANCES,
    DRAFTS,
    EDITS,
    JUDGEMENTS,
    KNOWLEDGE,
    RATINGS,
    SCORES,
    SEGMENTS,
)
from schemas.sources.papers import METADATA, PAPERS
from tasks.revision_distance.published import name_sources, publish_drafts, publish_edits
from tasks.revision_distance.trace import trace as trace_row
from tasks.sources.author_names import names_authors

EASY = case(
    "easy/wildchat/c1",
    request="Write a letter to\nmy landlord.",
    reference="Dear landlord, the tap drips.",
    reference_by="gpt-4",
    licence="ODC-BY 1.0",
    url="https://sets.example/wildchat",
)
HARD = case(
    "hard/acl/2020.tea-1.1#3",
    kind="related_work",
    title="On tea",
    abstract="We boil water.",
    cited=[cited("acl/A"), cited("s2/7", abstract="Leaves."), cited("acl/A"), cited("s2/8", title=None)],
    reference="A boils. B steeps.",
    reference_by="human",
    licence="CC BY 4.0",
)
GIVEN = [drafted("rejected", "No.", score=2.0), drafted("chosen", "Yes.", writer="m", score=9.5)]
FREE = case("free/ultrafeedback/u1", request="A poem on tea.", given=GIVEN)
STRUCTURE = case("structure/1", reference="A. B.", given=[drafted("reordered", "B. A.")])
STRONG = {**draft(EASY, "strong", "Dear Sir, the tap drips. Yours"), **made("strong")}
WEAK = {**draft(EASY, "weak", "The tap."), **made("weak")}
COT = {**draft(HARD, "cot", "B steeps. A boils."), **made("cot")}
VANILLA = {**draft(HARD, "vanilla", "A boils."), **made("vanilla")}
CHOSEN = draft(FREE, "chosen", "Yes.", writer="m")
MOVE = edit(
    action_name="move",
    revision_description="A comes\nfirst.",
    revision_level="sentence",
    revision_intention="coherence",
    original_snippet=" A boils.",
    revised_snippet="A boils. ",
    preceding_snippet="",
    category="order",
    start=9,
    end=18,
    at=0,
    applied=True,
)
LOST = edit(
    action_name="add",
    original_snippet="nowhere",
    revised_snippet="x",
    revision_intention="meaning",
    revision_level="word",
    placed="not",
    applied=False,
    why_not="not in the draft",
)


def judgement(expert: str, better: Row | None, first: Row = COT, second: Row = VANILLA, **given: Any) -> Row:
    chosen = better and better["draft_id"]
    own = {"judgement_id": f"j_{expert}", "sheet_id": "s_1", "case_id": first["case_id"], "expert": expert}
    sides = {"first": first["draft_id"], "second": second["draft_id"]}
    return filled(JUDGEMENTS, **own, better=chosen, **sides, **given)


JUDGED = [judgement("1", COT, content=[4, 2]), judgement("2", VANILLA, VANILLA, COT), judgement("3", None)]
DRAFTED = [WEAK, STRONG, COT, VANILLA, CHOSEN]
TABLES: dict[str, tuple[pa.Schema, list[Row]]] = {
    "drafts": (DRAFTS, DRAFTED),
    "cases": (CASES, [EASY, HARD, FREE, STRUCTURE]),
    "distances": (
        DISTANCES,
        [
            distance_of(COT, [MOVE, LOST], weighted=1.5, not_placed=1, not_applied=1, revised="A", reproduces="no"),
            distance_of(STRONG, [], weighted=0.0, revised="Dear", reproduces="words"),
        ],
    ),
    "edits": (EDITS, [{**edits_of(COT), **made("editor")}, {**edits_of(STRONG), **made("other editor")}]),
    "scores": (SCORES, [score_of(COT, rouge1=100.0, rougeL=50.0), score_of(WEAK, bertscore_left_out="no model")]),
    "ratings": (RATINGS, [rating_of(COT, gpt_score=88.0, **made("rater")), rating_of(CHOSEN)]),
    "judgements": (JUDGEMENTS, JUDGED),
}
PAPER = {"title": "Kettles", "authors": ["A. One", "B. Two"]}
FETCHED = datetime(2026, 11, 20, tzinfo=UTC)


def tables(home: Home, **other: list[Row]) -> dict[str, Rows]:
    """The tables as stages would give them; with `other` rows of some."""
    return {name: home.table(schema, other.get(name, rows)) for name, (schema, rows) in TABLES.items()}


def paper(schema: pa.Schema, key: str, **said: Any) -> Row:
    return filled(schema, paper_id=key, **{**PAPER, **said})


def sources(home: Home) -> tuple[Rows, Rows]:
    """Papers and metadata."""
    papers = [
        paper(PAPERS, "acl/2020.tea-1.1", title="On tea", url="https://tea.example", licence="CC BY 4.0"),
        paper(PAPERS, "s2/7", licence=None, url="https://s2.example/7"),
        paper(PAPERS, "s2/99", licence="CC BY 4.0"),
    ]
    known = [
        paper(METADATA, "acl/A", licence="CC BY-NC-SA 3.0", retrieved_at=FETCHED),
        paper(METADATA, "s2/7", licence="CC0", url="https://other.example"),
    ]
    return home.table(PAPERS, papers), home.table(METADATA, known)


def drafts_of(home: Home, **other: list[Row]) -> list[Row]:
    return list(home.run(publish_drafts, *tables(home, **other).values()))


def test_each_draft_has_all_that_is_known_of_it_and_null_for_the_rest(tmp_path: Path) -> None:
    home = Home(tmp_path)
    found = {row["draft_id"]: row for row in drafts_of(home)}
    assert found.keys() == {row["draft_id"] for row in DRAFTED}
    row = found[COT["draft_id"]]
    assert {name: row[name] for name in ("title", "abstract", "cited", "reference", "licence", "source_id")} == {
        name: HARD[name] for name in ("title", "abstract", "cited", "reference", "licence", "source_id")
    }
    assert (row["draft"], row["model"], row["response"]) == (COT["text"], "rules", COT["response"])
    assert (row["editor"], row["editor_response"], row["rater"]) == ("rules", made("editor")["response"], "rules")
    assert row["edits"] == [MOVE, LOST]
    assert [row[name] for name in ("distance", "weighted", "not_placed", "not_applied", "revised", "reproduces")] == [
        *(2, 1.5, 1, 1, "A", "no")
    ]
    assert [row[name] for name in ("rouge1", "rouge2", "rougeL", "bertscore", "gpt_score")] == [100, None, 50, None, 88]
    assert (row["experts_better"], row["experts"], row["split"], row["kind"]) == (1, 3, "hard", "related_work")
    assert (found[VANILLA["draft_id"]]["experts_better"], found[VANILLA["draft_id"]]["experts"]) == (1, 3)
    weak = found[WEAK["draft_id"]]
    assert (weak["distance"], weak["edits"], weak["editor"], weak["experts"]) == (None, [], None, None)
    assert (weak["bertscore_left_out"], weak["request"]) == ("no model", EASY["request"])
    assert (found[STRONG["draft_id"]]["distance"], found[STRONG["draft_id"]]["edits"]) == (0, [])
    chosen = found[CHOSEN["draft_id"]]
    assert (chosen["source_score"], chosen["writer"], chosen["rater"], chosen["gpt_score"]) == (9.5, "m", None, None)


def test_drafts_stay_in_their_order_and_go_to_the_split_of_their_task(tmp_path: Path) -> None:
    home = Home(tmp_path)
    many = [{**WEAK, "draft_id": f"d_{number * 7919 % 2003:04}"} for number in range(2003)]
    made = home.run(publish_drafts, *tables(home, drafts=[*many, COT]).values())
    assert [part.key.rsplit("/", 1)[1] for part in made.parts or ()] == ["easy", "hard"]
    assert [row["draft_id"] for row in made] == [row["draft_id"] for row in [*many, COT]]


def test_without_judgements_nobody_was_asked(tmp_path: Path) -> None:
    home = Home(tmp_path)
    given = {**tables(home), "judgements": Rows(home.store, JUDGEMENTS, "none", "none", [])}
    assert {row["experts"] for row in home.run(publish_drafts, *given.values())} == {None}


def test_a_draft_of_no_case_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConservationError):
        drafts_of(Home(tmp_path), cases=[EASY])


def test_each_edit_is_a_row_and_a_draft_without_any_is_filtered(tmp_path: Path) -> None:
    home = Home(tmp_path)
    given = tables(home)
    found = home.run(publish_edits, given["distances"], given["edits"])
    rows = list(found)
    assert [(row["edit_id"], row["position"]) for row in rows] == [
        (f"{COT['draft_id']}#0", 0),
        (f"{COT['draft_id']}#1", 1),
    ]
    assert {name: rows[0][name] for name in MOVE} == MOVE
    assert {name: rows[1][name] for name in LOST} == LOST
    assert (rows[0]["editor"], rows[0]["system"], rows[0]["split"]) == ("rules", "cot", "hard")
    assert home.rejected(found) == {f"x_{STRONG['draft_id']}": "no edit"}


# ---------------------------------------------------------------- sources


def test_every_record_is_named_and_authors_where_their_licence_asks_for_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    rows = list(home.run(name_sources, tables(home)["cases"], *sources(home)))
    columns = ("case_id", "kind", "record_id", "title", "authors", "url", "licence", "retrieved_at")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (EASY["case_id"], "request", "wildchat/c1", None, [], "https://sets.example/wildchat", "ODC-BY 1.0", None),
        (
            *(HARD["case_id"], "paragraph", "acl/2020.tea-1.1#3", "On tea", PAPER["authors"], "https://tea.example"),
            *("CC BY 4.0", None),
        ),
        (HARD["case_id"], "cited", "acl/A", "On acl/A", PAPER["authors"], None, "CC BY-NC-SA 3.0", FETCHED),
        (HARD["case_id"], "cited", "s2/7", "On s2/7", [], "https://s2.example/7", "CC0", None),
        (FREE["case_id"], "request", "ultrafeedback/u1", None, [], None, None, None),
        (STRUCTURE["case_id"], "structure", "1", None, [], None, None, None),
    ]
    assert len({row["origin_id"] for row in rows}) == len(rows)


def test_a_cited_submission_of_which_only_metadata_is_there_has_its_note(tmp_path: Path) -> None:
    home, cited = (
        Home(tmp_path),
        {"paper_id": "openreview/nOte-1", "title": "On kites", "abstract": None, "by": "title"},
    )
    case = {**HARD, "cited": [cited]}
    known = home.table(METADATA, [paper(METADATA, "openreview/nOte-1", licence="CC BY 4.0")])
    rows = list(home.run(name_sources, home.table(CASES, [filled(CASES, **case)]), sources(home)[0], known))
    assert [(row["kind"], row["note_id"], row["licence"]) for row in rows][1:] == [("cited", "nOte-1", "CC BY 4.0")]


@pytest.mark.parametrize(
    ("licence", "named"),
    [
        *((name, True) for name in ("CC BY 4.0", "CC BY-NC-SA 3.0", "cc-by-4.0", "CCBYNC", "CC-BY-SA")),
        ("https://creativecommons.org/licenses/by-nc/4.0/", True),
        *((name, False) for name in (None, "", "CC0", "CC0-1.0", "MIT", "ODC-BY 1.0", "public domain")),
    ],
)
def test_which_licences_ask_for_names(licence: str | None, named: bool) -> None:
    assert names_authors(licence) is named


# ---------------------------------------------------------------- trace


def version_of(home: Home, origins: Rows) -> Version:
    """A version with both tables, and the stages behind it."""
    given = tables(home)
    published = home.run(publish_drafts, *given.values()), home.run(publish_edits, given["distances"], given["edits"])
    of_hard = {"case_id": HARD["case_id"], "text": "Tea is old."}
    recalled = filled(KNOWLEDGE, knowledge_id="k", **of_hard, **made("recall"))
    segment = filled(SEGMENTS, segment_id="s", perspective="history", **of_hard, **made("segment"))
    check = filled(CHECKED, check_id="c", case_id=EASY["case_id"], checked="yes", checked_kind="letter", **made("c"))
    wildchat = {"group": "wildchat", "sha256": "abcdef0123456789", "facts": {}, "pieces": 1}
    stages: dict[str, str] = {}
    for stage, rows, inputs in (
        ("read_conversations", home.table(CASES, []), {"files": [wildchat]}),
        ("take_cases", given["cases"], {"conversations": "read_conversations"}),
        ("check_requests", home.table(CHECKED, [check]), {"candidates": "read_conversations"}),
        ("recall_knowledge", home.table(KNOWLEDGE, [recalled]), {"cases": "take_cases"}),
        ("write_segments", home.table(SEGMENTS, [segment]), {"cases": "take_cases"}),
        ("collect_drafts", given["drafts"], {"cases": "take_cases", "segments": "write_segments"}),
        ("propose_edits", given["edits"], {"drafts": "collect_drafts"}),
        ("rate_drafts", given["ratings"], {"drafts": "collect_drafts"}),
        ("collect_judgements", given["judgements"], {"drafts": "collect_drafts"}),
        ("publish_drafts", published[0], {"drafts": "collect_drafts", "edits": "propose_edits"}),
        ("publish_edits", published[1], {"edits": "propose_edits"}),
    ):
        marks: dict[str, Any] = {name: stages[mark] if isinstance(mark, str) else mark for name, mark in inputs.items()}
        recipe = Recipe(stage, 1, [], {}, marks)
        stages[stage] = recipe.fingerprint
        home.store.commit_artifact(Artifact(recipe.fingerprint, recipe, "", {}, rows.parts or []))
    folder = home.store.home / "datasets" / "revision-distance" / "v1"
    splits = laid_out(folder, published)
    shutil.copy(origins.paths[0], folder / "attribution.parquet")
    manifest = {"stages": stages, "configs": splits, "keys": {"drafts": "draft_id", "edits": "edit_id"}}
    return Version("revision-distance", "v1", folder, manifest)


def laid_out(folder: Path, published: Sequence[Rows]) -> dict[str, dict[str, int]]:
    splits: dict[str, dict[str, int]] = {}
    for config, rows in zip(("drafts", "edits"), published, strict=True):
        for part in (part for part in rows.parts or () if part.rows):
            split = part.key.rsplit("/", 1)[1]
            place = folder / split if config == "drafts" else folder / config / split
            place.mkdir(parents=True)
            shutil.copy(rows.store.rows_path(part), place / "hard-0-00000.parquet")
            splits.setdefault(config, {})[split] = part.rows
    return splits


def traced(home: Home, version: Version, key: str) -> tuple[Row, list[str]]:
    found = trace_row(home.store, version, key)
    json.dumps(found)
    return found, [f"{title}: {text}" for title, text in found["lines"]]


def call(name: str) -> str:
    return f"rules via offline · prompt revision_distance/write@123456781234 · response {made(name)['response'][:16]}…"


def test_a_draft_shows_its_sources_calls_edits_and_judgements(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home, home.run(name_sources, tables(home)["cases"], *sources(home)))
    found, lines = traced(home, version, COT["draft_id"])
    marks = {name: f"{name} {mark[:8]}" for name, mark in version.stages.items()}
    assert lines == [
        f"row: {COT['draft_id']}   cot   hard",
        "case: hard/acl/2020.tea-1.1#3   related_work",
        'source: acl/2020.tea-1.1#3   "On tea"   CC BY 4.0   by A. One; B. Two',
        ": https://tea.example",
        '  cited: acl/A   "On acl/A"   CC BY-NC-SA 3.0   by A. One; B. Two',
        '  cited: s2/7   "On s2/7"   CC0',
        'reference: by human   "A boils. B steeps."',
        'knowledge: "Tea is old."',
        f": {call('recall')}",
        'segment: history   "Tea is old."',
        f": {call('segment')}",
        'text: "B steeps. A boils."',
        f": {call('cot')}",
        "distance: 2, weighted 1.5 · 1 not placed, 1 not applied · gives the reference: no",
        f": {call('editor')}",
        "edit 0: move (sentence, coherence, order)   A comes first.",
        ': "A boils." -> "A boils."',
        ": placed exactly at 9 to 18, goes to 0 · applied",
        "edit 1: add (word, meaning)   ",
        ': "nowhere" -> "x"',
        ": placed not · not applied: not in the draft",
        "scores: ROUGE-1 100.0, ROUGE-L 50.0",
        "rating: 88 of 100 by rules",
        f": {call('rater')}",
        "judgements: the better text to 1 of 3 experts",
        ": 1: this, content 4",
        ": 2: the other",
        ": 3: neither",
        "built by: "
        + " <- ".join(
            marks[name]
            for name in (
                *("publish_drafts", "propose_edits", "collect_drafts", "write_segments", "take_cases"),
                "read_conversations",
            )
        )
        + " <- wildchat sha256 abcdef012345…",
    ]
    assert found["config"] == "drafts"
    assert found["row"]["draft"] == COT["text"]


def test_an_edit_shows_itself_and_its_draft(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home, home.run(name_sources, tables(home)["cases"], *sources(home)))
    found, lines = traced(home, version, f"{COT['draft_id'][:-1]}#1")
    assert lines[:2] == [f"edit: {COT['draft_id']}#1   hard", f"draft: {COT['draft_id']}   cot   hard"]
    assert [line for line in lines if line.startswith("edit ")] == ["edit 1: add (word, meaning)   "]
    assert lines[-1].startswith("built by: publish_edits ")
    assert (found["config"], found["row"]["original_snippet"]) == ("edits", "nowhere")


def test_the_trace_shows_a_check_and_a_draft_without_edits(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home, home.run(name_sources, tables(home)["cases"], *sources(home)))
    _, lines = traced(home, version, WEAK["draft_id"])
    assert "checked: yes, letter" in lines
    assert lines[lines.index("checked: yes, letter") + 1] == f": {call('c')}"
    assert 'request: "Write a letter to my landlord."' in lines
    assert "distance: none: the editor's reply could not be used" in lines
    assert not any(line.startswith(("knowledge", "segment", "judgements")) for line in lines)


def test_the_beginning_of_an_id_is_enough_where_it_is_one_draft_only(tmp_path: Path) -> None:
    home = Home(tmp_path)
    version = version_of(home, home.run(name_sources, tables(home)["cases"], *sources(home)))
    assert trace_row(home.store, version, "d_c1_w")["row"]["draft_id"] == WEAK["draft_id"]
    with pytest.raises(UsageError, match=r"More than one row of revision-distance v1 begins with d_c1: give more"):
        trace_row(home.store, version, "d_c1")
    for nothing in ("", "#1", "nope", f"{COT['draft_id']}#2", f"{COT['draft_id']}#", "' OR 1=1 --"):
        with pytest.raises(UsageError, match="has no row"):
            trace_row(home.store, version, nothing)
