"""OpenReview: one note a line, as its two APIs give them; a submission with its direct replies, where asked for.

    API v1 (ICLR to 2023)
    {"id": "aB3x", "forum": "aB3x", "number": 7, "invitation": "ICLR.cc/2021/Conference/-/Blind_Submission",
     "cdate": 1601308080000, "content": {"title": "On Tea", "authors": ["Ann Lee"], "pdf": "/pdf/9f.pdf", ...},
     "details": {"directReplies": [{"forum": "aB3x", "replyto": "aB3x",
        "invitation": "ICLR.cc/2021/Conference/Paper7/-/Decision", "content": {"decision": "Accept (Poster)"}}]}}
    API v2 (since 2024)
    {"id": "Cd4y", "forum": "Cd4y", "invitations": ["ICLR.cc/2024/Conference/-/Submission", ...],
     "license": "CC BY 4.0", "content": {"title": {"value": "On Tea"},
        "authors": {"value": [{"fullname": "Ann Lee", "username": "~Ann_Lee1"}]},
        "venue": {"value": "ICLR 2024 poster"}, "venueid": {"value": "ICLR.cc/2024/Conference"}}}

Where the decision is found differs by year. 2018: notes of one invitation, .../-/Acceptance_Decision. 2019: the
recommendation of the meta-review, .../-/Paper7/Meta_Review. 2020-2023: a note .../Paper7/-/Decision, with new words
in 2023 ("Accept: notable-top-5%"). From 2022 the venue says it too ("ICLR 2022 Submitted" was not accepted). In API
v1 the venueid says nothing: rejected papers have the conference's as well. In API v2 it decides: the conference's own
is accepted, .../Rejected_Submission rejected, .../Submission still under review. Withdrawn and desk-rejected papers
have invitations of their own; in API v2 these stay when a paper is brought back, and decision notes stay when an
accepted paper is withdrawn, so there the venueid counts before both. A decision note may say "Accept" only, and the
venue which kind. Where none of this can be read, the decision is `unknown`. Authors are strings, or
since 2026 objects; a submission under review has "Anonymous". Ratings are "8: accept" or 8, under `rating`, in 2022
and 2023 under `recommendation`. Times are milliseconds. `pdf` may be "".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from longform.artifacts.rows import Rejected, Shard
from longform.engine.stage import StageContext, stage
from longform.errors import SourceError
from schemas.sources.openreview import SUBMISSIONS
from tasks.sources.files.batches import batch_of, batched
from tasks.sources.files.inputs import raw_text, retrieved_at
from tasks.sources.files.lines import read_lines, split_lines, unpacked

GROUP = "openreview"
SITE = "https://openreview.net"
REPLIES = ".replies.jsonl"
BATCH_ROWS = 1_000
WRAPPING = {"value", "readers", "nonreaders"}

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_YEAR = re.compile(r"/((?:19|20)[0-9]{2})/")
_RATING = re.compile(r"\s*(-?[0-9]{1,3})\s*(?:[:(]|$)")
_PDF = re.compile(r"/(?:pdf|attachment)/[A-Za-z0-9_.-]+")
_LARGEST = 2**31 - 1
_LATEST = 2**53

Note = Mapping[str, Any]


class Decision(NamedTuple):
    """A decision (a word of schemas.sources.openreview.DECISIONS), the text it was read from, and where that text was
    found: a value of SUBMISSIONS.decision_source.
    """

    decision: str
    raw: str | None
    source: str | None


UNKNOWN = Decision("unknown", None, None)


# ---------------------------------------------------------------- notes


def value(content: Any, name: str) -> Any:
    """The field `name` of a note's content; if it is {"value": x}, perhaps with who may read it (WRAPPING), as API v2
    writes it, x. Any other object is returned whole. None if the field is missing or `content` is no object.
    """
    found = content.get(name) if isinstance(content, dict) else None
    if isinstance(found, dict) and "value" in found and found.keys() <= WRAPPING:
        return found["value"]
    return found


def text(content: Any, name: str) -> str | None:
    """The field `name` of a note's content, stripped, if it is a text and not blank; else None."""
    found = value(content, name)
    return found.strip() or None if isinstance(found, str) else None


