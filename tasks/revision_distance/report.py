"""The report of the revision-distance dataset: the paper's tables and a plot, from columns of its stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from longform.artifacts.rows import Rows
from tasks.metrics.rouge import WORDS
from tasks.publishing.card import Figure, ReportTable
from tasks.revision_distance.form import RATED

if TYPE_CHECKING:
    import pandas as pd

KINDS = ["case_id", "task", "kind"]
CHECKED = ["case_id", "checked", "checked_kind"]
DRAFTS = ["draft_id", "case_id", "task", "system", "bertscore_left_out", "reproduces", "signature"]
OF_LISTS = ["valid", "coverage", "silent", "wholesale", "not_placed", "no_ops", "duplicates", "residual", "lost_edits"]
EDITS = ("category", "revision_intention", "placed", "applied", "why_not")
JUDGEMENTS = ["sheet_id", "case_id", "expert", "better", "first", "second", *RATED]


def tables(cases: Rows, candidates: Rows, checked: Rows, published_drafts: Rows, judgements: Rows) -> list[ReportTable]:
    """The report's tables: tables 2, 3 and 5 and section 4.2 of the paper, the expert study, edits and cases.

    `published_drafts`: rows of PUBLISHED_DRAFTS; the others are rows of the stage results that they are named after.
    """
    from tasks.revision_distance.tables import paper_tables as made

    scored = [metric.column for metric in (*made.METRICS, made.SOURCE)]
    taken, drawn, verdicts = cases.to_pandas(KINDS), candidates.to_pandas(KINDS), checked.to_pandas(CHECKED)
    drafts, edits = published_drafts.to_pandas([*DRAFTS, *OF_LISTS, *scored]), edits_of(published_drafts)
    number = taken.task.value_counts()
    hard, free = int(number.get("hard", 0)), int(number.get("free", 0))
    return [
        *(weak_and_strong(drafts, task, int(number.get(task, 0))) for task in ("easy", "hard")),
        ReportTable(
            "Kinds of edits of related work (table 3)",
            "Mean edits per text. Order: references are moved; comparison: they are related to each other; "
            "description: one is described longer, shorter or otherwise. Over the cases of which both drafts have a "
            "distance.",
            made.table_3_kinds_of_edits(drafts, edits, hard),
        ),
        ReportTable(
            "Chosen and rejected texts, no reference (section 4.2)",
            "By each measure, pairs in which the chosen text does better than the rejected one (it needs fewer edits, "
            "or has the higher score), does as well, or worse; shares with Wilson intervals (95 %). "
            f"{' '.join(made.note_of_pairs(drafts, 'free', free))}",
            made.section_4_2_preferences(drafts, free),
        ),
        ReportTable(
            "The source's own scores, by what the distance says",
            "Score: the source's, of the chosen text less that of the rejected one; intervals (95 %) by bootstrap.",
            made.source_scores(drafts),
        ),
        order_alone(drafts),
        *expert_tables(judgements.to_pandas(JUDGEMENTS), drafts),
        ReportTable(
            "Edits by intention",
            "Mean edits per text, of all texts with a distance.",
            made.edits_by_intention(drafts, edits),
        ),
        placement(drafts, edits),
        ReportTable(
            "Whether the edits turn the draft into its reference",
            "Words: but for white space. An edit that is not applied, or says less than it should, leaves a "
            "difference.",
            made.reproduced(drafts),
        ),
        ReportTable(
            "Selection of cases",
            "Found: by the rules. More are drawn than are wanted, as the model that checks requests may decline some. "
            "Not asked: tasks or builds without a check. No usable answer: these are rejected. The structure task is "
            "given.",
            made.selection(taken, drawn, verdicts, rejected_keys(candidates)),
        ),
        ReportTable(
            "Kinds of cases",
            "Of the same kind: accepted ones of which the model sees the kind that the rules see.",
            made.kinds(taken, drawn, verdicts),
        ),
        *(table for task in ("easy", "hard", "free") for table in ranked(drafts, task)),
        *(weak_and_strong(drafts, task, int(number.get(task, 0)), valid=True) for task in ("easy", "hard")),
        trusted(drafts),
    ]


def figures(published: Rows) -> list[Figure]:
    """The plot of how distances are distributed; [] if no case has two distances. `published`: as PUBLISHED_DRAFTS."""
    from tasks.revision_distance.tables.figures import plots

    return plots(published.to_pandas(["case_id", "task", "system", "distance"]))


# ---------------------------------------------------------------- tables with notes


def weak_and_strong(drafts: pd.DataFrame, task: str, cases: int, *, valid: bool = False) -> ReportTable:
    """Table 2 of the paper for the task easy or hard, with a note that also counts what is left out.

    `drafts`: as the tables in `paper_tables` need them. `cases`: how many the task has. `valid`: only over drafts whose
    edits give the words of their references.
    """
    from tasks.revision_distance.tables import paper_tables as made

    weak, strong = made.WEAK_AND_STRONG[task]
    drafts = drafts[drafts.valid.map({True: True}).notna()] if valid else drafts
    own = drafts[drafts.task == task]
    sentences = (
        *(["Only drafts whose edits give the words of their references."] if valid else []),
        *([] if weak == "weak" else [f"Weak: {weak}; strong: {strong}."]),
        "Means over the cases of which both drafts have the score; intervals (95 %) by bootstrap over cases. Change: "
        "strong less weak, with the sign turned where less is better, so that positive is an improvement.",
        WORDS,
        *made.note_of_pairs(drafts, task, cases),
        *made.lack_of(own, made.GPT_SCORE, "not asked, or the reply could not be used"),
        *made.lack_of_bertscore(own),
    )
    rows = made.table_2_weak_and_strong(drafts, task, cases)
    title = f"Weak and strong drafts of the {task} task (table 2)"
    title = f"Table 2 over valid pairs: {task}" if valid else title
    return ReportTable(title, " ".join(sentences), rows)


def ranked(drafts: pd.DataFrame, task: str) -> list[ReportTable]:
    """The systems of a task ranked by the corrected distance, and how they differ; two tables."""
    from tasks.revision_distance.tables.ranking import ranking, ranking_notes

    own = drafts[drafts.task == task]
    found = ranking(own)
    note, note_of_pairs = ranking_notes(found, own)
    return [
        ReportTable(f"Systems by the corrected distance: {task}", note, found.systems, on_card=True),
        ReportTable(f"Differences between systems: {task}", note_of_pairs, found.pairs),
    ]


def trusted(drafts: pd.DataFrame) -> ReportTable:
    """The report's table of how far the lists of edits can be trusted, by task and system."""
    from tasks.revision_distance.tables import paper_tables as made
    from tasks.revision_distance.tables.ranking import TRUST_NOTE, trust

    rows = trust(drafts, ("task", "system"))
    if len(rows):
        rows = made.in_order(rows.set_index(["task", "system"]))
    return ReportTable("How far the lists of edits can be trusted", TRUST_NOTE, rows, on_card=True)


