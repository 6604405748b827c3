"""The report of LLMCrit: cells by hand, every count again by DuckDB from Parquet, empty frames, the paper's numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from expertqa_tables import Home, filled

from longform.artifacts.rows import Row, Rows, read_parquet
from schemas.llmcrit import CHECKS, CRITERIA, PUBLISHED_CRITIQUES, PUBLISHED_FEEDBACK, TEXTS
from tasks.llmcrit import report
from tasks.llmcrit import tables as made
from tasks.metrics.intervals import ratio_interval
from tasks.publishing.plots import inline
from tasks.publishing.printed import printed
from tasks.publishing.report import as_data

INPUTS = {
    "feedback": PUBLISHED_FEEDBACK,
    "critiques": PUBLISHED_CRITIQUES,
    "checks": CHECKS,
    "criteria": CRITERIA,
    "texts": TEXTS,
}
TITLES = {
    "25": "Valid and contextual feedback (table 25)",
    "1": "Constructive and helpful feedback (table 1)",
    "26": "Criteria touched (table 26)",
    "2": "Criteria helpfully addressed (table 2)",
    "3": "Feedback by criterion (table 3)",
    "4": "Asked by criterion or by aspect (table 4)",
    "violations": "Planted violations",
    "checks": "Checks of the judges",
    "criteria": "Criteria and texts",
}
Frames = Mapping[str, pd.DataFrame]


# ---------------------------------------------------------------- rows


def fed(key: str, text: str, strategy: str, validity: str | None, context: str | None, **given: Any) -> Row:
    given = {"task": text.split("/")[0], "granularity": "text" if strategy == "base" else "aspect", **given}
    whole = {"model": "gpt", "validity": validity, "context": context, **given}
    return filled(PUBLISHED_FEEDBACK, feedback_id=key, text_id=text, strategy=strategy, **whole)


def judged(feedback: Row, criterion: str, helpful: bool | None, violated: bool = False) -> Row:
    """A critique of this feedback; `helpful` None: it does not touch the criterion."""
    same = {name: feedback[name] for name in ("feedback_id", "text_id", "task", "strategy", "granularity")}
    verdicts = {"constructive": helpful is not None, "helpful": helpful, "violated": violated}
    key = f"{feedback['feedback_id']}#{criterion}"
    return filled(
        PUBLISHED_CRITIQUES, critique_id=key, criterion_id=criterion, writer=feedback["model"], **same, **verdicts
    )


def criterion(key: str, position: int, **given: Any) -> Row:
    task, aspect, _ = key.split("/")
    whole = {"name": key.upper(), "check": f"Is it {key}?", "state": "accepted", **given}
    return filled(CRITERIA, criterion_id=key, aspect_id=f"{task}/{aspect}", task=task, position=position, **whole)


def text(key: str, modified: bool, stratum: str = "") -> Row:
    return filled(TEXTS, text_id=key, task=key.split("/")[0], modified=modified, stratum=stratum)


def check(key: int, layer: str, planted: str, hit: bool) -> Row:
    return filled(CHECKS, check_id=f"{layer}/{key}", layer=layer, planted=planted, hit=hit)


def rows_of(home: Path, given: Mapping[str, list[Row]]) -> dict[str, Rows]:
    """The tables as a build has them, in Parquet files of at most two parts."""
    store = Home(home)
    halves = {name: given.get(name, []) for name in INPUTS}
    cut = {name: [rows[::2], rows[1::2]] if rows else [] for name, rows in halves.items()}
    return {name: store.table(schema, *(part for part in cut[name] if part)) for name, schema in INPUTS.items()}


def built(rows: Mapping[str, Rows], marks: Mapping[str, str] | None = None) -> dict[str, pd.DataFrame]:
    """The frames of the report's tables by their keys in TITLES."""
    tables = {table.title: table for table in report.tables(**rows, marks=marks or {})}
    assert list(tables) == list(TITLES.values())
    return {key: tables[title].frame for key, title in TITLES.items()}