def invitations(note: Note) -> list[str]:
    """The names of the note's invitations: in API v1 one, in API v2 all; empty if it has none."""
    found = note["invitations"] if is_v2(note) else [note.get("invitation")]
    return [one for one in found if isinstance(one, str)]


def by_kind(replies: Iterable[Note]) -> dict[str, list[Note]]:
    """Last part of an invitation, such as Official_Review, Decision or Meta_Review -> the replies with such an
    invitation, in order. A reply with invitations of several kinds is under each.
    """
    kinds = defaultdict[str, list[Note]](list)
    for reply in replies:
        for kind in dict.fromkeys(map(_last, invitations(reply))):
            kinds[kind].append(reply)
    return kinds


def _last(name: str) -> str:
    """What stands after the last slash; the whole name if it has none."""
    return name.rsplit("/", 1)[-1]


def is_v2(note: Note) -> bool:
    """Whether the note is as API v2 gives it: only there it has a list of invitations."""
    return isinstance(note.get("invitations"), list)


def year_of(note: Note) -> int | None:
    """The year of the note's conference, from its first invitation with a year (1900 to 2099, between slashes), else
    from its venueid; None if neither has one.
    """
    found = map(_YEAR.search, (*invitations(note), f"{value(note.get('content'), 'venueid')}/"))
    return next((int(match[1]) for match in found if match), None)


def direct_replies(note: Note) -> list[Note]:
    """The replies to a submission that its note carries along: the direct ones, else all (`details` of the API); empty
    if it carries none.
    """
    details = note.get("details")
    values = (details.get("directReplies") or details.get("replies")) if isinstance(details, dict) else None
    return [reply for reply in values if isinstance(reply, dict)] if isinstance(values, list) else []


def names(found: Any) -> list[str]:
    """The full names in a field of authors: a list of names, or of API v2's objects with `fullname`, or one of these
    alone. Blank names and those that begin with "anonymous" are left out.
    """
    people = found if isinstance(found, list) else [found]
    values = [person.get("fullname") if isinstance(person, dict) else person for person in people]
    stripped = [name.strip() for name in values if isinstance(name, str)]
    return [name for name in stripped if name and not name.lower().startswith("anonymous")]


def author_ids(content: Any) -> list[str]:
    """The ids of the authors' profiles (~Ada_Lovelace1, or a mail address where there is no profile), in order: from
    `authorids`, else the usernames of API v2's objects in `authors`. Empty while the submission is anonymous.
    """
    found, people = value(content, "authorids"), value(content, "authors")
    if not isinstance(found, list):
        objects = people if isinstance(people, list) else []
        found = [person.get("username") for person in objects if isinstance(person, dict)]
    stripped = [one.strip() for one in found if isinstance(one, str)]
    return [one for one in stripped if one and "anonymous" not in one.lower() and "/" not in one]


def words(found: Any) -> list[str]:
    """The keywords in a list, or in one text that separates them by commas or semicolons; stripped, without blank ones.
    Empty for any other value.
    """
    parts = found if isinstance(found, list) else re.split(r"[;,]", found) if isinstance(found, str) else []
    return [part.strip() for part in parts if isinstance(part, str) and part.strip()]


# ---------------------------------------------------------------- ratings


def rating(found: Any) -> int | None:
    """The whole number in a rating written 8, "8", "8: accept, good paper" or "8 (accept)"; it may be negative. None
    for any other value.
    """
    if isinstance(found, str):
        match = _RATING.match(found)
        return int(match[1]) if match else None
    return _whole(found)


