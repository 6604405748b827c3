"""Planted feedback: right or wrong by the way it is made, mixed in among what the judges see, as a check of them.

advice       a rule as advice, on no text             not specific
other text   quotes another text of the task          specific, not match
praise       says that all is well                    no critique
vague        says that it could be better             a critique, not helpful
own          quotes the text and says what to do      specific, match
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, grouped
from longform.engine.stage import AtMost, StageContext, stage
from schemas.llmcrit import CHECKS, PLANTED
from tasks.llmcrit.criteria.criteria import label

VALIDITY, CONTEXT, CONSTRUCTIVE, HELPFUL = "validity", "context", "constructive", "helpful"
YES, NO = "yes", "no"
EXPECTED: Mapping[str, Mapping[str, str]] = {  # kind -> layer -> the right verdict
    "advice": {VALIDITY: "not specific"},
    "other text": {VALIDITY: "specific", CONTEXT: "not match"},
    "praise": {CONSTRUCTIVE: NO},
    "vague": {CONSTRUCTIVE: YES, HELPFUL: NO},
    "own": {VALIDITY: "specific", CONTEXT: "match"},
}
QUOTED = slice(20, 160)  # characters that a quoted line has

_WORDS = {
    "advice": "Writers should keep to this rule whatever they write. {check}",
    "other text": "1. **{name}**:\n    - In “{other}” this {noun} does it well; the part after it does not follow and "
    "should be rewritten.",
    "praise": "1. **{name}**:\n    - The {noun} does this well; nothing has to be changed.",
    "vague": "1. **{name}**:\n    - This could be better.",
    "own": "1. **{name}**:\n    - In “{own}” this {noun} could say more plainly what is meant; put the main point "
    "first and shorten what follows it.",
}


def asked_of(layers: set[str]) -> set[str]:
    """The kinds of planted feedback that are put to a judge of these layers."""
    return {kind for kind, expected in EXPECTED.items() if layers & expected.keys()}


@stage(PLANTED, revision=1, at_most=AtMost(rows=lambda of: len(EXPECTED) * of["texts"] * bool(of["number"])))
def plant_feedback(
    context: StageContext,
    texts: Rows,
    others: AllRows,
    criteria: AllRows,
    *,
    number: int,
    nouns: dict[str, str],
    seed: int,
) -> Iterator[Row | Rejected]:
    """Feedback of each kind on `number` texts of each task, drawn by the seed, each on one criterion that is drawn. A
    Rejected for each other text. `others`: all texts, of which lines are quoted.
    """
    of_task, lines = grouped(criteria, "task"), grouped(others.as_dicts("text_id", "task", "text"), "task")
    ranked = {
        task: sorted((row["text_id"] for row in rows), key=lambda name: key_hash(f"{seed}\x1fplanted\x1f{name}"))
        for task, rows in lines.items()
    }
    for text in texts:
        if text["text_id"] in ranked[text["task"]][:number] and of_task[text["task"]]:
            yield from _planted(text, lines[text["task"]], of_task[text["task"]], nouns[text["task"]])
        else:
            yield Rejected(text["text_id"], "filtered", "nothing is planted on it")


def _planted(text: Row, others: list[Row], criteria: list[Row], noun: str) -> Iterator[Row]:
    """The rows of PLANTED on a text; without one that quotes another text where no other has a line of its own."""
    criterion = min(criteria, key=lambda row: key_hash(f"{text['text_id']}\x1f{row['criterion_id']}"))
    quoted = {"own": _line(text["text"], ""), "other": ""}
    for other in sorted(others, key=lambda row: key_hash(f"{text['text_id']}\x1f{row['text_id']}")):
        quoted["other"] = quoted["other"] or _line(other["text"], text["text"])
    for kind, words in _WORDS.items():
        needed = {"own": "own", "other text": "other"}.get(kind)
        if needed is None or quoted[needed]:
            yield {
                "feedback_id": f"p_{fingerprint([text['text_id'], kind, criterion['criterion_id']])}",
                "text_id": text["text_id"],
                "task": text["task"],
                "strategy": "planted",
                "granularity": "criterion",
                "aspect_id": criterion["aspect_id"],
                "criteria": [criterion["criterion_id"]],
                "feedback": words.format(name=label(criterion), check=criterion["check"], noun=noun, **quoted),
                "planted": kind,
            }


def _line(text: str, absent_from: str) -> str:
    """The longest line of a text that can be quoted and does not stand in another text; "" if there is none."""
    lines = (line.strip()[: QUOTED.stop].rsplit(" ", 1)[0] for line in text.splitlines() if line.strip())
    fitting = [
        line for line in lines if len(line) >= QUOTED.start and "“" not in line and line not in (absent_from or "\0")
    ]
    return max(fitting, key=len, default="")


@stage(PLANTED, revision=1, at_most=AtMost(rows=lambda sizes: sizes["feedback"] + sizes["planted"]))
def mix_planted(context: StageContext, feedback: Rows, planted: Rows) -> Iterator[Row]:
    """Real and planted feedback in the order of a hash of their ids, as it is put to the judges."""
    real = ({**row, "planted": None} for row in feedback.as_dicts(*PLANTED.names[:-1]))
    yield from sorted([*real, *planted], key=lambda row: key_hash(row["feedback_id"]))


@stage(CHECKS, revision=1, split_by="split", at_most=AtMost(rows=lambda sizes: 2 * sizes["planted"]))
def check_judges(
    context: StageContext, planted: Rows, validity: AllRows, context_: AllRows, critiques: AllRows
) -> Iterator[Row | Rejected]:
    """What the judge of each layer says of planted feedback, and what would be right; a Rejected for feedback on which
    there is no verdict.
    """
    said: dict[str, dict[str, tuple[str, str | None]]] = {}
    for layer, rows in ((VALIDITY, validity), (CONTEXT, context_)):
        for row in rows.as_dicts("feedback_id", "planted", "verdict", "model"):
            if row["planted"]:
                said.setdefault(row["feedback_id"], {})[layer] = (row["verdict"], row["model"])
    for row in critiques.as_dicts("feedback_id", "planted", CONSTRUCTIVE, HELPFUL, "model"):
        if row["planted"]:
            verdicts = {layer: YES if row[layer] else NO for layer in (CONSTRUCTIVE, HELPFUL) if row[layer] is not None}
            said.setdefault(row["feedback_id"], {}).update({name: (of, row["model"]) for name, of in verdicts.items()})
    for row in planted:
        found = said.get(row["feedback_id"], {})
        judged = [layer for layer in EXPECTED[row["planted"]] if layer in found]
        for layer in judged:
            yield _check(row, layer, *found[layer])
        if not judged:
            yield Rejected(row["feedback_id"], "filtered", "no judge has said anything of it")


def _check(row: Row, layer: str, verdict: str, model: str | None) -> Row:
    """A row of CHECKS."""
    expected = EXPECTED[row["planted"]][layer]
    return {
        "check_id": f"{layer}/{row['feedback_id']}",
        **{name: row[name] for name in ("feedback_id", "text_id", "task", "planted", "feedback")},
        "layer": layer,
        "expected": expected,
        "verdict": verdict,
        "hit": verdict == expected,
        "model": model,
        "split": row["task"],
    }