def only(frame: pd.DataFrame, **cells: Any) -> dict[str, Any]:
    """The row with these cells, of which there must be one."""
    rows = frame[np.logical_and.reduce([frame[name] == cell for name, cell in cells.items()])]
    assert len(rows) == 1, f"{len(rows)} rows with {cells}"
    return {str(name): cell for name, cell in rows.iloc[0].items()}


# ---------------------------------------------------------------- by hand


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    """Two posts, of which p2 was made to violate c2. Strategy crit: five texts of feedback by aspect, four of them
    judged, three valid, two contextual; the same posts by criterion.
    """
    one = fed("f1", "posts/p1", "crit", "specific", "match", aspect_id="posts/a", aspect="Plot")
    two = fed("f2", "posts/p2", "crit", "specific", "match", aspect_id="posts/a", aspect="Plot")
    others = [
        fed("f3", "posts/p1", "crit", "specific", "not match", aspect_id="posts/b", aspect="Rules"),
        fed("f4", "posts/p2", "crit", "not specific", None, aspect_id="posts/b", aspect="Rules"),
        fed("f5", "posts/p3", "crit", None, None, aspect_id="posts/b", aspect="Rules"),
    ]
    base = fed("f6", "posts/p1", "base", "specific", "match")
    single = fed("f7", "posts/p1", "crit", "specific", "match", granularity="criterion")
    wrong = fed("f8", "posts/p2", "crit", "specific", "unsure", granularity="criterion")
    critiques = [
        *(judged(one, "posts/a/c1", True), judged(one, "posts/a/c2", None)),
        *(judged(two, "posts/a/c1", False), judged(two, "posts/a/c2", True, violated=True)),
        *(judged(base, "posts/a/c1", None), judged(base, "posts/a/c2", True), judged(base, "posts/b/c3", None)),
        judged(single, "posts/a/c1", True),
    ]
    checks = [
        *(check(number, "validity", "advice", hit) for number, hit in enumerate((True, True, True, False))),
        check(4, "helpful", "vague", False),
    ]
    criteria = [
        criterion("posts/a/c2", 2, name=""),
        criterion("posts/a/c1", 1),
        criterion("posts/b/c3", 1, state="edited"),
        criterion("code/d/c4", 1, state="proposed"),
    ]
    texts = [text("posts/p1", False, "top"), text("posts/p2", True, "top"), text("posts/p3", False)]
    given = {"feedback": [one, two, *others, base, single, wrong], "critiques": critiques}
    home = tmp_path_factory.mktemp("by_hand")
    return built(rows_of(home, {**given, "checks": checks, "criteria": criteria, "texts": texts}))


def ours(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.source == "this build"]


def test_table_25_has_both_shares_of_contextual_feedback(by_hand: Frames) -> None:
    assert list(ours(by_hand["25"]).strategy) == ["base", "crit"], "in the paper's order"
    row = only(by_hand["25"], source="this build", strategy="crit")
    assert (row["feedback judged"], row["valid"], row["contextual"]) == (4, 3, 2), "f5 is not judged, f7 is single"
    assert row["valid, % of judged"] == 75.0
    assert row["contextual, % of judged"] == 50.0
    assert row["contextual, % of valid"] == pytest.approx(200 / 3)
    # Wilson's interval of 2 of 4 by its formula: (p + z²/2n ± z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    z, n, p = 1.959963984540054, 4, 0.5
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    bounds = [row[f"contextual, % of judged {bound}"] for bound in ("from", "to")]
    assert bounds == pytest.approx([100 * (0.5 - half), 100 * (0.5 + half)])