def ratings(reviews: Iterable[Note]) -> list[int | None]:
    """The rating of each of these reviews, the oldest review first; None for a review whose rating cannot be read."""
    return [
        _rated(review.get("content"))
        for review in sorted(reviews, key=lambda note: (_time(note, "cdate", "tcdate") or 0, _own(note, "id")))
    ]


def _own(note: Note, name: str) -> str:
    """The field `name` of the note (an id) if it is a text, else "". Other values must not be made texts: one that
    nests deep would raise.
    """
    found = note.get(name)
    return found if isinstance(found, str) else ""


def _rated(content: Any) -> int | None:
    """The rating in a review's content: in the field `rating`, else in `recommendation`; None if neither has one."""
    read = rating(value(content, "rating"))
    return rating(value(content, "recommendation")) if read is None else read


# ---------------------------------------------------------------- decisions


def decide(note: Note, kinds: Mapping[str, list[Note]]) -> Decision:
    """The decision on a submission, from the first of these that gives one: a venueid of API v2 that says withdrawn or
    desk-rejected, decision note (`_exactly`), meta-review (2019 only), invitation, venueid, venue; else `unknown`. In
    API v2 invitations count after the venueid, as they say what once was.

    `kinds`: its replies, as `by_kind` groups them. A text in which no decision is recognised is passed over; if nothing
    else gives a decision, the first such text is `raw` of the `unknown` one. A venueid that says "under review" ends
    the search with `unknown`, and so do texts of one source that name different decisions.
    """
    unread: list[Decision] = []
    states = (_by_venueid, _by_invitation) if is_v2(note) else (_by_invitation, _by_venueid)
    for rule in (_by_last_state, _by_note, _by_meta_review, *states, _by_venue):
        if found := rule(note, kinds):
            if found.decision != "unknown" or found.source in ("venueid", "disagreement"):
                return _exactly(found, note)
            unread.append(found)
    return unread[0] if unread else UNKNOWN


@lru_cache(maxsize=256)
def read_decision(words: str) -> str:
    """The decision named in the text of a decision note or recommendation: "Accept: notable-top-25%" is
    `accept_spotlight`, "Accept (Talk)" `accept_oral`, "Accept" alone `accept`, "Reject" `reject`; `unknown` if none is
    named. A text that says workshop, withdrawn, desk-rejected or rejected is that, even if it also says accept.
    """
    accepted = re.search(r"(?<!not )\baccept", words.lower())
    return _read(words, (*_DECISIONS, *_KINDS_OF_ACCEPTANCE, ("", "accept")) if accepted else _DECISIONS)


@lru_cache(maxsize=256)
def read_venue(words: str) -> str:
    """The decision named in a venue: "ICLR 2024 spotlight" is `accept_spotlight`, "Submitted to ICLR 2024" is `reject`;
    `unknown` if none is named.
    """
    return _read(words.strip(), _VENUES)


def _read(words: str, rules: Iterable[tuple[str, str]]) -> str:
    """The decision of the first of the (pattern, decision) pairs in `rules` whose pattern is found in the text in lower
    case, else `unknown`.
    """
    lower = words.lower()
    return next((decision for pattern, decision in rules if re.search(pattern, lower, re.DOTALL)), "unknown")


_KINDS_OF_ACCEPTANCE = (
    (r"\b(oral|talk)\b|\btop[- ]5\b", "accept_oral"),
    (r"\bspotlight\b|\btop[- ]25\b", "accept_spotlight"),
    (r"\bposter\b", "accept_poster"),
)
_DECISIONS = (
    ("workshop", "invite_to_workshop"),
    ("withdraw", "withdrawn"),
    ("desk.*reject|reject.*desk", "desk_rejected"),
    ("reject", "reject"),
)
_VENUES = (
    ("workshop.*invite|invite.*workshop", "invite_to_workshop"),
    *_DECISIONS[1:3],
    (r"^submitted to | (submitted|reject|rejected)$", "reject"),
    *_KINDS_OF_ACCEPTANCE,
    (r" accept(ed)?$", "accept"),
)
_BY_LAST_PART = {
    "Withdrawn_Submission": "withdrawn",
    "Withdraw_Submission": "withdrawn",
    "Desk_Rejected_Submission": "desk_rejected",
    "Desk_Reject_Submission": "desk_rejected",
}


