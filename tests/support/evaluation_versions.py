"""A small published version of axioms with every set that scorers are evaluated on, written without a build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.versions import Version, find
from longform.files import sha256_of, write_json
from schemas.axioms import PAIRS
from schemas.axioms.evaluation import COMPARISONS, RANKING

SOURCES = {0: ("human", "human"), 1: ("human", "related"), 2: ("open_book", "closed_book"), 5: ("combined", "human")}
JUDGED = pa.schema([(name, pa.string()) for name in ("judgement_id", "who", "pair_id", "better")])
QUESTIONS = 4
Rows = list[dict[str, Any]]


def ranking_rows(questions: int = QUESTIONS) -> Rows:
    """Questions of each set with four answers, whose gain grows with their length."""
    rows = []
    for name, site in (("stackexchange", "tea.example"), ("eli5", "reddit.com/r/a"), ("eli5", "reddit.com/r/b")):
        for number in range(questions):
            question = f"{site}/{number}"
            answers = [
                {"answer_id": f"{question}-{n}", "text": f"Tea of {number} " + "keeps well " * n, "gain": float(n)}
                for n in range(4)
            ]
            default = {"source": "human", "votes": 1, "negative": False, "author": None, "url": None, "licence": "x"}
            rows.append(
                {
                    "ranking_id": f"{name} {question}",
                    "set": name,
                    "question_id": question,
                    "question": f"How long does tea {number} keep?\n\nIn a tin.",
                    "answers": [default | answer for answer in answers],
                    "site": site,
                }
            )
    return rows


def pair_rows(questions: int = QUESTIONS) -> Rows:
    rows = []
    for number in range(questions):
        for axiom, (better, worse) in SOURCES.items():
            key = f"tea.example/{number}"
            for parent in range(1 + (axiom == 5)):
                rows.append(
                    {
                        "pair_id": f"p_{number}{axiom}{parent}",
                        "question_id": key,
                        "question": f"How long does tea {number} keep?",
                        "evidence": [f"Tea {number} keeps a year."] if axiom == 2 else [],
                        "preferred_source": better,
                        "rejected_source": "human" if worse == "related" else worse,
                        "related_question_id": "tea.example/99" if worse == "related" else None,
                        "preferred_id": f"{better}{number}",
                        "preferred": f"Tea {number} keeps a year in a tin, as it is dry.",
                        "rejected_id": f"{worse}{axiom}{parent}{number}",
                        "rejected": f"Tea {number} is old {axiom} {parent}.",
                        "rejected_votes": 9 - parent,
                        "axiom": axiom,
                        "pair_type": f"{better} > {worse}",
                        "split": "test",
                    }
                )
    return rows


def comparison_rows(questions: int = QUESTIONS) -> Rows:
    def side(text: str, number: int) -> dict[str, Any]:
        return {"text": text, "evidence": [f"Said of {number}."] if number else [], "score": 0.5}

    return [
        {
            "comparison_id": f"w{number}",
            "set": "webgpt",
            "question": f"Why is tea {number} green?",
            "preferred": side(f"It {number} is not fermented, so it stays green.", number),
            "rejected": side(f"Paint {number}.", number + 1),
        }
        for number in range(questions)
    ]


def judgement_rows(questions: int = QUESTIONS) -> Rows:
    """Of each pair of axiom 2 three people, of whom two prefer the preferred answer, of question 0 the rejected one;
    of question 1 they are of two minds; and a judge, who does not count.
    """
    rows = []
    for number in range(questions):
        votes = ["preferred", "preferred", "rejected"] if number else ["rejected", "rejected", "preferred"]
        for annotator, better in enumerate([*votes, *(["rejected"] if number == 1 else [])]):
            rows.append({"who": "people", "better": better, "annotator": annotator, "number": number})
        rows.append({"who": "judge", "better": "rejected", "annotator": "j", "number": number})
    return [
        {
            "judgement_id": f"j{row['number']}-{row['annotator']}",
            "who": row["who"],
            "pair_id": f"p_{row['number']}20",
            "better": row["better"],
        }
        for row in rows
    ]


def write_version(home: Path, *, judged: bool = True, name: str = "v1", **configs: Rows) -> Version:
    """Write and return a version with the configs pairs, ranking and comparisons, and with `judged` validation and
    judgements; those in `configs` have these rows, and none is written for [].
    """
    validation = [row for row in pair_rows() if row["axiom"] == 2]
    found: dict[str, tuple[pa.Schema, Rows]] = {
        "pairs": (PAIRS, pair_rows()),
        "ranking": (RANKING, ranking_rows()),
        "comparisons": (COMPARISONS, comparison_rows()),
        "validation": (PAIRS, validation if judged else []),
        "judgements": (JUDGED, judgement_rows() if judged else []),
    }
    folder = home / "datasets" / "axioms" / name
    files, splits = {}, {}
    for config, (schema, rows) in found.items():
        rows = configs.get(config, rows)
        if not rows and config != "pairs":
            continue
        place = Path("test/rows.parquet") if config == "pairs" else Path(config, "test", "rows.parquet")
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        columns = [field for field in schema if not rows or field.name in rows[0]]
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), folder / place)
        files[str(place)] = {"sha256": sha256_of(folder / place), "rows": len(rows)}
        splits[config] = {"test": len(rows)}
    manifest = {
        "number": 1,
        "recipe": "r",
        "stages": {},
        "splits": splits["pairs"],
        "offline": True,
        "files": files,
        "configs": splits,
    }
    write_json(folder / "manifest.json", manifest)
    return find(home, f"axioms@{name}")
