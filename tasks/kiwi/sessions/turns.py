"""The sessions of all origins together, their turns one by one, and the sides of the splits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Literal

from longform.artifacts.parts import key_hash
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, distinct
from longform.engine.stage import AtMost, StageContext, stage
from schemas.kiwi import MEASURES, SESSIONS, SIDES, TURNS
from tasks.kiwi.audits import SIMULATED
from tasks.kiwi.interaction import MOST_TURNS, is_dropped
from tasks.sources.admission import REASON
from tasks.sources.papers.named import names_of_paper, taken_down_papers
from tasks.text.audits.equality import bare

SplitBy = Literal["questions", "turns"]
TRAIN, VALIDATION, TEST = "train", "validation", "test"
OF_PAPER = 1_260
HELD_OUT = 186  # turns of validation and of test, of OF_PAPER
TWICE = "a session that comes again"


@stage(SESSIONS, revision=1, at_most=AtMost(rows=lambda of: of["read"] + of["simulated"]))
def collect_sessions(
    context: StageContext,
    read: AllRows,
    simulated: AllRows,
    questions: AllRows,
    asked: AllRows,
    *,
    takedowns: Collection[str] = (),
) -> Iterator[Row | Rejected]:
    """The sessions that were read and simulated, each once, with the id of their question, where a question has the
    same words. A Rejected for a session that is there already, and for one that shows a passage of a paper that is
    taken down. `asked`: questions by people, which may tell the title of such a paper.
    """
    ids = {bare(row["question"]): row["question_id"] for row in questions.as_dicts("question_id", "question")}
    known, listed = set(ids.values()), taken_down_papers(asked, takedowns)
    for row in distinct(chain(read, simulated), "session_id", TWICE):
        if isinstance(row, Rejected):
            yield row
        elif listed and any(names & listed for names in papers_shown(row)):
            yield Rejected(row["session_id"], "filtered", REASON)
        elif row["question_id"] in known:
            yield row
        else:
            yield {**row, "question_id": ids.get(bare(row["question"]), row["question_id"])}


def papers_shown(session: Row) -> Iterator[set[str]]:
    """The ids of the paper of each passage that a session shows."""
    for passage in chain(session["passages"], *(turn["passages"] for turn in session["turns"])):
        yield names_of_paper(paper_of(passage["passage_id"], session["question_id"]), passage["title"])


def paper_of(passage_id: str | None, question_id: str) -> str | None:
    """The paper_id in a passage_id of a question; None if it is none of this question."""
    if passage_id is None or not passage_id.startswith(f"{question_id}/"):
        return None
    return passage_id.removeprefix(f"{question_id}/").rpartition("#")[0] or None


@stage(TURNS, revision=1, at_most=AtMost(rows=lambda of: MOST_TURNS * of["sessions"]))
def list_turns(context: StageContext, sessions: Rows) -> Iterator[Row]:
    """The turns of the sessions, one by one."""
    for session in sessions:
        kept = {name: session[name] for name in TURNS.names if name in session}
        for turn in session["turns"]:
            names = {"turn_id": f"{session['session_id']}#{turn['position']}"}
            yield {**kept, **turn, **names, "dropped": is_dropped(turn["rating"], turn["edited"])}


# ---------------------------------------------------------------- sides


@stage(SIDES, revision=1, at_most=AtMost(keeps=True))
def split_turns(context: StageContext, turns: AllRows, *, split_by: SplitBy, seed: int) -> Iterator[Row]:
    """The side of each turn: train, validation or test; simulated for a simulated one.

    By questions: all turns of a question stand on one side, by its hash, so that no answer stands on two and new
    sessions move nothing; shares are those of the paper on average. By turns: as in the paper, 888, 186 and 186 of
    1,260, though the answer before a turn of test may be the answer of a turn of train.
    """
    rows = list(turns.as_dicts("turn_id", "question_id", "question", "origin"))
    real = [row for row in rows if row["origin"] != SIMULATED]
    held = round(HELD_OUT * len(real) / OF_PAPER)
    ranked = (
        sorted(real, key=lambda row: key_hash(f"{seed}\x1fturn\x1f{row['turn_id']}")) if split_by == "turns" else []
    )
    by_turn = {row["turn_id"]: _of_rank(place, held) for place, row in enumerate(ranked)}
    for row in rows:
        side = by_turn.get(row["turn_id"]) or side_of_question(row["question"], seed)
        kept = {name: row[name] for name in ("turn_id", "question_id")}
        yield {**kept, "split": SIMULATED if row["origin"] == SIMULATED else side}


def _of_rank(place: int, held: int) -> str:
    """The side of the turn with this rank, of which the first `held` are test, the next as many validation."""
    return TEST if place < held else VALIDATION if place < 2 * held else TRAIN


def side_of_question(question: str, seed: int) -> str:
    """The side of a question, by the hash of its words."""
    share = key_hash(f"{seed}\x1fquestion\x1f{bare(question)}") / 2**64
    held = HELD_OUT / OF_PAPER
    return TEST if share < held else VALIDATION if share < 2 * held else TRAIN


# ---------------------------------------------------------------- what an edit took


def words(text: str) -> list[str]:
    """The words of a text: what stands between white space."""
    return text.split()


@stage(MEASURES, revision=1, at_most=AtMost(keeps=True))
def measure_edits(context: StageContext, turns: Rows) -> Iterator[Row | Rejected]:
    """Lengths and word-level Levenshtein distance from before to target (table 6); a Rejected without a target."""
    from rapidfuzz.distance import Levenshtein

    for turn in turns.as_dicts("turn_id", "question_id", "instruction", "before", "answer", "edited", "rating"):
        target = target_of(turn)
        if target is None:
            yield Rejected(turn["turn_id"], "filtered", "neither good nor edited")
            continue
        source, final = words(turn["before"]), words(target)
        distance = Levenshtein.distance(source, final)
        yield {
            **{name: turn[name] for name in ("turn_id", "question_id")},
            "target": "edited" if turn["edited"] is not None else "answer",
            "instruction_words": len(words(turn["instruction"])),
            "source_words": len(source),
            "target_words": len(final),
            "length_ratio": len(final) / len(source) if source else None,
            "edit_distance": distance,
            "edit_ratio": distance / len(source) if source else None,
        }


def target_of(turn: Row) -> str | None:
    """What a turn's answer was to become: the edited answer, else the model's if it is good; None otherwise."""
    return turn["edited"] if turn["edited"] is not None else turn["answer"] if turn["rating"] == "good" else None