def _by_last_state(note: Note, kinds: Mapping[str, list[Note]]) -> Decision | None:
    """Withdrawn or desk-rejected, if the venueid says so in API v2, where it is the last state of a submission: one
    that was withdrawn after its acceptance keeps its decision note. None for any other.
    """
    found = _by_venueid(note, kinds) if is_v2(note) else None
    return found if found and found.decision in ("withdrawn", "desk_rejected") else None


def _exactly(found: Decision, note: Note) -> Decision:
    """The decision; if it is `accept` alone and the venue says which kind (oral, spotlight, poster), that one, with
    both texts as `raw`.
    """
    venue = text(note.get("content"), "venue") if found.decision == "accept" else None
    kind = read_venue(venue) if venue else ""
    if not kind.startswith("accept_"):
        return found
    return Decision(kind, " | ".join(dict.fromkeys(one for one in (found.raw, venue) if one)), "venue")


def _by_note(note: Note, kinds: Mapping[str, list[Note]]) -> Decision | None:
    """The decision in the decision notes that reply to the submission itself; None without such a text, `unknown` if
    none is recognised in it or the texts disagree.
    """
    notes = _to_itself(note, kinds, "Decision", "Acceptance_Decision")
    return _agreed((text(one.get("content"), "decision") for one in notes), "decision_note")


def _by_meta_review(note: Note, kinds: Mapping[str, list[Note]]) -> Decision | None:
    """The decision in the recommendation of the meta-review, in 2019 only: later a meta-review recommends, and does not
    decide. None in other years or without such a text; `unknown` if no decision is recognised or the texts disagree.
    """
    if year_of(note) != 2019:
        return None
    reviews = _to_itself(note, kinds, "Meta_Review")
    return _agreed((text(review.get("content"), "recommendation") for review in reviews), "meta_review")


def _to_itself(note: Note, kinds: Mapping[str, list[Note]], *names: str) -> list[Note]:
    """The replies of the kinds `names` (as in `by_kind`) that reply to the submission `note`, not to another reply;
    also those that do not say what they reply to.
    """
    own = (None, note.get("id"), note.get("forum"))
    return [reply for name in names for reply in kinds.get(name, ()) if reply.get("replyto") in own]


def _agreed(texts: Iterable[str | None], source: str) -> Decision | None:
    """The decision that the texts name, with the first as `raw`; None if there are no texts. If they name different
    ones, or only some of them name one, `unknown` from the source "disagreement", with all texts as `raw`.
    """
    raws = list(dict.fromkeys(one for one in texts if one))
    if len({read_decision(one) for one in raws}) > 1:
        return Decision("unknown", " | ".join(raws), "disagreement")
    return Decision(read_decision(raws[0]), raws[0], source) if raws else None


def _by_invitation(note: Note, _: Mapping[str, list[Note]]) -> Decision | None:
    """Withdrawn or desk-rejected, by the first of the note's invitations that says so; None if none does."""
    found = ((_BY_LAST_PART.get(_last(name)), name) for name in invitations(note))
    return next((Decision(decision, name, "invitation") for decision, name in found if decision), None)


_OF_VENUEIDS = {
    "Withdrawn_Submission": "withdrawn",
    "Desk_Rejected_Submission": "desk_rejected",
    "Rejected_Submission": "reject",
}


