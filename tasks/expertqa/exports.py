"""Exports of ExpertQA as JSON lines: examples in the released form, training chats, pairs for entailment models.

Imported records are exported unchanged, from the columns `original` and `answers` that keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from longform.artifacts.rows import Row, grouped
from longform.errors import StoreError, UsageError
from tasks.expertqa.answers.citations import without_marks
from tasks.expertqa.bank import first_fault, released_record
from tasks.expertqa.estimates.autoais import RELEASED
from tasks.expertqa.estimates.factscore import best_passages, fact_score, judgements_of
from tasks.expertqa.exact import write_exact
from tasks.expertqa.vocabulary import type_text
from tasks.publishing.exports import Export, Format

Example = dict[str, Any]
StageRows = Mapping[str, Iterable[Row]]

SPLITS = ("train", "validation", "test")
RATED = ("support", "reason_missing_support", "informativeness", "worthiness", "correctness", "reliability")
REVISED = ("revised_claim", "revised_evidence")
BY_PEOPLE = ("person", "claims")

SPLIT_STAGES = {"random": "split_randomly", "domain": "split_by_field"}
OF_ANSWERS = {
    "answers": "collect_answers",
    "split": "split_claims",
    "claims": "link_cited_pages",
    "labels": "collect_labels",
    "revised": "revise_answers",
}
OF_ESTIMATES = {
    "attributions": "estimate_attribution",
    "facts": "break_claims",
    "judged": "judge_facts",
    "found": "find_for_facts",
}
_LINE_ENDS = str.maketrans({end: f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"})


def line(row: Mapping[str, Any]) -> bytes:
    """A row as one line of a JSONL file, in UTF-8 with a line end; characters that some readers take for line ends are
    escaped.
    """
    return write_exact(row).translate(_LINE_ENDS).encode() + b"\n"


def examples(
    questions: Iterable[Row], tables: StageRows, *, estimates: bool = False, only_imported: bool = False
) -> Iterator[tuple[str, Example]]:
    """(question id, example in the released form) of each question, in the order of the question bank.

    `tables`: name in OF_ANSWERS or OF_ESTIMATES -> rows of that stage, in the order of the questions (StoreError if
    not); a missing table counts as empty. `claims` has the claims of sampled answers with their evidence, `split` the
    claims of all answers.

    Imported examples equal the imported records; our systems' answers are added, and questions that were not imported,
    unless `only_imported`. With `estimates` claims get our `atomic_claims`, `atomic_evidences`, `fact_score` and
    `autoais_label` in place of the released ones; these stay where FActScore did not run, or AutoAIS is itself the
    released one.
    """
    streams = {name: InOrder(name, tables.get(name, ())) for name in OF_ANSWERS | OF_ESTIMATES}
    scored = streams["facts"].ahead is not None
    for question in questions:
        own = {name: stream.rows_of(question["question_id"]) for name, stream in streams.items()}
        record = released_record(question)
        if record is None and only_imported:
            continue
        estimated = _estimates(own, scored) if estimates else None
        yield question["question_id"], _example(question, record, own, estimated, only_imported)
    for stream in streams.values():
        stream.check_end()


class InOrder:
    """Reads a table question by question, without holding it in memory. Its rows must be in the order of the
    questions.

    `name`: that of the table, for an error. `ahead`: the next row; None at the end.
    """

    def __init__(self, name: str, rows: Iterable[Row]) -> None:
        self.name, self.rows = name, iter(rows)
        self.ahead = next(self.rows, None)

    def rows_of(self, question: str) -> list[Row]:
        """The next rows of the table that are of this question, which are then behind; [] if the next row is of
        another one. To be called once for each question, in order.
        """
        found = []
        while self.ahead is not None and self.ahead["question_id"] == question:
            found.append(self.ahead)
            self.ahead = next(self.rows, None)
        return found

    def check_end(self) -> None:
        """Raise StoreError if rows are left: the table is then in another order than the questions."""
        if self.ahead is not None:
            raise StoreError(
                f"The {self.name} of question {self.ahead['question_id']} are not in the order of the questions: "
                "build the version again with --force read_questions."
            )


def _example(
    question: Row, record: Example | None, own: StageRows, estimated: Mapping[str, Row] | None, only_imported: bool
) -> Example:
    """One example in the released form: the imported record, or one made of the question. Estimates are added to its
    claims, and our answers after the imported ones unless `only_imported`; a system with both keeps the imported one.

    `record`: the imported record, None if there is none; it is changed in place. `own`: the question's rows of each
    table. `estimated`: claim id -> our estimates, None to leave them out.
    """
    example = _question(question) if record is None else record
    if estimated:
        _add_estimates(example, own["answers"], estimated)
    ours = {} if only_imported else _ours(own, estimated)
    if not ours:
        return example
    imported = example.get("answers")
    answers = imported | ours | imported if isinstance(imported, dict) else ours  # imported ones first, unchanged
    return {**example, "answers": answers}


def _question(question: Row) -> Example:
    """An example in the released form without answers, from a row of QUESTIONS."""
    return {
        "question": question["question"],
        "annotator_id": question["annotator_id"],
        "answers": {},
        "metadata": {
            "question_type": type_text(question["question_types"]),
            "field": question["field"],
            "specific_field": question["specific_field"],
        },
    }


def _ours(own: StageRows, estimated: Mapping[str, Row] | None) -> Example:
    """System -> answer in the released form, for all answers that were not released. Of several labellings of an
    answer the first is taken; without one its labels are None. A revised answer that the labelling lacks is that of
    the table `revised`, if people made it. Claims are those of the table `claims`, else of `split`, without evidence.

    `own`: the question's rows of each table. `estimated`: claim id -> our estimates, None to leave them out.
    """
    labels = {row["answer_id"]: row for row in reversed(list(own["labels"]))}  # of each answer's labels the first
    revised = {row["answer_id"]: row["text"] for row in own["revised"] if row["revised_by"] in BY_PEOPLE}
    claims = grouped(own["split"], "answer_id") | grouped(own["claims"], "answer_id")
    found = {}
    for answer in own["answers"]:
        key = answer["answer_id"]
        if answer["kind"] != "released":
            label = labels.get(key, {})
            found[answer["system"]] = {
                "answer_string": answer["text"],
                "attribution": answer["attribution"] or [_cited(source) for source in answer["cited"]],
                "claims": _claims(claims[key], label.get("claims", []), estimated),
                "revised_answer_string": label.get("revised_answer") or revised.get(key),
                "usefulness": label.get("usefulness"),
                "annotation_time": _milliseconds(label),
                "annotator_id": label.get("annotator_id"),
            }
    return found


def _milliseconds(label: Row) -> float | None:
    """The annotation time in milliseconds, the unit of the released files; other labels have seconds, which are
    converted. None if there is none. `label`: a row of LABELS, or {}.
    """
    time = label.get("annotation_time")
    return time if time is None or label["source"] == "released" else 1_000 * time


def _claims(claims: list[Row], labels: list[Row], estimated: Mapping[str, Row] | None) -> list[Example]:
    """Claims in the released form, with their labels (None where nobody labelled), and our estimates.

    `labels`: those of the claims, of one labelling. `estimated`: claim id -> our estimates, None to leave them out; a
    claim without any has those of UNESTIMATED.
    """
    by_claim = {label["claim_id"]: label for label in labels}
    return [
        {
            "claim_string": claim["text"],
            "evidence": [_evidence(one) for one in claim["evidence"]],
            **{name: by_claim.get(claim["claim_id"], {}).get(name) for name in (*RATED, *REVISED)},
            **({} if estimated is None else UNESTIMATED | estimated.get(claim["claim_id"], {})),
        }
        for claim in claims
    ]


def _cited(source: Row) -> str:
    """'[1] address' of a source; the passage's id in place of a missing address; the number alone if it has neither."""
    return f"[{source['number']}] {source['url'] or source['passage_id'] or ''}".rstrip()


