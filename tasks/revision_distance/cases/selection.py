"""Selection of writing cases: the easy task from WildChat and the free task, without reference, from UltraFeedback.

Easy (appendix A): the first user turn asks for an e-mail, a letter or an article (by the rules of cases/requests.py);
the model's first reply is the reference. Requests in later turns are not taken, since they depend on earlier turns.
Free (section 4): instructions that ask for any kind of writing. As in the preference set of the paper, the completion
with the highest mean of its ratings (`fine_grained_score`) is chosen, and one drawn among those with a lower mean is
rejected; draws are by hash of the seed and the instruction. Completions without a mean are left out; `overall_score`,
which is known to be faulty, is not used.

Bounds in words apply to the reference and to the chosen completion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, islice
from typing import Any

from xxhash import xxh3_64_intdigest

from longform.artifacts.rows import Rejected, Row, Rows
from longform.engine.stage import AtMost, StageContext, stage
from schemas.revision_distance import EASY, FREE
from tasks.revision_distance.cases.requests import Asked, asked, check_languages, plain, words_of
from tasks.text.scrub import scrub

LEAST_REQUEST_WORDS, MOST_REQUEST_WORDS = 3, 500
LATER_TURNS = 10
ROWS_AT_ONCE = 200
LINE_CHARACTERS, ASKING_CHARACTERS = 80, 400
MOST_ASKING_WORDS = 120
ENGLISH = "English"

TOXIC, LANGUAGE = "flagged as toxic", "another language"
NO_REQUEST, LATER, OTHER_KIND = "no writing request", "asked for in a later turn only", "another kind of writing"
SHORT_REQUEST, LONG_REQUEST = "request too short", "request too long"
NO_REPLY, REFUSES, ASKS_BACK = "no reply", "reply refuses", "reply asks back"
SHORT, LONG = "text too short", "text too long"
NO_SCORE, NO_LOWER = "no rated completion", "no completion with a lower score"

CONVERSATION = (
    "conversation_id", "model", "language", "turns", "toxic", "licence", "revision", "url", "retrieved_at",
)  # fmt: skip
COMPLETION = ("instruction_id", "instruction", "completions", "licence", "revision", "url", "retrieved_at")


def _rows(rows: Rows, columns: Sequence[str]) -> Iterator[Row]:
    """The rows as dicts with these columns, read in batches of ROWS_AT_ONCE."""
    return (row for batch in rows.batches(list(columns), size=ROWS_AT_ONCE) for row in batch.to_pylist())


# ---------------------------------------------------------------- conversations


@stage(EASY, revision=5, at_most=AtMost(rows=lambda of: of["conversations"]))
def select_conversations(
    context: StageContext,
    conversations: Rows,
    *,
    kinds: Sequence[str],
    languages: list[str],
    least_words: int,
    most_words: int,
    regions: list[str],
) -> Iterator[Row | Rejected]:
    """Easy cases: conversations that begin with a request for one of `kinds`; the first reply is the reference.

    A Rejected, with the reason, for every other conversation. `languages`: full names, as in the source; UsageError
    for one without words in selection.json. `regions`: those of `scrub`. `least_words`, `most_words`: of the reply.
    """
    check_languages(languages)
    for row in _rows(conversations, CONVERSATION):
        case = easy_case(row, kinds, languages, least_words, most_words, regions)
        yield Rejected(row["conversation_id"], "filtered", case) if isinstance(case, str) else case


def easy_case(
    row: Mapping[str, Any],
    kinds: Sequence[str],
    languages: Sequence[str],
    least_words: int,
    most_words: int,
    regions: Sequence[str],
) -> Row | str:
    """The row of EASY of a conversation; or the reason why it is no case.

    `row`: a row of conversations; the other parameters are those of `select_conversations`. In request and reply
    personal data (mail addresses, phone numbers, handles) is replaced by marks.
    """
    if row["toxic"]:
        return TOXIC
    request, reply, later = _turns(row["turns"])
    language = (request["language"] if request else None) or row["language"]
    if language not in languages:
        return LANGUAGE
    found = asked(request["content"], language) if request else None
    if request is None or found is None:
        return LATER if any(asked(text, language) for text in later) else NO_REQUEST
    if found.kind not in kinds:
        return OTHER_KIND
    if reason := _unfit_request(request["content"]):
        return reason
    if reply is None or not reply["content"].strip():
        return NO_REPLY
    if (reply["language"] or language) not in languages:
        return LANGUAGE
    if reason := refusal(reply["content"], language) or _length(reply["content"], least_words, most_words):
        return reason
    asking, reference = (scrub(turn["content"].strip(), regions) for turn in (request, reply))
    return {
        **_case(f"easy/{row['conversation_id']}", "easy", found, row),
        "request": asking.text,
        "reference": reference.text,
        "reference_by": row["model"],
        "given": [],
        "scrubbed": asking.marks + reference.marks,
        "conversation_id": row["conversation_id"],
    }


def _turns(turns: list[Row]) -> tuple[Row | None, Row | None, list[str]]:
    """(first user turn, the model's turn right after it, texts of the later user turns); None for a missing turn.

    At most LATER_TURNS later texts.
    """
    request, reply, *_ = (*dropwhile(lambda turn: turn["role"] != "user", turns), None, None)
    users = (turn["content"] for turn in turns if turn["role"] == "user")
    written = reply if reply and reply["role"] == "assistant" else None
    return request, written, list(islice(users, 1, 1 + LATER_TURNS))


def _unfit_request(text: str) -> str | None:
    """SHORT_REQUEST below LEAST_REQUEST_WORDS words, LONG_REQUEST above MOST_REQUEST_WORDS; else None."""
    return _length(text, LEAST_REQUEST_WORDS, MOST_REQUEST_WORDS, SHORT_REQUEST, LONG_REQUEST)


def _length(text: str, least: int, most: int, short: str = SHORT, long: str = LONG) -> str | None:
    """`long` for a text of more than `most` words, `short` for one of fewer than `least`; else None.

    Words are what white space separates.
    """
    number = len(text.split(maxsplit=most + 1))
    if number > most:
        return long
    return short if number < least else None


def refusal(reply: str, language: str = ENGLISH) -> str | None:
    """REFUSES for a reply that refuses, ASKS_BACK for one that only asks for details; None for one that writes.

    A reply that begins with what a model cannot do counts as a refusal even if a text follows. One that asks back does
    so in its first ASKING_CHARACTERS characters, has at most MOST_ASKING_WORDS words, and no line that begins with a
    subject or a salutation. UsageError for an unknown `language`.
    """
    phrases, opening = words_of(language).phrases, plain(reply[: 2 * ASKING_CHARACTERS]).lstrip("*#> \"'\n\r\t")
    if opening.startswith(phrases["refusals"]):
        return REFUSES
    asks = any(phrase in opening[:ASKING_CHARACTERS] for phrase in phrases["asks_back"])
    short = len(reply.split(maxsplit=MOST_ASKING_WORDS)) <= MOST_ASKING_WORDS
    # letters and e-mails have a line that begins with a subject or a salutation
    lines = (plain(line[:LINE_CHARACTERS]).lstrip("*#> \"'") for line in reply[: 20 * ASKING_CHARACTERS].splitlines())
    return ASKS_BACK if asks and short and not any(line.startswith(phrases["salutations"]) for line in lines) else None


def _case(case_id: str, task: str, found: Asked, row: Mapping[str, Any]) -> Row:
    """The columns that rows of EASY and FREE share.

    `found`: the kind of writing and its rule; `row`: the source's row, with licence, url, revision and retrieved_at.
    """
    return {
        "case_id": case_id,
        "task": task,
        "kind": found.kind,
        "rule": found.rule,
        "title": None,
        "abstract": None,
        "cited": [],
        **{name: row[name] for name in ("licence", "url", "revision", "retrieved_at")},
    }


# ---------------------------------------------------------------- preferences


@stage(FREE, revision=5, at_most=AtMost(rows=lambda of: of["completions"]))
def select_preferences(
    context: StageContext, completions: Rows, *, seed: int, least_words: int, most_words: int, regions: list[str]
) -> Iterator[Row | Rejected]:
    """Free cases: instructions that ask for any kind of writing, with a chosen and a rejected completion each.

    A Rejected, with the reason, for every other instruction. `seed`: of the draw among completions. `least_words`,
    `most_words`: of the chosen completion. `regions`: those of `scrub`.
    """
    for row in _rows(completions, COMPLETION):
        case = free_case(row, seed, least_words, most_words, regions)
        yield Rejected(row["instruction_id"], "filtered", case) if isinstance(case, str) else case


def free_case(
    row: Mapping[str, Any], seed: int, least_words: int, most_words: int, regions: Sequence[str]
) -> Row | str:
    """The row of FREE of an instruction; or the reason why it is no case.

    `row`: an instruction with its completions; the other parameters are those of `select_preferences`. In all texts
    personal data (mail addresses, phone numbers, handles) is replaced by marks.
    """
    found = asked(row["instruction"], ENGLISH)
    if found is None:
        return NO_REQUEST
    if reason := _unfit_request(row["instruction"]):
        return reason
    drawn = chosen_and_rejected(row["completions"], row["instruction_id"], seed)
    if isinstance(drawn, str):
        return drawn
    chosen, rejected = drawn
    if reason := refusal(chosen["response"]) or _length(chosen["response"], least_words, most_words):
        return reason
    texts = [scrub(text.strip(), regions) for text in (row["instruction"], chosen["response"], rejected["response"])]
    return {
        **_case(f"free/{row['instruction_id']}", "free", found, row),
        "request": texts[0].text,
        "reference": None,
        "reference_by": None,
        "given": [_draft("chosen", chosen, texts[1].text), _draft("rejected", rejected, texts[2].text)],
        "scrubbed": sum(text.marks for text in texts),
        "instruction_id": row["instruction_id"],
    }


def chosen_and_rejected(completions: Sequence[Row], instruction_id: str, seed: int) -> tuple[Row, Row] | str:
    """(completion with the highest mean rating, one drawn among those with a lower one); or the reason for none.

    The reason is NO_SCORE if no completion has a mean rating, NO_LOWER if there is none to reject. Among several with
    the highest mean, one is drawn, too. Lower ones with the same words as the chosen one are left out.
    """
    rated = [one for one in completions if one["fine_grained_score"] is not None]
    if not rated:
        return NO_SCORE
    highest = max(one["fine_grained_score"] for one in rated)

    def luck(one: Row) -> tuple[int, str]:
        """The sort key of a completion in the draw: the lowest is drawn."""
        key = f"{seed}\x1f{instruction_id}\x1f{one['model']}\x1f{one['response']}"
        return xxh3_64_intdigest(key.encode("utf-8", "surrogatepass")), key

    chosen = min((one for one in rated if one["fine_grained_score"] == highest), key=luck)
    others = (one for one in rated if one["fine_grained_score"] < highest)
    lower = [one for one in others if one["response"].split() != chosen["response"].split()]
    return (chosen, min(lower, key=luck)) if lower else NO_LOWER


def _draft(system: str, one: Row, text: str) -> Row:
    """An element of the column `given`: the completion `one` as a draft of `system`, with this text.

    The writer is its model (None if empty), the score its mean rating.
    """
    return {"system": system, "text": text, "writer": one["model"] or None, "score": one["fine_grained_score"]}