def test_tables_1_26_and_2_by_hand(by_hand: Frames) -> None:
    row = only(by_hand["1"], source="this build", strategy="crit")
    assert [row[name] for name in ("contextual", "criteria judged", "touched", "helped")] == [2, 4, 3, 2]
    assert row["constructive, % of judged"] == 75.0
    assert row["helpful, % of touched"] == pytest.approx(200 / 3)
    # by text: p1 1 of 2 touched, p2 2 of 2, and p3 with feedback of which nothing was judged
    assert row["constructive, % of judged from"] == pytest.approx(100 * ratio_interval([1, 2, 0], [2, 2, 0])[0])
    touched, helped = (only(by_hand[table], source="this build", strategy="crit") for table in ("26", "2"))
    assert (touched["touched"], touched["texts"], touched["touched a text"]) == (3, 3, 1.0)
    assert (helped["helped"], helped["texts"]) == (2, 3)
    assert helped["helped a text"] == pytest.approx(2 / 3)
    assert only(by_hand["26"], source="this build", strategy="base")["texts"] == 1


def test_papers_rows_stand_below_ours_for_our_tasks_only(by_hand: Frames) -> None:
    for table, numbers in (("25", 16), ("1", 16), ("26", 16), ("2", 16), ("4", 16)):
        assert list(by_hand[table].source) == ["this build"] * len(ours(by_hand[table])) + ["paper"] * numbers
        assert set(by_hand[table].task) == {"posts"}, "code has criteria, but no feedback"
    paper = only(by_hand["1"], source="paper", model="LAlpaca", strategy="crit")
    assert (paper["touched"], paper["helped"]) == (1003, 557)
    assert paper["helpful, % of touched"] == pytest.approx(55.5, abs=0.05), "as its table 4 prints"
    assert pd.isna(paper["constructive, % of judged"])
    assert only(by_hand["26"], source="paper", model="GPT4", strategy="crit")["touched a text"] == 14.37


def test_table_3_by_hand(by_hand: Frames) -> None:
    frame = by_hand["3"]
    assert list(frame.criterion) == ["POSTS/A/C1", "Is it posts/a/c2?", "POSTS/B/C3"]
    assert list(frame.aspect) == ["Plot", "Plot", "Rules"]
    names = [
        f"{each} {share}" for each in ("base", "crit") for share in ("touched, % of judged", "helpful, % of touched")
    ]
    assert list(frame.columns) == ["task", "aspect", "criterion", *names]
    assert list(frame[names[0]]) == [0, 100, 0]
    assert list(frame[names[1]]) == [0, 100, 0], "0 where no critique touches it"
    assert list(frame[names[2]][:2]) == [100, 50]
    assert list(frame[names[3]][:2]) == [50, 100]
    assert frame.loc[2, names[2:]].isna().all(), "no feedback of crit was judged on c3"


def test_table_4_by_hand(by_hand: Frames) -> None:
    rows = ours(by_hand["4"]).set_index("measure")
    expected = {
        "validity": (100.0, 75.0, -25.0, 2, 4),
        "contextualization": (50.0, 50.0, 0.0, 2, 4),
        "constructiveness": (100.0, 75.0, -25.0, 1, 4),
        "helpfulness": (100.0, 200 / 3, -100 / 3, 1, 3),
    }
    assert list(rows.index) == list(expected)
    columns = ["single, %", "batch, %", "batch - single", "single of", "batch of"]
    for measure, cells in expected.items():
        assert list(rows.loc[measure, columns]) == pytest.approx(list(cells))


def test_planted_violations_by_hand(by_hand: Frames) -> None:
    frame = by_hand["violations"]
    assert list(frame.criteria) == ["made to violate", "others"], "p1 is not modified, so base is not in it"
    for kind, cells in (("made to violate", (1, 1, 1, 1, 100, 100)), ("others", (1, 1, 1, 0, 100, 0))):
        row = only(frame, task="posts", strategy="crit", criteria=kind)
        columns = ["texts", "criteria judged", "touched", "helped", "touched, % of judged", "helped, % of judged"]
        assert tuple(row[name] for name in columns) == cells