def order_alone(drafts: pd.DataFrame) -> ReportTable:
    """Table 5 of the paper, with a note: texts that differ from their references only in the order of sentences.

    `drafts`: as the tables in `paper_tables` need them, of any task.
    """
    from tasks.revision_distance.tables import paper_tables as made

    own = drafts[drafts.task == "structure"]
    sentences = (
        f"The same sentences in another order: ROUGE-1 cannot see it, the distance must. {WORDS}",
        *(
            [f"The first {made.SHOWN} of {len(own):,} are shown; the last row is of all."]
            if len(own) > made.SHOWN
            else []
        ),
        *made.lack_of_bertscore(own),
    )
    title = "Texts that differ in their order alone (table 5)"
    return ReportTable(title, " ".join(sentences), made.table_5_order_alone(drafts))


def placement(drafts: pd.DataFrame, edits: pd.DataFrame) -> ReportTable:
    """The report's table that counts edits by how their snippet was found in the draft.

    Its note says how many were not applied, by reason. Edits of drafts without a distance are not counted. `edits`: as
    `edits_of` returns them.
    """
    from tasks.revision_distance.tables import paper_tables as made

    measured = edits[edits.draft.isin(drafts.index[drafts.distance.notna()])]
    reasons = measured[~measured.applied.astype(bool)].why_not.astype(object).fillna("no reason said").value_counts()
    note = (
        "How the words that an edit names were found in the draft: exactly; with white space, typographic signs and "
        "case folded; nearly; not at all. All of them count towards the distance."
    )
    note += f" Not applied: {made.in_words(reasons)}." if len(reasons) else ""
    return ReportTable("Edits by how they were placed", note, made.edits_by_placement(drafts, edits))


