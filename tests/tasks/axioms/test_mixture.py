"""Tables, plots and examples of the report on pairs that were counted by hand."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from card_rows import pair
from expertqa_tables import Home, filled

from longform.artifacts.rows import Rows
from schemas.axioms import ATTRIBUTION, PAIRS, PREFERENCE
from tasks.axioms.report.examples import examples
from tasks.axioms.report.mixture import TRAINER_TOKENS, accuracy_of_length, mixture, rows_for_trainers
from tasks.axioms.report.plots import figures

HUMAN = {"axiom": 0, "pair_type": "human > human", "rejected_source": "human", "evidence": [], "evidence_ids": []}


def human(number: int, preferred: str, rejected: str, **given: Any) -> dict[str, Any]:
    given = {"preferred_votes": 3, "rejected_votes": 1, **given}
    return pair(number, preferred=preferred, rejected=rejected, **HUMAN | given)


def pairs_of(folder: Path, *rows: dict[str, Any]) -> Rows:
    """The pairs as a stage made them, in two parts."""
    return Home(folder).table(PAIRS, rows[::2], rows[1::2])


def test_length_alone_gets_a_half_for_a_tie_and_counts_characters_not_bytes(tmp_path: Path) -> None:
    found = accuracy_of_length(
        pairs_of(
            tmp_path,
            human(1, "longer", "short"),
            human(2, "short", "longer"),
            human(3, "żółć", "abcd"),  # as long in characters, twice as long in bytes
            human(4, "four", "one", split="test"),
            pair(5, preferred="a", rejected="ab"),
        )
    )
    rows = found[["axiom", "pair type", "split", "pairs", "longer is preferred, %"]].to_numpy().tolist()
    assert rows == [
        ["0 usefulness", "human > human", "train", 3, 50.0],
        ["0 usefulness", "human > human", "test", 1, 100.0],
        ["2 groundedness", "human > closed_book", "train", 1, 0.0],
    ]


def test_the_mixture_counts_pairs_and_questions_and_shares_of_a_split(tmp_path: Path) -> None:
    found = mixture(
        pairs_of(
            tmp_path,
            human(1, "a", "b", question_id="tea.example/1"),
            human(2, "a", "c", question_id="tea.example/1"),
            human(3, "a", "b", question_id="tea.example/2"),
            pair(4, question_id="tea.example/2"),
            human(5, "a", "b", question_id="tea.example/3", split="test"),
        )
    )
    assert found[["pair type", "split", "pairs", "pairs %", "questions"]].to_numpy().tolist() == [
        ["human > human", "train", 3, 75.0, 2],
        ["human > human", "test", 1, 100.0, 1],
        ["human > closed_book", "train", 1, 25.0, 1],
    ]


def test_rows_that_a_trainer_drops_are_those_of_which_one_text_is_too_long(tmp_path: Path) -> None:
    def chat(number: int, chosen: int, rejected: int, draw: int, question: int = 1) -> dict[str, Any]:
        return filled(
            PREFERENCE,
            pair_id=f"p_{number}",
            question_id=f"tea.example/{question}",
            split="train",
            draw=draw,
            chosen_tokens=chosen,
            rejected_tokens=rejected,
        )

    chats = Home(tmp_path).table(
        PREFERENCE,
        [
            chat(1, TRAINER_TOKENS, TRAINER_TOKENS, 1),
            chat(2, TRAINER_TOKENS + 1, 3, 2),
            chat(3, 3, TRAINER_TOKENS + 1, 3),
        ],
        [chat(4, 5, 2_000, 1, question=2)],
    )
    found = rows_for_trainers(chats).to_numpy().tolist()
    assert found == [["preference", "train", 4, 2, 3, 3, 75.0], ["preference_sampled", "train", 2, 2, 1, 1, 50.0]]


def test_no_pair_no_table_no_plot_no_example(tmp_path: Path) -> None:
    none = Home(tmp_path).table(PAIRS)
    assert figures(none) == examples(none, none) == []
    assert not len(mixture(none))
    assert not len(accuracy_of_length(none))


def test_the_plots_show_the_numbers_and_name_the_one_margin_of_a_type(tmp_path: Path) -> None:
    rows = [human(number, "a" * number, "b", margin=number / 10) for number in range(1, 8)]
    drawn = {figure.name: figure for figure in figures(pairs_of(tmp_path, *rows, pair(9), pair(10)))}
    assert [*drawn] == ["mixture", "votes", "margins", "lengths"]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn["mixture"].svg)
    assert {"0 human &gt; human", "2 human &gt; closed_book"} <= {*texts}
    assert [text.strip() for text in texts if text.strip() in {"7", "2", "9"}]
    assert drawn["margins"].note.endswith("One margin for all pairs: human > closed_book 0.25.")
    assert "closed_book" not in drawn["margins"].svg


def test_two_examples_of_each_type_are_of_two_questions_and_of_train_first(tmp_path: Path) -> None:
    rows = [
        human(1, "a", "b", question_id="tea.example/1", split="test"),
        human(2, "a", "b", question_id="tea.example/2"),
        human(3, "a", "b", question_id="tea.example/2"),
        human(4, "a", "b", question_id="tea.example/4"),
        pair(5),
    ]
    credit = {"author": "Cleo", "licence": "CC BY-SA 3.0", "url": "https://tea.example/a/9"}
    post = filled(ATTRIBUTION, post_id="tea.example/9", created=datetime(2020, 1, 1, tzinfo=UTC), **credit)
    found = examples(pairs_of(tmp_path / "pairs", *rows), Home(tmp_path / "posts").table(ATTRIBUTION, [post]))
    assert [(each.title, dict(each.facts)["pair"]) for each in found] == [
        ("human > human", "p_2"),
        ("human > human", "p_4"),
        ("human > closed_book", "p_5"),
    ]
    credits = {passage.label: passage.credit for passage in found[-1].passages}
    assert credits == {
        "Question": "by Bo · CC BY-SA 3.0 · https://tea.example/q/5",
        "Evidence 1": "by Cleo · CC BY-SA 3.0 · https://tea.example/a/9",
        "Evidence 2": "by Cleo · CC BY-SA 3.0 · https://tea.example/a/9",
        "Preferred (human, 7 votes)": "by Ann · CC BY-SA 4.0 · https://tea.example/a/2",
        "Rejected (closed_book)": "by offline-rules-1 · CC BY-SA 4.0",
    }