def test_checks_and_criteria_by_hand(by_hand: Frames) -> None:
    checks = by_hand["checks"]
    assert list(zip(checks.layer, checks.kind, checks.planted, checks.hits, strict=True)) == [
        ("validity", "advice", 4, 3),
        ("helpful", "vague", 1, 0),
    ]
    assert list(checks["hits, % of planted"]) == [75.0, 0.0]
    posts, code = (only(by_hand["criteria"], task=task) for task in ("posts", "code"))
    names = ["aspects", "criteria", "proposed", "accepted", "edited", "texts", "modified"]
    assert [posts[name] for name in names] == [2, 3, 0, 2, 1, 3, 1]
    assert [code[name] for name in names] == [1, 1, 1, 0, 0, 0, 0]
    assert (posts["strata"], posts["aspects paper"], posts["criteria difference"]) == ("none 1, top 2", 6, -22)
    assert pd.isna(code["strata"])


# ---------------------------------------------------------------- random rows, again by DuckDB


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Three tasks (one of which the paper has not), two models, all strategies, both granularities of two tasks."""
    dice = np.random.default_rng(7)

    def one(*options: Any) -> Any:
        return options[int(dice.integers(len(options)))]

    tasks = ("posts", "code", "letters")
    criteria = [
        criterion(f"{task}/{aspect}/{number}", number, state=one("proposed", "accepted", "edited"))
        for task in tasks
        for aspect in "xyz"
        for number in range(1, 4)
    ]
    texts = [text(f"{task}/{n}", bool(dice.random() < 0.5), one("", "a", "b")) for task in tasks for n in range(9)]
    feedback, critiques = [], []
    asked = [("base", "text"), ("crit", "aspect"), ("icl", "aspect"), ("cricl", "aspect"), ("crit", "criterion")]
    for shown in texts:
        own = [row for row in criteria if row["task"] == shown["task"]]
        for model in ("gpt", None):
            for strategy, granularity in asked:
                if granularity == "criterion" and shown["task"] == "letters":
                    continue
                for aspect in (None,) if strategy == "base" else ("x", "y", "z"):
                    about = None if aspect is None else f"{shown['task']}/{aspect}"
                    validity = one("specific", "specific", "specific", "not specific", None)
                    context = one("match", "match", "not match", "unsure") if validity == "specific" else None
                    key = f"{shown['text_id']}/{model}/{strategy}/{granularity}/{aspect}"
                    row = fed(
                        *(key, shown["text_id"], strategy, validity, context),
                        **{"granularity": granularity, "model": model, "aspect_id": about, "aspect": about},
                    )
                    verdicts = [
                        judged(row, each["criterion_id"], one(None, True, False), bool(dice.random() < 0.3))
                        for each in own
                        if context == "match" and about in (None, each["aspect_id"])
                    ]
                    row["judged"] = len(verdicts)
                    row["touched"] = sum(each["constructive"] for each in verdicts)
                    row["helped"] = sum(bool(each["helpful"]) for each in verdicts)
                    feedback.append(row)
                    critiques += verdicts
    checks = [
        check(number, layer, one("advice", "own"), bool(dice.random() < 0.8))
        for layer in made.LAYERS
        for number in range(20)
    ]
    given = {"feedback": feedback, "critiques": critiques, "checks": checks, "criteria": criteria, "texts": texts}
    return rows_of(tmp_path_factory.mktemp("drawn"), given)


@pytest.fixture(scope="module")
def shown(drawn: dict[str, Rows]) -> dict[str, pd.DataFrame]:
    return built(drawn)


@pytest.fixture(scope="module")
def sql(drawn: dict[str, Rows]) -> Callable[[str], list[tuple[Any, ...]]]:
    database = duckdb.connect()
    for name, rows in drawn.items():
        database.execute(f"CREATE VIEW {name} AS FROM {read_parquet(rows.paths)}")
    return lambda query: database.execute(query).fetchall()


def same(frame: pd.DataFrame, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    """The frame's columns hold these rows, in any order."""
    cells = frame[columns].astype(object)
    found = sorted(cells.where(cells.notna(), None).itertuples(index=False, name=None), key=str)
    assert len(found) == len(rows) > 0
    for mine, other in zip(found, sorted(rows, key=str), strict=True):
        assert mine == pytest.approx(other), f"{mine} instead of {other}"