def expert_tables(judgements: pd.DataFrame, drafts: pd.DataFrame) -> list[ReportTable]:
    """Three tables of the expert study: what metrics say of the chosen texts, results by system, agreement.

    The tables are empty without judgements. Judgements of drafts that are not in `drafts` are left out.
    """
    from tasks.revision_distance.tables import paper_tables as made

    own = made.of_drafts(judgements, drafts)
    texts = made.shown_texts(own)
    pairs, ties = len(texts) // 2, (texts.outcome == "tie").sum() // 2
    note = "No filled-in sheet was given."
    if pairs:
        note = (
            "Chosen: the text that more experts call better than the other. Means over the pairs of which both drafts "
            f"have the score; intervals (95 %) by bootstrap over pairs. Pairs: {pairs:,}, of which ties {ties:,} stand "
            f"apart; experts: {own.expert.nunique():,}."
        )
    return [
        ReportTable(
            "Texts that experts chose and rejected (expert study)", note, made.metrics_of_chosen_texts(own, drafts)
        ),
        ReportTable(
            "What experts say of each system (expert study)",
            "Ratings: 1 to 5, means over the judgements that give them, with how many these are.",
            made.systems_as_experts_see_them(own, drafts),
        ),
        ReportTable(
            "Agreement among experts (expert study)",
            "Two judgements of one sheet, or two ratings of one text, agree where they are the same. Krippendorff's "
            "alpha is agreement beyond chance, 1 at most: nominal of the better text, ordinal of ratings.",
            made.agreement_of_experts(own, drafts),
        ),
    ]


# ---------------------------------------------------------------- reading


def edits_of(published: Rows) -> pd.DataFrame:
    """A row for each edit of the published drafts: `draft`, the position of its draft's row, and the columns EDITS.

    Positions count the rows of `published` from 0. Texts are categories, so that an edit takes 20 bytes.
    """
    schema = pa.schema(
        [("draft", pa.int64()), *(published.schema.field("edits").type.value_type.field(name) for name in EDITS)]
    )
    batches, before = [], 0
    for batch in published.batches([f"edits.list.element.{name}" for name in EDITS]):
        lists = batch.column("edits")
        drafts, edits = pc.add(pc.list_parent_indices(lists).cast(pa.int64()), before), lists.flatten()
        batches.append(pa.record_batch([drafts, *(edits.field(name) for name in EDITS)], schema))
        before += batch.num_rows
    frame: pd.DataFrame = pa.Table.from_batches(batches, schema).to_pandas(strings_to_categorical=True)
    return frame


def rejected_keys(rows: Rows) -> Iterator[str]:
    """The keys of the rows that the stage of `rows` rejected, for whatever reason."""
    import pyarrow.parquet as pq

    for part in rows.parts or ():
        if part.rejected_sha256:
            yield from pq.read_table(rows.store.rejected_path(part), columns=["key"]).column("key").to_pylist()
