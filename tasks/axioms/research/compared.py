"""Answers to research questions side by side: what scorers give them, pairs for people, and what people say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import AllRows, Rejected, Row, Rows, Shard, grouped, read_batches
from longform.artifacts.store import Store
from longform.artifacts.versions import Version
from longform.engine.at_most import Sizes, longest
from longform.engine.stage import AtMost, StageContext, stage
from longform.llm.ask.types import Endpoint, Request
from schemas.axioms.research import RESEARCH, RESEARCH_JUDGEMENTS, RESEARCH_PAIRS
from tasks.annotation.files import Rejectable, open_sheets, read_sheets
from tasks.annotation.form import Form, Sheets, Shown, Task
from tasks.annotation.labelling import Checked
from tasks.annotation.reviews import first_of, rows_of
from tasks.annotation.values import Unfit, folded
from tasks.axioms.audits import OF_RESEARCH
from tasks.axioms.judging.requests import listwise_request
from tasks.axioms.people.form import FIELDS, GUIDANCE, no_tie
from tasks.axioms.research.answers import CONDITIONS, LONGEST_ANSWER, LONGEST_QUESTION, SPLIT
from tasks.axioms.scoring.groups import Group
from tasks.axioms.scoring.scorers import Scorer, score_groups
from tasks.publishing.audits import rejected_by
from tasks.retrieval.cross_encoder import CrossEncoderSetting

MOST_JUDGES = 3
MOST_KINDS = 8  # of answers to a question: four closed-book and four others
FORM = Form(
    name="axioms-research",
    guidance=GUIDANCE,
    key="research_pair_id",
    annotator="annotator_id",
    shown=(Shown("question"), Shown("text_a"), Shown("text_b")),
    fields=FIELDS,
    unfit=no_tie,
)
SHOWN = ("research_pair_id", "question", "kind_a", "kind_b", "text_a", "text_b")
open_judgements = partial(open_sheets, group="research_judgements")


# ---------------------------------------------------------------- scores


def _longest_judged(of: Sizes) -> list[Request]:
    """The longest request to each judge: all answers to a question in one."""
    text = LONGEST_ANSWER
    judges = [each for each in of["scorers"] if each.is_judge]
    return [
        listwise_request(each.endpoint, each.prompt, longest(LONGEST_QUESTION), [text] * MOST_KINDS)
        for each in judges
        if each.kind == "judge-listwise"
    ] or [each.prompt.request(each.endpoint, answer=text, question=text, evidence=[]) for each in judges]


@stage(
    RESEARCH,
    revision=1,
    split_by="split",
    at_most=AtMost(
        rows=lambda of: MOST_KINDS * of["questions"],
        calls=lambda of: of["questions"] * MOST_KINDS * sum(each.is_judge for each in of["scorers"]),
        questions=_longest_judged,
    ),
)
def score_research(
    context: StageContext,
    questions: Rows,
    closed: AllRows,
    assisted: AllRows,
    planned: AllRows,
    repaired: AllRows,
    *,
    scorers: list[Scorer],
    model: Endpoint | None,
    second: Endpoint | None,
    third: Endpoint | None,
    encoder: CrossEncoderSetting | None,
) -> Iterator[Row | Rejected]:
    """The answers to each question, with what each of `scorers` gives them; a Rejected for one that an audit finds, and
    for a question without an answer. `model`, `second`, `third`: the endpoints of the scorers that are judges;
    `encoder`: the first that is one of the scorers.
    """
    asked = {row["research_question_id"]: row for row in questions}
    found: list[Row] = []
    for row in (row for rows in (closed, assisted, planned, repaired) for row in rows):
        if row["research_question_id"] not in asked:
            continue
        if rejected := rejected_by(row, OF_RESEARCH, "research_answer_id"):
            yield Rejected(row["research_question_id"], rejected.kind, rejected.reason, rejected.detail, rejected.raw)
        else:
            found.append(row)
    answers = grouped(found, "research_question_id")
    groups = [
        Group(key, row["question"], (), [(each["research_answer_id"], each["text"]) for each in answers[key]])
        for key, row in asked.items()
        if answers[key]
    ]
    scores: dict[str, list[Row]] = {row["research_answer_id"]: [] for row in found}
    for scorer in scorers:
        for group, given in score_groups(context, scorer, groups):
            for (answer, _), score in zip(group.answers, given, strict=True):
                scores[answer].append({"scorer": scorer.name, "score": score})
    for key, question in asked.items():
        for row in answers[key]:
            own = {name: row[name] for name in RESEARCH.names if name in row}
            yield {
                **own,
                "scores": scores[row["research_answer_id"]],
                "words": len(row["text"].split()),
                "question_licence": question["licence"],
                "split": SPLIT,
            }
        if not answers[key]:
            yield Rejected(key, "filtered", "no answer")


# ---------------------------------------------------------------- pairs


@stage(RESEARCH_PAIRS, revision=1, split_by="split", at_most=AtMost(rows=lambda of: MOST_KINDS * of["answers"]))
def pair_research(context: StageContext, answers: AllRows, *, each: int, seed: int) -> Iterator[Row | Rejected]:
    """Pairs of answers to one question for people: of each two kinds at most `each`, of questions drawn by the seed. A
    Rejected for an answer that is in no pair.
    """
    rows = list(answers)
    of_kinds: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for own in grouped(rows, "research_question_id").values():
        for pair in combinations(sorted(own, key=_place), 2):
            if folded(pair[0]["text"]) != folded(pair[1]["text"]):
                of_kinds.setdefault((pair[0]["kind"], pair[1]["kind"]), []).append(pair)
    paired: set[str] = set()
    for kinds in sorted(of_kinds):
        drawn = sorted(of_kinds[kinds], key=lambda pair: key_hash(f"{seed}\x1f{_pair_id(*pair)}"))[:each]
        for first, second in drawn:
            paired |= {first["research_answer_id"], second["research_answer_id"]}
            yield _pair(first, second)
    for row in rows:
        if row["research_answer_id"] not in paired:
            yield Rejected(row["research_answer_id"], "filtered", "drawn for no pair")


def _place(answer: Row) -> tuple[int, str]:
    """By what the answers to a question are ordered: condition, then endpoint."""
    return -CONDITIONS.index(answer["condition"]), answer["kind"]


def _pair_id(first: Row, second: Row) -> str:
    return f"rp_{fingerprint([first['research_answer_id'], second['research_answer_id']])}"


def _pair(first: Row, second: Row) -> Row:
    """A row of RESEARCH_PAIRS."""
    sides = {"a": first, "b": second}
    return {
        "research_pair_id": _pair_id(first, second),
        "research_question_id": first["research_question_id"],
        "question": first["question"],
        **{f"kind_{side}": row["kind"] for side, row in sides.items()},
        **{f"answer_{side}_id": row["research_answer_id"] for side, row in sides.items()},
        **{f"text_{side}": with_sources(row) for side, row in sides.items()},
        "split": SPLIT,
    }


def with_sources(answer: Row) -> str:
    """The text of an answer, and below it the pages of the passages that it cites, by number."""
    cited = [each for each in answer["evidence"] if each["number"] in answer["cites"]]
    lines = [f"(Passage {each['number']}) {each['title']} {each['url']}".replace("  ", " ") for each in cited]
    return "\n".join([answer["text"], *(["", *lines] if lines else [])])


# ---------------------------------------------------------------- people


def sheets(store: Store, version: Version) -> Sheets:
    """The sheets of a version: a task for each pair of its config research_pairs; `store` is not used."""
    missing = (
        f"{version.dataset} {version.name} has no pairs of answers to research questions (config research_pairs): "
        "build it again, with research_pairs above 0, or name another version."
    )
    files = version.tables().get("research_pairs", ())
    rows = (row for path in files for batch in read_batches(path, 1_000, list(SHOWN)) for row in batch.to_pylist())
    return Sheets(FORM, list(tasks(rows)), "research_judgements", missing)


def tasks(pairs: Iterable[Row]) -> Iterator[Task]:
    """A task for each pair, in the stratum of its two kinds."""
    for row in pairs:
        texts = {name: row[name] for name in ("question", "text_a", "text_b")}
        key = row["research_pair_id"]
        yield Task(key, texts, group=key, stratum=f"{row['kind_a']} > {row['kind_b']}")


@stage(RESEARCH_JUDGEMENTS, revision=2, split_by="split", at_most=AtMost(rows=lambda of: of.records))
def read_research_judgements(context: StageContext, files: Shard, pairs: AllRows) -> Rejectable:
    """What people say of pairs, from one file: the first judgement of each person on each pair. A Rejected for what is
    none, for a pair that is not among `pairs` (any more), and for one whose texts are not these. SourceError, after the
    last row, for a file without a judgement.
    """
    rows = {row["research_pair_id"]: row for row in pairs}
    known = {task.id: task for task in tasks(rows.values())}
    yield from read_sheets(FORM, files, known, partial(_judgements, pairs=rows))


def _judgements(found: Iterable[Checked | Rejected], pairs: dict[str, Row]) -> Rejectable:
    def read(sheet: Checked) -> Sequence[Row | Unfit]:
        return [_judgement(sheet, pairs[sheet.task.id])]

    yield from first_of(rows_of(found, lambda sheet: list(read(sheet))), "research_judgement_id", "research_pair_id")


def _judgement(sheet: Checked, pair: Row) -> Row | Unfit:
    """The row of RESEARCH_JUDGEMENTS of a sheet, without its seconds; an Unfit if it prefers neither answer."""
    values: dict[str, Any] = {name: value for (_, name), value in sheet.values.items()}
    if "preference" not in values:
        return Unfit("no preference", sheet.task.id)
    shown = {"a": "b", "b": "a"} if sheet.swapped else {"a": "a", "b": "b"}  # side of the pair -> side of the sheet
    better = next(side for side, letter in shown.items() if letter == values["preference"].lower())
    of_pair = ("research_question_id", "kind_a", "kind_b", "answer_a_id", "answer_b_id")
    return {
        "research_judgement_id": f"rj_{fingerprint([sheet.task.id, sheet.annotator])}",
        "research_pair_id": sheet.task.id,
        **{name: pair[name] for name in of_pair},
        "annotator_id": sheet.annotator,
        "shown_first": "b" if sheet.swapped else "a",
        "better": better,
        "strength": values["strength"],
        **{f"score_{side}": values.get(f"score_{letter}") for side, letter in shown.items()},
        **{f"flaws_{side}": values.get(f"flaws_{letter}", []) for side, letter in shown.items()},
        "split": SPLIT,
    }


@stage(
    RESEARCH_JUDGEMENTS,
    revision=1,
    split_by="split",
    at_most=AtMost(rows=lambda of: of["judgements"], keeps=True),
)
def collect_research_judgements(context: StageContext, judgements: AllRows) -> Iterator[Row | Rejected]:
    """The first judgement of each person on each pair, of all files; a Rejected for each further one."""
    yield from first_of(judgements, "research_judgement_id", "research_judgement_id")