def _evidence(one: Row) -> str:
    """A piece of evidence in the released form: its released text, or '[1] address' and, after an empty line, its
    passage if known. The passage's id replaces a missing address; without a number there is no '[1]'.
    """
    if one["given"] is not None:
        return str(one["given"])
    number = "" if one["number"] is None else f"[{one['number']}] "
    head = (number + (one["url"] or one["passage_id"] or "")).rstrip()
    return head if one["text"] is None else f"{head}\n\n{one['text']}"


UNESTIMATED: Row = {"atomic_claims": [], "atomic_evidences": [], "fact_score": None, "autoais_label": None}


def _estimates(own: StageRows, scored: bool) -> dict[str, Row]:
    """Claim id -> our `atomic_claims`, `atomic_evidences`, `fact_score` and `autoais_label`, for each claim with an
    estimate. The first three only if `scored`; no `autoais_label` if AutoAIS copied the released one.

    `own`: the question's rows of each table. `scored`: whether FActScore ran in this build.
    """
    passages = {row["fact_id"]: row["passages"] for row in own["found"]}
    facts = judgements_of(own["facts"], own["judged"])
    labels = {row["claim_id"]: _autoais_label(row) for row in own["attributions"]}
    return {
        claim: (_scores(facts.get(claim, []), passages) if scored else {}) | labels.get(claim, {})
        for claim in [*labels, *facts]
    }