def _by_venueid(note: Note, _: Mapping[str, list[Note]]) -> Decision | None:
    """The decision that the last part of the venueid names: withdrawn, desk-rejected or rejected; in API v2 also
    `unknown` for a submission under review, and for the conference's own venueid what `_of_conference` reads. None for
    any other venueid, or without one.
    """
    venueid = text(note.get("content"), "venueid")
    if venueid is None:
        return None
    last = _last(venueid)
    named = _OF_VENUEIDS | ({"Submission": "unknown"} if is_v2(note) else {})
    if last in named:
        return Decision(named[last], venueid, "venueid")
    return _of_conference(note, venueid) if last == "Conference" and is_v2(note) else None


def _of_conference(note: Note, venueid: str) -> Decision:
    """The decision on a submission with the conference's own venueid, which in API v2 means accepted: `accept`, or what
    the venue says more exactly (oral, spotlight, poster, invited to a workshop). If the venue says rejected,
    desk-rejected or withdrawn, `unknown` from the source "disagreement".
    """
    venue = text(note.get("content"), "venue")
    read = read_venue(venue) if venue else "accept"
    if read in ("reject", "withdrawn", "desk_rejected"):
        return Decision("unknown", f"{venueid} | {venue}", "disagreement")
    return Decision("accept" if read == "unknown" else read, venue or venueid, "venueid")


def _by_venue(note: Note, _: Mapping[str, list[Note]]) -> Decision | None:
    """The decision named in the note's venue, `unknown` if none is recognised; None without a venue."""
    venue = text(note.get("content"), "venue")
    return Decision(read_venue(venue), venue, "venue") if venue else None


# ---------------------------------------------------------------- rows


class Replies:
    """Notes in files of their own, apart from the submissions they reply to (2018: the decisions), looked up by forum.

    An argument of a stage, identified in its recipe by the hashes of the files' contents.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        """`files`: path -> sha256."""
        self.files = dict(files)

    def identity(self) -> list[str]:
        """The SHA-256 of each file's content, sorted."""
        return sorted(set(self.files.values()))

    def to(self, forum: str) -> list[Note]:
        """The notes that belong to this forum, which is the note id of a submission; empty if there are none.
        SourceError if a file has a line that is no note.
        """
        return self._by_forum.get(forum, [])

    @cached_property
    def _by_forum(self) -> dict[str, list[Note]]:
        """Forum -> its notes, in the order of the files' paths and lines. SourceError for a line that is no note."""
        found = defaultdict[str, list[Note]](list)
        for path in sorted(self.files):
            for line in split_lines(unpacked(Path(path)), path):
                try:
                    note = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise SourceError(f"{path} holds a line that is no JSON ({error}): fetch it again.") from None
                if not isinstance(note, dict):
                    raise SourceError(f"{path} holds a line that is no note: fetch it again.")
                found[_own(note, "forum")].append(note)
        return found


def submission(note: Note, replies: list[Note], retrieved: int | None) -> tuple[Any, ...] | str:
    """The row of SUBMISSIONS made from a note and its replies; or, as a text, why the note is no submission: no valid
    id, no content or invitation, no year, or neither title nor abstract. `retrieved`: milliseconds since 1970.
    """
    number, forum, content, year = _own(note, "id"), _own(note, "forum"), note.get("content"), year_of(note)
    if not _ID.fullmatch(number):
        return "missing or ill-formed id"
    if not isinstance(content, dict) or not (note.get("invitation") or note.get("invitations")):
        return "no note of OpenReview"
    if year is None:
        return "no year in its invitation"
    title, abstract = text(content, "title"), text(content, "abstract")
    if title is None and abstract is None:
        return "neither title nor abstract"
    kinds = by_kind(replies)
    forum = forum if _ID.fullmatch(forum) else number
    return (
        f"{GROUP}/{number}",
        forum,
        year,
        _whole(note.get("number")),
        title,
        abstract,
        names(value(content, "authors")),
        author_ids(content),
        words(value(content, "keywords")),
        *decide(note, kinds),
        ratings(kinds.get("Official_Review", ())),
        text(content, "venue"),
        text(content, "venueid"),
        pdf_path(note),
        _time(note, "cdate", "tcdate"),
        _time(note, "mdate", "tmdate"),
        licence_of(note),
        f"{SITE}/forum?id={forum}",
        retrieved,
    )


