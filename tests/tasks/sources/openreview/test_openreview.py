"""What notes of OpenReview say: decisions of every year's kind, ratings, names; read as a stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import paths
import pytest
from axioms_builds import Silent
from hypothesis import given
from hypothesis import strategies as st

from flows.sources.openreview import Read, read
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import SourceError, UsageError
from longform.llm.models import Models
from schemas.sources.openreview import DECISIONS, SUBMISSIONS
from tasks.sources.openreview.submissions import (
    Replies,
    author_ids,
    by_kind,
    decide,
    direct_replies,
    licence_of,
    names,
    parse_submissions,
    rating,
    ratings,
    read_decision,
    read_venue,
    value,
    words,
)

SAMPLES = paths.SAMPLES / "openreview"
NONE = Replies({})


def conference(year: int) -> str:
    return f"ICLR.cc/{year}/Conference"


def v1(year: int = 2021, invitation: str = "Blind_Submission", id: str = "aB-3_x", **content: Any) -> dict[str, Any]:
    content = {"title": "On Tea", "abstract": "Tea.", "authors": ["Ann Lee"], "pdf": "/pdf/9f.pdf", **content}
    return {
        "id": id,
        "forum": id,
        "number": 7,
        "invitation": f"{conference(year)}/-/{invitation}",
        "cdate": 1_601_308_080_000,
        "content": content,
    }


def v2(year: int = 2024, id: str = "Cd4y", **content: Any) -> dict[str, Any]:
    content = {"title": "On Tea", "abstract": "Tea.", "authors": ["Ann Lee"], "pdf": "/pdf/9f.pdf", **content}
    return {
        "id": id,
        "forum": id,
        "number": 7,
        "invitations": [f"{conference(year)}/-/Submission", f"{conference(year)}/-/Edit"],
        "license": "CC BY 4.0",
        "content": {name: {"value": value} for name, value in content.items()},
    }


def reply(to: dict[str, Any], kind: str, cdate: int = 0, **content: Any) -> dict[str, Any]:
    wrapped = {name: {"value": value} for name, value in content.items()} if "invitations" in to else content
    found = {"id": f"{kind}{cdate}", "forum": to["id"], "replyto": to["id"], "cdate": cdate, "content": wrapped}
    if "invitations" in to:
        return {**found, "invitations": [f"{conference(2024)}/Submission7/-/{kind}"]}
    return {**found, "invitation": f"{conference(2021)}/Paper7/-/{kind}"}


def decided(note: dict[str, Any], replies: Any = ()) -> tuple[str, str | None, str | None]:
    return decide(note, by_kind(replies))


def parsed(*notes: Any, replies: Replies = NONE) -> tuple[list[dict[str, Any]], list[Rejected]]:
    rows: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    lines = [note if isinstance(note, bytes) else json.dumps(note).encode() for note in notes]
    for item in parse_submissions(lines, replies, None):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            rows.extend(item.to_pylist())
    return rows, rejected


def test_each_year_s_words_for_a_decision_are_read():
    said = {
        "Accept (Oral)": "accept_oral",
        "Accept (Talk)": "accept_oral",
        "Accept: notable-top-5%": "accept_oral",
        "Accept (Spotlight)": "accept_spotlight",
        "Accept: notable-top-25%": "accept_spotlight",
        "Accept: poster": "accept_poster",
        "Accept (Poster)": "accept_poster",
        "Accept": "accept",
        "Invite to Workshop Track": "invite_to_workshop",
        "Reject": "reject",
        "Desk Reject": "desk_rejected",
        "Withdrawn": "withdrawn",
        "Not accepted yet": "unknown",
        "Pending": "unknown",
        "": "unknown",
    }
    assert {words: read_decision(words) for words in said} == said


def test_each_year_s_words_for_a_venue_are_read():
    said = {
        "ICLR 2024 poster": "accept_poster",
        "ICLR 2024 oral": "accept_oral",
        "ICLR 2022 Spotlight": "accept_spotlight",
        "ICLR 2023 notable top 5%": "accept_oral",
        "ICLR 2023 notable top 25%": "accept_spotlight",
        "ICLR 2017 Invite to Workshop": "invite_to_workshop",
        "Submitted to ICLR 2023": "reject",
        "ICLR 2022 Submitted": "reject",
        "ICLR 2026 Conference Withdrawn Submission": "withdrawn",
        "ICLR 2024 Conference Desk Rejected Submission": "desk_rejected",
        "NeurIPS 2022 Accept": "accept",
        "ICLR 2025 Conference Submission": "unknown",
        "ICLR 2022 Conference Blind Submission": "unknown",
        "ICLR 2025": "unknown",
    }
    assert {words: read_venue(words) for words in said} == said


@given(st.text())
def test_any_words_give_a_known_decision_and_acceptance_is_never_made_up(words: str):
    assert read_decision(words) in DECISIONS
    assert "accept" in words.lower() or not read_decision(words).startswith("accept")


def test_without_a_word_about_it_a_decision_is_unknown():
    assert decided(v1()) == ("unknown", None, None)
    assert decided(v2()) == ("unknown", None, None)


def test_a_venueid_of_the_first_api_says_nothing_as_rejected_papers_have_it_too():
    assert decided(v1(2022, venueid=conference(2022))) == ("unknown", None, None)
    rejected = v1(2022, venueid=conference(2022), venue="ICLR 2022 Submitted")
    assert decided(rejected) == ("reject", "ICLR 2022 Submitted", "venue")


def test_a_venueid_of_the_second_api_decides():
    def told(last: str, venue: str | None = None) -> tuple[str, str | None]:
        fields = {"venue": venue} if venue else {}
        found = decided(v2(venueid=conference(2024) + last, **fields))
        return found[0], found[2]

    assert told("", "ICLR 2024 spotlight") == ("accept_spotlight", "venueid")
    assert told("") == ("accept", "venueid")
    assert told("/Rejected_Submission", "Submitted to ICLR 2024") == ("reject", "venueid")
    assert told("/Withdrawn_Submission") == ("withdrawn", "venueid")
    assert told("/Desk_Rejected_Submission") == ("desk_rejected", "venueid")
    assert told("", "Submitted to ICLR 2024") == ("unknown", "disagreement")


def test_under_review_is_unknown_whatever_the_venue_says():
    note = v2(2026, venueid=f"{conference(2026)}/Submission", venue="Submitted to ICLR 2026")
    assert decided(note)[0] == "unknown"


def test_the_decision_note_comes_first():
    note = v2(venueid=f"{conference(2024)}/Rejected_Submission")
    assert decided(note, [reply(note, "Decision", decision="Accept (poster)")]) == (
        "accept_poster",
        "Accept (poster)",
        "decision_note",
    )


def test_what_was_withdrawn_or_desk_rejected_after_its_acceptance_is_not_accepted():
    for last, decision in (("Withdrawn_Submission", "withdrawn"), ("Desk_Rejected_Submission", "desk_rejected")):
        note = v2(venueid=f"{conference(2024)}/{last}", venue="ICLR 2024 Conference Withdrawn Submission")
        accepted = reply(note, "Decision", decision="Accept (poster)")
        assert decided(note, [accepted]) == (decision, f"{conference(2024)}/{last}", "venueid")


def test_a_desk_rejection_that_was_taken_back_does_not_count():
    note = v2(venueid=conference(2024), venue="ICLR 2024 poster")
    note["invitations"] = [*note["invitations"], f"{conference(2024)}/-/Desk_Rejected_Submission"]
    assert decided(note)[0] == "accept_poster"
    note["content"]["venueid"]["value"] += "/Submission"
    assert decided(note)[0] == "unknown"


def test_the_venue_says_which_kind_of_acceptance_a_bare_accept_is():
    note = v2(venueid=conference(2024), venue="ICLR 2024 oral")
    accepted = reply(note, "Decision", decision="Accept")
    assert decided(note, [accepted]) == ("accept_oral", "Accept | ICLR 2024 oral", "venue")
    bare = v2(venueid=conference(2024), venue="ICLR 2024")
    assert decided(bare, [reply(bare, "Decision", decision="Accept")]) == ("accept", "Accept", "decision_note")


def test_a_decision_on_something_else_in_the_forum_does_not_count():
    note = v1()
    other = {**reply(note, "Decision", decision="Reject"), "replyto": "someReview"}
    assert decided(note, [other])[0] == "unknown"


def test_decision_notes_that_disagree_decide_nothing():
    note = v1()
    two = [reply(note, "Decision", decision=said) for said in ("Accept (Poster)", "Reject")]
    assert decided(note, two) == ("unknown", "Accept (Poster) | Reject", "disagreement")


def test_words_that_cannot_be_read_leave_it_to_the_venue_and_are_kept_where_that_is_silent():
    note = v1(2022, venue="ICLR 2022 Poster")
    odd = reply(note, "Decision", decision="Ask again")
    assert decided(note, [odd])[0] == "accept_poster"
    assert decided(v1(), [odd]) == ("unknown", "Ask again", "decision_note")


def test_a_meta_review_decides_in_2019_only():
    for year, expected in ((2019, "accept_oral"), (2021, "unknown")):
        note = v1(year)
        review = {**reply(note, "x"), "invitation": f"{conference(year)}/-/Paper7/Meta_Review"}
        review["content"] = {"recommendation": "Accept (Oral)"}
        assert decided(note, [review])[0] == expected


def test_withdrawn_and_desk_rejected_submissions_are_known_by_their_invitations():
    assert decided(v1(invitation="Withdrawn_Submission"))[0] == "withdrawn"
    assert decided(v1(invitation="Desk_Rejected_Submission"))[0] == "desk_rejected"
    late = v1(invitation="Withdrawn_Submission", venue="ICLR 2021 Poster")
    assert decided(late) == ("withdrawn", f"{conference(2021)}/-/Withdrawn_Submission", "invitation")


def test_ratings_are_read_of_every_year_s_form_oldest_first():
    note = v1()
    reviews = [
        reply(note, "Official_Review", 3, recommendation="3: reject, not good enough"),
        reply(note, "Official_Review", 1, rating="8: Top 50% of accepted papers, clear accept"),
        reply(note, "Official_Review", 2, rating="unsure"),
        reply(note, "Official_Comment", 0, rating="1: not a review"),
    ]
    assert ratings(by_kind(reviews)["Official_Review"]) == [8, None, 3]
    assert [rating(found) for found in (6, "10", "-1: no", True, None, "", 6.5, 10**20)] == [
        6, 10, -1, None, None, None, None, None
    ]  # fmt: skip


def test_names_are_those_of_texts_and_of_objects_and_none_of_the_anonymous():
    assert names(["Ann Lee", " Bo ", 3, ""]) == ["Ann Lee", "Bo"]
    assert names([{"fullname": "Ann Lee", "username": "~Ann_Lee1"}, {"username": "~B1"}]) == ["Ann Lee"]
    assert names(["Anonymous"]) == names("Anonymous authors") == names(None) == []
    assert words("tea; pots , lids") == words(["tea", "pots", " lids "]) == ["tea", "pots", "lids"]


def test_both_apis_give_the_same_row():
    (first, second), rejected = parsed(v1(id="x1"), v2(id="x2"))
    assert rejected == []
    for name in ("title", "abstract", "authors", "number", "pdf", "decision"):
        assert first[name] == second[name]
    assert (first["licence"], second["licence"]) == (None, "CC BY 4.0")
    assert first["url"] == "https://openreview.net/forum?id=x1"
    assert first["created"].isoformat() == "2020-09-28T15:48:00+00:00"
    assert (first["year"], second["year"]) == (2021, 2024)


def test_a_pdf_elsewhere_or_none_is_no_path():
    rows, _ = parsed(*(v1(id=f"n{i}", pdf=pdf) for i, pdf in enumerate(["", "https://x.example/a.pdf", "/../../x", 3])))
    assert [row["pdf"] for row in rows] == [None] * 4


def test_every_line_is_accounted_for():
    note = v1()
    lines = [
        note,
        note,
        b"{half",
        b"[]",
        b"",
        reply(note, "Official_Review", rating="8"),
        {**v1(), "id": "../etc"},
        {**v1(), "id": "noYear", "forum": "noYear", "invitation": "ICLR.cc/-/Submission"},
        {"id": "bare", "content": {"title": "x"}},
        v1(id="blank", title="", abstract=None),
        v1(id="odd", title={"value": {"deep": 1}}, authors={"a": 1}, keywords=7, venue=[], number={}),
    ]
    rows, rejected = parsed(*lines)
    assert [row["submission_id"] for row in rows] == ["openreview/aB-3_x", "openreview/odd"]
    assert [(one.kind, one.reason) for one in rejected] == [
        ("filtered", "seen before in this file"),
        ("defect", "unreadable line"),
        ("defect", "no note of OpenReview"),
        ("defect", "unreadable line"),
        ("filtered", "a reply, not a submission"),
        ("defect", "missing or ill-formed id"),
        ("defect", "no year in its invitation"),
        ("defect", "no note of OpenReview"),
        ("defect", "neither title nor abstract"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["id", "forum", "replyto", "number", "invitation", "invitations", "content", "cdate", "details", "license"]
)


@given(st.dictionaries(FIELDS, JSON), st.booleans())
def test_any_note_is_a_row_or_rejected(fields: dict[str, Any], whole: bool):
    rows, rejected = parsed({**v1(), **fields} if whole else fields)
    assert len(rows) + len(rejected) == 1


@pytest.fixture
def builder(tmp_path: Path):
    build = Build(
        Store(tmp_path / "home"),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(tmp_path / "home" / "responses.sqlite"),
    )
    yield build
    build.close()


def test_the_samples_hold_a_decision_of_each_kind_and_come_out_whole(builder: Build):
    rows = list(read(builder, [SAMPLES], Read(retrieved_at="2026-10-01"))[0])
    found = {row["submission_id"].split("/")[1]: row for row in rows}
    assert {name: row["decision"] for name, row in found.items()} == {
        "TeaPot-1": "accept_poster",
        "TeaPot_2": "invite_to_workshop",
        "TeaPot-3": "unknown",
        "Bread19a": "accept_oral",
        "Bread19b": "reject",
        "Bread19w": "withdrawn",
        "Jam23top": "accept_oral",
        "Jam23quart": "accept_spotlight",
        "Jam23post": "accept_poster",
        "Jam23sub": "reject",
        "Jam23none": "unknown",
        "Soup24oral": "accept_oral",
        "Soup24post": "accept_poster",
        "Soup24rej": "reject",
        "Soup24with": "withdrawn",
        "Soup24desk": "desk_rejected",
        "Stew26obj": "accept_poster",
        "Stew26open": "unknown",
    }
    assert found["Stew26obj"]["ratings"] == [6, 4] or found["Stew26obj"]["ratings"] == [4, 6]
    assert found["Stew26obj"]["authors"] == ["Joy Kerr", "Lou Mann"]
    assert found["Stew26open"]["authors"] == []
    assert found["Bread19w"]["pdf"] is None
    assert {row["retrieved_at"].year for row in rows} == {2026}


def test_decisions_apart_are_part_of_what_the_rows_are_made_of(builder: Build, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "2018-submissions.jsonl").write_text(json.dumps(v1(2018, id="one")) + "\n")
    for said, expected in (("Accept (Poster)", "accept_poster"), ("Reject", "reject")):
        note = {**reply(v1(id="one"), "x"), "invitation": f"{conference(2018)}/-/Acceptance_Decision"}
        note["content"] = {"decision": said}
        (folder / "2018-decisions.replies.jsonl").write_text(json.dumps(note) + "\n")
        assert [row["decision"] for row in read(builder, [folder], Read())[0]] == [expected]


def test_replies_alone_or_broken_are_errors(builder: Build, tmp_path: Path):
    apart = tmp_path / "2018-decisions.replies.jsonl"
    apart.write_text('{"half\n')
    with pytest.raises(UsageError, match="Only replies"):
        read(builder, [apart], Read())
    with pytest.raises(SourceError, match="no JSON"):
        Replies({str(apart): "0"}).to("x")


def test_a_decision_is_one_of_the_words_that_the_schema_explains():
    doc = SUBMISSIONS.field("decision").metadata[b"doc"].decode()
    assert all(word in doc for word in DECISIONS)


# ---------------------------------------------------------------- as the APIs answer today


def test_ids_of_authors_are_read_from_both_apis_and_from_objects():
    assert author_ids({"authorids": ["~Ann_Lee1", " b@c.org "]}) == ["~Ann_Lee1", "b@c.org"]
    assert author_ids({"authorids": {"value": ["~Ann_Lee1"], "readers": ["everyone"]}}) == ["~Ann_Lee1"]
    people = [{"fullname": "Ann Lee", "username": "~Ann_Lee1"}, {"fullname": "Bo"}]
    assert author_ids({"authors": {"value": people}}) == ["~Ann_Lee1"]
    assert author_ids({"authorids": ["ICLR.cc/2021/Conference/Paper7/Authors"]}) == []
    assert author_ids({"authorids": 7, "authors": "Ann"}) == author_ids(None) == []


def test_a_licence_is_the_note_s_else_its_form_s():
    assert licence_of({"license": "CC0", "content": {"license": {"value": "CC BY 4.0"}}}) == "CC0"
    assert licence_of({"license": " ", "content": {"license": {"value": "CC BY 4.0"}}}) == "CC BY 4.0"
    assert licence_of({"license": 4, "content": {}}) is None


def test_a_value_that_few_may_read_is_read():
    hidden = {"title": {"value": "On Tea", "readers": ["a"], "nonreaders": ["b"]}, "odd": {"value": 1, "more": 2}}
    assert (value(hidden, "title"), value(hidden, "odd")) == ("On Tea", {"value": 1, "more": 2})


def test_replies_of_all_depths_decide_only_where_they_reply_to_the_submission():
    note = v2()
    deep = {**reply(note, "Decision", 1, decision="Reject"), "replyto": "another reply"}
    note["details"] = {"replies": [reply(note, "Decision", 2, decision="Accept (oral)"), deep]}
    assert decide(note, by_kind(direct_replies(note))).decision == "accept_oral"