def _scores(facts: list[Row], passages: Mapping[str, list[Row]]) -> Row:
    """The columns of FActScore of one claim: `atomic_claims`, `atomic_evidences` (what was read for each) and
    `fact_score`, None if none was judged. `facts`: its atomic claims, as in `judgements_of`; `passages`: atomic claim
    id -> passages found.
    """
    return {
        "atomic_claims": [fact["text"] for fact in facts],
        "atomic_evidences": [_evidence_read(fact, passages.get(fact["fact_id"], [])) for fact in facts],
        "fact_score": fact_score(fact["is_true"] for fact in facts),
    }


def _autoais_label(attribution: Row) -> Row:
    """A row with our `autoais_label`, Y, N or None (not scored); an empty row if AutoAIS copied the released label,
    which the claim already has.
    """
    if attribution["backend"] == RELEASED:
        return {}
    return {"autoais_label": {None: None, True: "Y", False: "N"}[attribution["attributable"]]}


def _evidence_read(fact: Row, passages: list[Row]) -> str:
    """The texts of the passages that the judge of an atomic claim read, joined by empty lines; the id in place of a
    passage that is not in `passages`. Without a verdict, those of the passages that the judge would read.
    """
    texts = {passage["passage_id"]: passage["text"] for passage in passages}
    read = fact["passages"] if fact["passages"] is not None else [row["passage_id"] for row in best_passages(passages)]
    return "\n\n".join(texts.get(key, key) for key in read)


def _add_estimates(example: Example, answers: Iterable[Row], estimated: Mapping[str, Row]) -> None:
    """Adds our estimates to the claims of an imported example's released answers, in place. `answers`: the question's
    rows of ANSWERS. `estimated`: claim id -> estimates.
    """
    released = {row["system"]: row["answer_id"] for row in answers if row["kind"] == "released"}
    for system, key in released.items():
        for position, claim in enumerate(example["answers"][system].get("claims") or []):
            claim.update(estimated.get(f"{key}#{position}", {}))


def chats(rows: Iterable[Row], *, split: str) -> Iterator[Example]:
    """The rows of a split as chats, in their order: the question is the user's message, the revised answer without
    marks the assistant's; ids, system, field, reviser, split, the answer with its marks and their sources are in
    `metadata`.
    """
    ids = ("row_id", "question_id", "answer_id", "revised_id")
    names = (*ids, "system", "field", "revised_by", "split", "cited_answer", "sources")
    for row in rows:
        if row["split"] == split:
            yield {
                "messages": [
                    {"role": "user", "content": row["question"]},
                    {"role": "assistant", "content": row["answer"]},
                ],
                "metadata": {name: row[name] for name in names if name in row},
            }