def licence_of(note: Note) -> str | None:
    """The licence of a submission: the note's own field `license` (API v2), else that of its content, which some
    conferences ask for in their form; None if neither says one.
    """
    own = note.get("license")
    return (own.strip() or None if isinstance(own, str) else None) or text(note.get("content"), "license")


def pdf_path(note: Note) -> str | None:
    """The path of the note's PDF on OpenReview's site, such as /pdf/9f.pdf; None if it names none there."""
    path = text(note.get("content"), "pdf")
    return path if path and _PDF.fullmatch(path) else None


def _time(note: Note, name: str, other: str) -> int | None:
    """The time in field `name` of the note, else in field `other`, in milliseconds since 1970; None if neither has
    one.
    """
    time = _whole(note.get(name), _LATEST)
    return _whole(note.get(other), _LATEST) if time is None else time


def _whole(found: Any, largest: int = _LARGEST) -> int | None:
    """The value if it is a whole number from -`largest` to `largest`, else None."""
    return found if type(found) is int and -largest <= found <= largest else None


# ---------------------------------------------------------------- stage


@stage(SUBMISSIONS, revision=3)
def read_submissions(context: StageContext, files: Shard, *, replies: Replies) -> Iterator[pa.RecordBatch | Rejected]:
    """Submissions with their decisions and ratings, in the order of the file, from its lines and `replies`. A Rejected
    for each line that is no submission, is a reply, or repeats an id.
    """
    yield from parse_submissions(read_lines(files), replies, retrieved_at(files.source))


def parse_submissions(
    lines: Iterable[bytes], replies: Replies, retrieved: int | None
) -> Iterator[pa.RecordBatch | Rejected]:
    """Record batches of SUBMISSIONS, in the lines' order, and a Rejected for each line that is not used: a defect if
    it is no submission, filtered if it is a reply or repeats an earlier id.

    `replies`: notes kept in files of their own, from which decisions and ratings are also read; SourceError if a line
    there is no note. `retrieved`: when the file was fetched, in milliseconds since 1970.
    """
    seen: set[str] = set()
    rows = (_row(line, position, replies, retrieved, seen) for position, line in enumerate(lines, start=1))
    weighed = (row if isinstance(row, Rejected) else (row, 1) for row in rows)
    yield from batched(weighed, lambda rows: batch_of(rows, SUBMISSIONS), rows=BATCH_ROWS)


def _row(
    line: bytes, position: int, replies: Replies, retrieved: int | None, seen: set[str]
) -> tuple[Any, ...] | Rejected:
    """The row of SUBMISSIONS of a line, or a Rejected that says why there is none. `position`: the line's number, from
    1. `seen`: the keys of the notes so far that are no replies, to which this one's is added.
    """
    try:
        note = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return _defect(f"line {position}", "unreadable line", line, str(error))
    if not isinstance(note, dict):
        return _defect(f"line {position}", "no note of OpenReview", line)
    key = f"{GROUP}/{_own(note, 'id')}" if _own(note, "id") else f"line {position}"
    if note.get("replyto") is not None and note.get("id") != note.get("forum"):
        return Rejected(key, "filtered", "a reply, not a submission", "; ".join(invitations(note)))
    if key in seen:
        return Rejected(key, "filtered", "seen before in this file")
    seen.add(key)
    row = submission(note, [*direct_replies(note), *replies.to(_own(note, "forum"))], retrieved)
    return _defect(key, row, line) if isinstance(row, str) else row


def _defect(key: str, reason: str, line: bytes, detail: str | None = None) -> Rejected:
    """A Rejected of the kind `defect`, with the beginning of the line as `raw`."""
    return Rejected(key, "defect", reason, detail, raw_text(line))