KEY = "task, coalesce({}, 'not named') AS model, strategy"


def test_table_25_again_by_sql(shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]) -> None:
    columns = ["task", "model", "strategy", "feedback judged", "valid", "contextual"]
    shares = ["valid, % of judged", "contextual, % of judged", "contextual, % of valid"]
    same(ours(shown["25"]), columns + shares, sql(f"""
        SELECT {KEY.format("model")}, count(validity) AS n, count_if(validity = 'specific') AS valid,
               count_if(context = 'match') AS contextual, 100 * valid / n, 100 * contextual / n,
               100 * contextual / valid
        FROM feedback WHERE granularity <> 'criterion' GROUP BY ALL
    """))  # fmt: skip


def test_tables_1_26_and_2_again_by_sql(shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]) -> None:
    critiques = f"""
        SELECT {KEY.format("writer")}, count(*) AS n, count_if(constructive) AS touched, count_if(helpful) AS helped,
               100 * touched / n, 100 * helped / touched
        FROM critiques WHERE granularity <> 'criterion' GROUP BY ALL
    """
    columns = ["task", "model", "strategy", "criteria judged", "touched", "helped"]
    same(ours(shown["1"]), [*columns, "constructive, % of judged", "helpful, % of touched"], sql(critiques))
    # the same from the counts that stand in the published feedback
    for table, column in (("26", "touched"), ("2", "helped")):
        same(ours(shown[table]), ["task", "model", "strategy", column, "texts", f"{column} a text"], sql(f"""
            SELECT {KEY.format("model")}, sum({column})::INT AS n, count(DISTINCT text_id) AS texts, n / texts
            FROM feedback WHERE granularity <> 'criterion' GROUP BY ALL
        """))  # fmt: skip


def test_bounds_of_table_1_resample_texts(shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]) -> None:
    sums = sql("""
        SELECT sum(judged), sum(touched), sum(helped) FROM feedback
        WHERE task = 'code' AND model = 'gpt' AND strategy = 'icl' GROUP BY text_id
    """)
    judged_, touched, helped = zip(*sums, strict=True)
    row = only(shown["1"], source="this build", task="code", model="gpt", strategy="icl")
    for name, bounds in (
        ("constructive, % of judged", ratio_interval(touched, judged_)),
        ("helpful, % of touched", ratio_interval(helped, touched)),
    ):
        assert [row[f"{name} from"], row[f"{name} to"]] == pytest.approx([100 * bound for bound in bounds])
        assert row[f"{name} from"] < row[name] < row[f"{name} to"]


def test_table_3_again_by_sql(shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]) -> None:
    for strategy in made.STRATEGIES:
        columns = ["task", "criterion", f"{strategy} touched, % of judged", f"{strategy} helpful, % of touched"]
        same(shown["3"], columns, sql(f"""
            SELECT criteria.task, any_value(name), 100 * count_if(constructive) / count(*),
                   coalesce(100 * count_if(helpful) / nullif(count_if(constructive), 0), 0)
            FROM critiques JOIN criteria USING (criterion_id)
            WHERE strategy = '{strategy}' AND granularity <> 'criterion' GROUP BY criteria.task, criterion_id
        """))  # fmt: skip