def entailments(claims: Iterable[Row], *, split: str, config: str) -> Iterator[Example | str]:
    """A dict of claim, evidence, label and claim_id for each published claim in a split; the reason, a text, for a
    claim that is left out.

    `config`: random or domain, whose split is meant. The label is 1 for complete support, 0 for partial, incomplete
    and missing support, as an expert judged. Left out are claims without a label or with N/A (the expert could not
    open the evidence), claims whose evidence has no text, and claims that are only a citation mark. Pieces of evidence
    are joined by empty lines; citation marks are removed from the claim.
    """
    for row in claims:
        if row[f"{config}_split"] == split:
            texts = [
                text for text, url in zip(row["evidence"], row["evidence_urls"], strict=True) if text not in (url, "")
            ]
            claim = without_marks(row["claim"]).strip()
            yield _why_no_pair(row, claim, texts) or {
                "claim": claim,
                "evidence": "\n\n".join(texts),
                "label": int(row["support"] == "Complete"),
                "claim_id": row["claim_id"],
            }


def _why_no_pair(row: Row, claim: str, texts: list[str]) -> str | None:
    """The first reason why a claim is left out of the pairs for entailment models; None if it is not. `row`: the
    published claim. `claim`: its text without citation marks. `texts`: those of its evidence.
    """
    return first_fault({
        "nobody judged its support": row["support"] is None,
        "no evidence": not row["evidence"],
        "support N/A": row["support"] == "N/A",
        "only the address of its evidence is known": not texts,
        "no word but citation marks": not any(map(str.isalnum, claim)),
    })  # fmt: skip


# ---------------------------------------------------------------- formats


def _examples_of(export: Export) -> Iterator[Example]:
    """The examples of one split, or of all questions, in the order of the question bank. UsageError if estimates are
    asked for and the version has none.
    """
    estimated = export.tables(OF_ESTIMATES) if "estimates" in export.options else {}
    if "estimates" in export.options and not estimated:
        raise UsageError(f"{export.label} has no estimates: build it with them, or leave out --estimates.")
    in_split = _question_ids_in_split(export) if export.split else None
    bank = "take_questions" if "take_questions" in export.version.stages else "read_questions"
    for question, example in examples(
        export.rows(bank),
        export.tables(OF_ANSWERS) | estimated,
        estimates=bool(estimated),
        only_imported="imported" in export.options,
    ):
        if in_split is None or question in in_split:
            yield example


def _question_ids_in_split(export: Export) -> set[str]:
    """The ids of the questions in the export's split; only questions with a revised answer are in one."""
    return {row["question_id"] for row in export.rows(SPLIT_STAGES[export.config]) if row["split"] == export.split}


def _chats_of(export: Export) -> Iterator[Example]:
    """The chats of the export's split; counts those whose answer a model revised, in `export.noted` under
    `revised_by_model`.
    """
    for chat in chats(export.rows(SPLIT_STAGES[export.config]), split=str(export.split)):
        if chat["metadata"]["revised_by"] == "model":
            export.noted["revised_by_model"] += 1
        yield chat


def _entailments_of(export: Export) -> Iterator[Example]:
    """The pairs of the export's split for entailment models; counts the claims that are left out, by reason, in
    `export.left_out`.
    """
    for pair in entailments(export.rows("publish_claims"), split=str(export.split), config=export.config):
        if isinstance(pair, str):
            export.left_out[pair] += 1
        else:
            yield pair


def _format(rows: Callable[[Export], Iterator[Example]], split: str | None, **more: Any) -> Format:
    """A Format as JSON lines. `rows`: yields the rows of an export. `split`: the split that is exported by default,
    None for all rows. `more`: further fields of Format.
    """
    return Format(rows, line, SPLITS, tuple(SPLIT_STAGES), split, **more)


# A new format is a function of an Export and an entry here; `--format` in flows/cli/exports.py names it too.
EXPORTS = {
    "expertqa-jsonl": _format(_examples_of, None, options=frozenset({"estimates", "imported"})),
    "chat-jsonl": _format(
        _chats_of, "train", notes={"revised_by_model": "of them revised by a model, as metadata.revised_by says"}
    ),
    "entailment-jsonl": _format(_entailments_of, "train"),
}
