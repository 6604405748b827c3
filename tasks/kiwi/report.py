"""The report of KIWI: the paper's tables and plots, from the published tables alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longform.artifacts.rows import Rows
from tasks.publishing.card import Figure, ReportTable
from tasks.publishing.charts import Counts, stacked_bars
from tasks.publishing.plots import svg_of

if TYPE_CHECKING:
    import pandas as pd

TURNS = [
    "turn_id", "session_id", "origin", "system", "position", "kind", "rating", "edited", "category", "error", "label",
    "target", "instruction_words", "source_words", "target_words", "length_ratio", "edit_distance", "edit_ratio",
]  # fmt: skip
SAID = ["form", "turn_id", "annotator_id", "label", "known"]
OF_PEOPLE = "Of turns that people rated; of simulated ones where there are no others."

TABLE_2 = (
    "Edited: the reader corrected the answer. Total: all models of the same readers. Shares are of turns with a kind."
)
RATINGS_NOTE = "The paper shows a plot (figure 2). Both: instructions of both kinds and of none."
POSITIONS = f"The paper shows a plot (figure 2). {OF_PEOPLE}"
TABLE_3 = (
    f"Categories by a model; those of fewer than 5 % of the turns are others. {OF_PEOPLE} Intervals (95 %): Wilson."
)
FIGURE_3 = f"The paper shows a plot (figure 3). {OF_PEOPLE}"
TABLE_4 = f"Errors of neutral and bad turns with a comment, by a model. {OF_PEOPLE} Intervals (95 %): Wilson."
TABLE_5 = (
    "Good is positive; neutral and bad are one label. Systems predict the turns of test; majority and random follow "
    "the labels of train. Human: turns that somebody else rated a second time. Interval (95 %) of accuracy: Wilson. In "
    "the paper's T5 row F1 is less than precision and recall allow."
)
TABLE_6 = (
    "Means over good turns and turns with an edit, whose target is the edited answer. Words stand between white space; "
    f"edit distance: words inserted, deleted or replaced; edit ratio: over the words of the source. {OF_PEOPLE} The "
    "paper prints the same five figures for remove and reorganize."
)
FILTERS = "Which questions stay: by the papers at hand, and of generated ones by both filters."
AGREEMENT = (
    "Filled-in sheets. As known: the label is that of the model, or of the first reader. The paper: 92.5 % of 40 "
    "categories, 90 % of 22 errors, 80 % of 65 second ratings (neutral and bad as one)."
)
FAILURES = "What people say of the passages of information-seeking turns that were rated neutral or bad."


def tables(turns: Rows, predictions: Rows, said: Rows, numbers: dict[str, tuple[int, int]]) -> list[ReportTable]:
    """The report's tables that have a row, from the published tables; `numbers`: as of `tables.filters`."""
    from tasks.annotation.known import agreement
    from tasks.kiwi import tables as made

    of_turns, of_people = turns.to_pandas(TURNS), said.to_pandas(SAID)
    predicted = predictions.to_pandas(["turn_id", "system", "predicted"])
    found = [
        ReportTable("Turns (table 2)", TABLE_2, made.table_2_turns(of_turns)),
        ReportTable("Ratings by model and kind (figure 2)", RATINGS_NOTE, made.ratings(of_turns)),
        ReportTable("Kinds by place in the session (figure 2)", POSITIONS, made.kinds_by_position(of_turns)),
        ReportTable("Categories of instructions (table 3)", TABLE_3, made.table_3_categories(of_turns)),
        ReportTable("Ratings by category and model (figure 3)", FIGURE_3, made.ratings_by_category(of_turns)),
        ReportTable("What went wrong (table 4)", TABLE_4, made.table_4_errors(of_turns)),
        ReportTable("Can a model tell (table 5)", TABLE_5, made.table_5_evaluation(of_turns, predicted, of_people)),
        ReportTable("What edits take (table 6)", TABLE_6, made.table_6_edits(of_turns)),
        ReportTable("Selection of questions", FILTERS, made.filters(numbers)),
        ReportTable(
            "Agreement with people",
            AGREEMENT,
            agreement(made.with_two_labels(of_people).rename(columns={"turn_id": "item_id"})),
        ),
        ReportTable("What retrieval found", FAILURES, made.retrieval_failures(of_people)),
    ]
    return [table for table in found if len(table.frame)]


def figures(turns: Rows) -> list[Figure]:
    """Ratings by model (figure 2) and by category (figure 3), as plots; none without turns."""
    from tasks.kiwi.tables import counted, merged

    own = counted(turns.to_pandas(["origin", "system", "rating", "category"]))
    found = []
    if len(own):
        found.append(_ratings(own, "system", "ratings_by_model", "Ratings by model"))
        known = own.dropna(subset=["category"])
        if len(known):
            frame = known.assign(category=merged(known.category))
            found.append(_ratings(frame, "category", "ratings_by_category", "Ratings by category"))
    return found


def _ratings(turns: pd.DataFrame, column: str, name: str, title: str) -> Figure:
    """A bar for each value of a column, of its turns by rating."""
    from tasks.kiwi.interaction import RATINGS

    names = sorted(turns[column].unique())
    panel = Counts(
        "turns",
        {
            rating: [int(((turns[column] == each) & (turns.rating == rating)).sum()) for each in names]
            for rating in RATINGS
        },
    )
    return Figure(name, title, OF_PEOPLE, svg_of(lambda: stacked_bars(names, [panel]), title))