def test_table_4_again_by_sql(shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]) -> None:
    for granularity, side in (("criterion", "single"), ("aspect", "batch")):
        columns = ["task", "model", "measure", f"{side}, %", f"{side} of"]
        same(ours(shown["4"]), columns, sql(f"""
            WITH sums AS (
                SELECT task, coalesce(model, 'not named') AS model, count(validity) AS n,
                       count_if(validity = 'specific') AS valid, count_if(context = 'match') AS contextual,
                       sum(judged)::INT AS judged, sum(touched)::INT AS touched, sum(helped)::INT AS helped
                FROM feedback WHERE strategy = 'crit' AND granularity = '{granularity}' AND task <> 'letters'
                GROUP BY ALL
            )
            SELECT task, model, 'validity', 100 * valid / n, n FROM sums
            UNION ALL SELECT task, model, 'contextualization', 100 * contextual / n, n FROM sums
            UNION ALL SELECT task, model, 'constructiveness', 100 * touched / judged, judged FROM sums
            UNION ALL SELECT task, model, 'helpfulness', 100 * helped / touched, touched FROM sums
        """))  # fmt: skip


def test_violations_checks_and_criteria_again_by_sql(
    shown: Frames, sql: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    columns = ["task", "strategy", "criteria", "texts", "criteria judged", "touched", "helped"]
    same(shown["violations"], [*columns, "touched, % of judged", "helped, % of judged"], sql("""
        SELECT critiques.task, strategy, if(critiques.violated, 'made to violate', 'others'), count(DISTINCT text_id),
               count(*) AS n, count_if(constructive) AS touched, count_if(helpful) AS helped, 100 * touched / n,
               100 * helped / n
        FROM critiques JOIN texts USING (text_id) WHERE modified AND granularity <> 'criterion' GROUP BY ALL
    """))  # fmt: skip
    columns = ["layer", "kind", "planted", "hits", "hits, % of planted"]
    same(shown["checks"], columns, sql("""
        SELECT layer, planted, count(*) AS n, count_if(hit) AS hits, 100 * hits / n FROM checks GROUP BY ALL
    """))  # fmt: skip
    same(shown["criteria"], ["task", "criteria", "proposed", "accepted", "edited", "aspects"], sql("""
        SELECT task, count(*), count_if(state = 'proposed'), count_if(state = 'accepted'), count_if(state = 'edited'),
               count(DISTINCT aspect_id) FROM criteria GROUP BY ALL
    """))  # fmt: skip
    same(shown["criteria"], ["task", "texts", "modified", "strata"], sql("""
        WITH strata AS (SELECT task, if(stratum = '', 'none', stratum) AS name, count(*) AS n FROM texts GROUP BY ALL)
        SELECT task, count(*), count_if(modified),
               (SELECT string_agg(name || ' ' || n, ', ' ORDER BY name) FROM strata WHERE strata.task = texts.task)
        FROM texts GROUP BY ALL
    """))  # fmt: skip


def test_tables_of_a_task_that_the_paper_has_not_are_ours_alone(shown: Frames) -> None:
    letters = shown["1"][shown["1"].task == "letters"]
    assert len(letters) == 8
    assert set(letters.source) == {"this build"}
    assert "letters" not in set(shown["4"].task), "it has no feedback by criterion"
    assert "introductions" not in {*shown["1"].task, *shown["25"].task}


def test_tables_can_be_written_and_do_not_depend_on_the_order_of_rows(drawn: dict[str, Rows]) -> None:
    def written(rows: Mapping[str, Rows]) -> Any:
        return json.loads(as_data(report.tables(**rows, marks={})))

    turned = {name: rows.of((rows.parts or [])[::-1]) for name, rows in drawn.items()}
    assert written(turned) == written(drawn)


# ---------------------------------------------------------------- marks, emptiness, the plot


def test_marks_stand_in_the_notes_of_tables_that_use_the_layer(drawn: dict[str, Rows]) -> None:
    marks = {"validity": "Of validity.", "context": "Both.", "constructive": "Both.", "helpful": "Of helpfulness."}
    notes = {table.title: table.note for table in report.tables(**drawn, marks=marks)}
    ends = {"25": "Of validity. Both.", "26": "Of validity. Both."}
    for key in ("1", "2", "3", "4", "violations", "checks"):
        ends[key] = "Of validity. Both. Of helpfulness."
    for key, end in ends.items():
        assert notes[TITLES[key]].endswith(f" {end}"), key
    assert not any(sentence in notes[TITLES["criteria"]] for sentence in marks.values())
    some = {table.title: table.note for table in report.tables(**drawn, marks={"constructive": "Of critiques."})}
    assert [key for key, title in TITLES.items() if "Of critiques." in some[title]] == [
        *("1", "26", "2", "3", "4", "violations", "checks")
    ]


@pytest.mark.parametrize("known", [(), ("criteria",), ("criteria", "texts"), ("feedback",), ("feedback", "texts")])
def test_without_rows_tables_are_empty(tmp_path: Path, drawn: dict[str, Rows], known: tuple[str, ...]) -> None:
    nothing = rows_of(tmp_path, {})
    rows = {**nothing, **{name: drawn[name] for name in known}}
    tables = built(rows)
    as_data(report.tables(**rows, marks={}))
    filled_tables = {key for key, frame in tables.items() if len(frame)}
    assert filled_tables == ({"criteria"} if "criteria" in known or "texts" in known else set()) | (
        {"25", "1", "26", "2", "4"} if "feedback" in known else set()
    )
    whole = built(drawn)
    for key, frame in tables.items():
        if key not in ("3", "criteria"):
            assert list(frame.columns) == list(whole[key].columns)
    if "feedback" not in known:
        assert report.figures(rows["feedback"]) == []


def test_plot_has_the_sums_of_touched_and_helped_criteria(
    drawn: dict[str, Rows], sql: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    figure, *others = report.figures(drawn["feedback"])
    assert not others
    texts = sql("""
        SELECT sum(touched)::INT, sum(helped)::INT FROM feedback
        WHERE granularity <> 'criterion' GROUP BY task, strategy
    """)
    assert len(texts) == 12
    for numbers in texts:
        for number in numbers:
            assert f">{number:,}</text>" in figure.svg.replace("> ", ">")
    assert report.figures(drawn["feedback"])[0].svg == figure.svg
    assert inline(figure.svg, "a").startswith("<svg")


# ---------------------------------------------------------------- the paper

SUMS_OF_ROWS = {  # of the four strategies, added up from the paper's text
    "introductions": {"Together": (827, 928), "LAlpaca": (1244, 1387), "Command": (1031, 1153), "GPT4": (2847, 3034)},
    "posts": {"Together": (838, 1163), "LAlpaca": (1248, 1942), "Command": (2953, 3694), "GPT4": (3633, 4333)},
    "code": {"CLlama": (3921, 4330), "WizCoder": (2614, 2864), "Claude2": (4217, 4399), "GPT4": (4138, 4342)},
}
VALID_AND_CONTEXTUAL = {
    "introductions": {
        "Together": (288.6, 228.4),
        "LAlpaca": (382.6, 342.4),
        "Command": (370.4, 295.2),
        "GPT4": (389.2, 385.8),
    },
    "posts": {
        "Together": (344.7, 335.9),
        "LAlpaca": (386.8, 374.2),
        "Command": (396.1, 391.7),
        "GPT4": (400.0, 399.8),
    },
    "code": {
        "CLlama": (389.5, 338.4),
        "WizCoder": (387.6, 299.3),
        "Claude2": (396.3, 359.2),
        "GPT4": (395.2, 381.0),
    },
}


def paper(name: str) -> pd.DataFrame:
    return printed(made.PRINTED, name)


def test_printed_counts_add_up_to_the_papers() -> None:
    helped, touched = paper("table_2"), paper("table_26")
    both = helped.merge(touched, on=["task", "model", "strategy", "texts"], validate="one_to_one")
    assert len(both) == 48
    assert (both.helped <= both.touched).all()
    for table, column, place in ((helped, "helped", 0), (touched, "touched", 1)):
        sums = table.groupby(["task", "model"])[column].sum()
        assert sums.to_dict() == {(t, m): n[place] for t, models in SUMS_OF_ROWS.items() for m, n in models.items()}
        assert list(table.strategy) == 12 * list(made.STRATEGIES)


def test_printed_counts_bear_out_what_the_paper_says_of_them() -> None:
    both = paper("table_26").merge(paper("table_2"), on=["task", "model", "strategy"]).set_index("strategy")
    base, crit = both.loc["base"], both.loc["crit"]
    assert (crit.helped.to_numpy() > base.helped.to_numpy()).all(), "6.3: criteria always improve it"
    shares = both.helped / both.touched
    gpt4 = both.model == "GPT4"
    assert (shares[gpt4].loc["crit"].to_numpy() > shares[gpt4].loc["base"].to_numpy()).all(), "6.2: GPT4, helpfulness"
    criteria = paper("criteria_and_texts").set_index("task").criteria
    assert (both.touched.to_numpy() <= 100 * both.task.map(criteria).to_numpy()).all(), "100 texts, each criterion once"


def test_printed_shares_of_table_25_add_up_and_are_of_all_texts() -> None:
    table = paper("table_25")
    columns = ["valid, % of judged", "contextual, % of judged"]
    sums = table.groupby(["task", "model"])[columns].sum().round(1)
    for task, models in VALID_AND_CONTEXTUAL.items():
        for model, cells in models.items():
            assert tuple(sums.loc[(task, model)]) == cells
    base = table[table.strategy == "base"].set_index(["task", "model"])
    assert (base[columns] % 1 == 0).all(axis=None), "100 texts: whole percents, of contextual feedback as well"
    valid = base[columns[0]]
    of_valid = pd.DataFrame({number: (100 * number / valid).round(1) for number in range(101)})
    impossible = ~of_valid.eq(base[columns[1]], axis=0).any(axis=1)
    assert ("introductions", "LAlpaca") in set(impossible.index[impossible]), "93.0 is no share of 96 valid texts"
    tasks = paper("criteria_and_texts").set_index("task").aspects
    others = table[table.strategy != "base"]
    step = 100 / (100 * others.task.map(tasks).astype(float))  # in percent, of one feedback text
    for column in columns:
        shares = others[column].astype(float)
        assert ((shares / step).round() * step - shares).abs().max() < 0.051, "feedback on each aspect of 100 texts"


def test_printed_table_4_agrees_with_itself_and_with_the_other_tables() -> None:
    table = paper("table_4")
    gaps = table["batch, %"] - table["single, %"] - table["batch - single"]
    assert gaps.abs().max() < 1e-9
    assert gaps.notna().sum() == 12
    batch = table.pivot(index="model", columns="measure", values="batch, %")
    crit = paper("table_25").query("task == 'posts' and strategy == 'crit'").set_index("model")
    assert batch.validity.to_dict() == crit["valid, % of judged"].to_dict()
    contextual = (batch.contextualization - crit["contextual, % of judged"]).round(1)
    assert contextual.to_dict() == {"Together": 0, "LAlpaca": 0, "Command": -0.7, "GPT4": 0}, "the paper differs there"
    touched, helped = (
        paper(name).query("task == 'posts' and strategy == 'crit'").set_index("model")[column]
        for name, column in (("table_26", "touched"), ("table_2", "helped"))
    )
    known = batch.helpfulness.dropna()
    assert (100 * helped / touched).round(1)[known.index].to_dict() == known.to_dict()


def test_printed_aspects_and_criteria_are_25_and_83() -> None:
    table = paper("criteria_and_texts")
    assert (table.aspects.sum(), table.criteria.sum()) == (25, 83)
