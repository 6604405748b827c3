"""The audits of LLMCrit: changed texts and feedback that are none, texts on both sides, judges that say yes to all.

`change_texts`, `write_demonstrations` and `choose_feedback` apply those of single rows, so that nothing is bought for
what they find.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from longform.artifacts.rows import Row
from tasks.publishing.audits import Audit, Audits, Kinds, QueryAudit, VersionAudit
from tasks.publishing.generated import CEILING, audits_of_texts, generated, is_generated
from tasks.text.audits.equality import equal_texts

HIT_RATE = 0.5  # a judge whose share of right verdicts on planted feedback is lower is none
LEAST_PLANTED = 5  # verdicts; of fewer the share says nothing


def _changes(row: Row) -> Iterator[tuple[str, str, str]]:
    stays = row.get("kind") == 4 and equal_texts(row["text"], row["original"])  # as it may; nothing of it is generated
    if is_generated(row["response"], row["model"]) and not stays:
        yield "text", row["original"] or "", row["text"]


def _written(row: Row, column: str, of: str) -> Iterator[tuple[str, str, str]]:
    if is_generated(row["response"], row["model"]):
        yield column, row.get(of) or "", row[column]


def _unmodified(row: Row) -> str | None:
    """What is wrong with a text that was to be changed and is as it was."""
    as_it_was = row["original"] is not None and row.get("kind") != 4 and equal_texts(row["text"], row["original"])
    return "the text was left as it was" if as_it_was else None


OF_CHANGES = (Audit("unchanged", CEILING, _unmodified), *audits_of_texts(_changes, generated()))
OF_FEEDBACK = audits_of_texts(partial(_written, column="feedback", of="text"), generated(), answers=False)
OF_DEMONSTRATIONS = audits_of_texts(partial(_written, column="output", of="input"), generated(), answers=False)


_BARE = r"lower(trim(regexp_replace({}, '\s+', ' ', 'g')))"
_EQUAL = f"""
    SELECT 'feedback', feedback_id, 'the feedback of ' || number || ' aspects' FROM (
        SELECT feedback_id, count(DISTINCT aspect_id) OVER of AS number
        FROM {{feedback}} WHERE granularity = 'aspect'
        WINDOW of AS (PARTITION BY text_id, strategy, model, {_BARE.format("feedback")})
    ) WHERE number > 1 ORDER BY 2
"""
_BOTH_SIDES = f"""
    SELECT 'demonstrations', demonstration_id, 'a text of the test: ' || t.text_id
    FROM {{demonstrations}} AS d JOIN {{texts}} AS t
    ON d.text_id = t.text_id OR {_BARE.format("d.input")} IN ({_BARE.format("t.text")}, {_BARE.format("t.original")})
    WHERE d.task = t.task ORDER BY 2, 3
"""
_MISSED = f"""
    SELECT 'checks', check_id, layer || ': the judge of ' || task || ' says ' || verdict || ' of planted feedback (' ||
        planted || '), as of most of it'
    FROM (
        SELECT *, avg(hit::INT) OVER of AS rate, count(*) OVER of AS number
        FROM {{checks}} WINDOW of AS (PARTITION BY task, layer, planted, model)
    ) WHERE NOT hit AND rate < {HIT_RATE} AND number >= {LEAST_PLANTED} ORDER BY 2
"""
EQUAL, BOTH_SIDES, JUDGES = "equal_feedback", "text_on_both_sides", "planted_feedback"

AUDITS = Audits(
    rows={"texts": OF_CHANGES, "feedback": OF_FEEDBACK, "demonstrations": OF_DEMONSTRATIONS},
    version=(
        VersionAudit(EQUAL, CEILING, QueryAudit(EQUAL, ("feedback",), _EQUAL), ("feedback",)),
        VersionAudit(
            BOTH_SIDES, 0.0, QueryAudit(BOTH_SIDES, ("demonstrations", "texts"), _BOTH_SIDES), ("demonstrations",)
        ),
        VersionAudit(JUDGES, 0.0, QueryAudit(JUDGES, ("checks",), _MISSED), ("checks",)),
    ),
    kinds=(Kinds("strategy", ("give_feedback",), "choose_feedback", asked="prompts"),),
    applied={"texts": "change_texts", "feedback": "choose_feedback", "demonstrations": "write_demonstrations"},
)
