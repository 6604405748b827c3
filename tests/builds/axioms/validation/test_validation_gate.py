"""From a build over filled-in sheets to a build without the pair types that people do not prefer, and what its card,
report, manifest and console say.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa
from typer.testing import CliRunner

from flows.axioms import AxiomsConfig
from flows.cli.main import app
from longform.artifacts.rows import Row
from longform.artifacts.versions import Version, find
from longform.errors import SourceError

pytestmark = pytest.mark.check

SMALL: dict[str, Any] = {"limit": 14, "msmarco": [], "webgpt": []}
# pair type -> how many of its pairs the majority is to prefer; the others it does not
WANTED = {
    "human > human": 14,  # of 20: 70 %, which stays
    "human > related": 13,  # of 20: 65 %
    "open_book > closed_book": 9,  # of 14: 64 %
    "open_book > corrupted": 10,  # of 14: 71 %
    "closed_book > corrupted": 14,
    "combined > human": 0,  # only 9 of 20 are judged, fewer than 10
}
LEFT_OUT = {"human > related", "open_book > closed_book"}
UNVALIDATED = {"combined > human"}
PEOPLE = ("ann", "bob", "cy")


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return done.output


def rows_of(version: Version, config: str, split: str = "") -> list[Row]:
    files = [path for name in version.configs[config] for path in version.files(config, name) if split in ("", name)]
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def preferred(sample: list[Row]) -> dict[str, bool | None]:
    """pair_id -> whether most people are to prefer its preferred answer; None: nobody judges it."""
    left, judged = dict(WANTED), Counter[str]()
    found: dict[str, bool | None] = {}
    for row in sample:
        kind = row["pair_type"]
        judged[kind] += 1
        if kind in UNVALIDATED and judged[kind] > 9:
            found[row["pair_id"]] = None
        else:
            found[row["pair_id"]] = left.get(kind, 1_000) > 0
            left[kind] = left.get(kind, 1_000) - 1
    return found


def entered(sheet: Row, pair: Row, prefers: bool) -> Row:
    """What a person enters in a sheet who prefers the preferred answer of a pair, or the other one."""
    a_is_preferred = " ".join(sheet["text_a"].split()) == " ".join(pair["preferred"].split())
    good, poor = ("a", "b") if a_is_preferred is prefers else ("b", "a")
    return {
        "preference": good.upper(),
        "strength": "moderately",
        f"score_{good}": 8,
        f"score_{poor}": 5,
        f"flaws_{poor}": "too narrow",
    }


def fill(folder: Path, home: Path, version: str) -> Path:
    """A folder with three people's sheets: one of JSON lines, two of CSV, handed out in different orders. The third
    person says the contrary of the others wherever the pair's id is even.
    """
    sample = {row["pair_id"]: row for row in rows_of(find(home, f"axioms@{version}"), "validation")}
    wanted = preferred([*sample.values()])
    filled = folder / f"filled-{version}"
    filled.mkdir()
    for seed, (who, format) in enumerate(zip(PEOPLE, ("jsonl", "csv", "plain-csv"), strict=True)):
        out = folder / f"{version}-{who}.{format.rpartition('-')[2]}"
        run("sheets", f"axioms@{version}", "--home", home, "--to", out, "--seed", seed, "--format", format)
        with out.open(encoding="utf-8-sig", newline="") as file:
            sheets = list(map(json.loads, file)) if format == "jsonl" else list(csv.DictReader(file))
        done = []
        for sheet in sheets:
            prefers = wanted[sheet["pair_id"]]
            if prefers is not None:
                contrary = who == "cy" and int(sheet["pair_id"][-1], 16) % 2 == 0
                done.append(sheet | entered(plain(sheet, format), sample[sheet["pair_id"]], prefers is not contrary))
                done[-1]["annotator_id"] = who
        with (filled / out.name).open("w", encoding="utf-8", newline="") as file:
            if format == "jsonl":
                file.writelines(json.dumps(row) + "\n" for row in done)
            else:
                writer = csv.DictWriter(file, list(done[0]))
                writer.writeheader()
                writer.writerows(done)
    return filled


def plain(sheet: Row, format: str) -> Row:
    """The sheet without the apostrophes that keep a spreadsheet from running a cell."""
    return {name: text.removeprefix("'") if format == "csv" else text for name, text in sheet.items() if text}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a version of which nobody said anything (before), and one that was judged (after)."""
    top = tmp_path_factory.mktemp("gate")
    build_axioms(top / "home", "before", **SMALL)
    judgements = fill(top, top / "home", "before")
    build_axioms(top / "home", "after", **SMALL, judgements=str(judgements))
    return top / "home"


@pytest.fixture
def before(home: Path) -> Version:
    return find(home, "axioms@before")


@pytest.fixture
def after(home: Path) -> Version:
    return find(home, "axioms@after")


def test_exactly_the_types_under_the_share_leave_train_and_all_configs_of_trainers(
    before: Version, after: Version
) -> None:
    was = {row["pair_id"]: row for row in rows_of(before, "pairs")}
    expected = {key: row for key, row in was.items() if row["pair_type"] not in LEFT_OUT or row["split"] != "train"}
    assert {row["pair_id"]: row for row in rows_of(after, "pairs")} == expected
    assert len(expected) < len(was)
    for config in ("preference", "preference_text"):
        assert {row["pair_id"] for row in rows_of(after, config)} == {*expected}
    assert not {row["pair_type"] for row in rows_of(after, "preference_sampled", "train")} & LEFT_OUT
    assert rows_of(after, "validation") == rows_of(before, "validation"), "what was shown stays as it was"
    assert {row["pair_type"] for row in rows_of(after, "validation")} > LEFT_OUT


def test_each_pair_that_was_left_out_says_why(home: Path, before: Version, after: Version) -> None:
    printed = run("rejects", "axioms@after", "--home", home, "--stage", "leave_out_pair_types", "--json")
    rows = list(map(json.loads, printed.splitlines()))
    gone = {row["pair_id"] for row in rows_of(before, "pairs")} - {row["pair_id"] for row in rows_of(after, "pairs")}
    assert {row["key"] for row in rows} <= gone
    assert {row["reason"] for row in rows} == {"its pair type is not preferred often enough"}
    assert any("human > related: preferred by people in 65 % of 20 pairs" in row["detail"] for row in rows)


def test_card_console_report_and_manifest_say_what_was_left_out_on_what_evidence(
    home: Path, before: Version, after: Version
) -> None:
    related = (
        "pairs of human > related are not preferred, so that the type is left out of training: preferred by people in "
        "65 % of 20 pairs (95 % interval 43.3 % to 81.9 %; 3 judgements a pair)"
    )
    found = {gate["what"]: gate for gate in after.manifest["gates"] if gate["gate"] == "validation"}
    assert (found[related]["found"], found[related]["checked"]) == (7, 20)
    assert {kind for kind in WANTED if any(f"pairs of {kind} are not" in what for what in found)} == LEFT_OUT
    assert (found["pair types of train are unvalidated"]["found"], len(found)) == (1, 3)
    shown = run("show", "axioms@after", "--home", home)
    card = (after.folder / "README.md").read_text().replace("\\", "")
    report = (after.folder / "report.html").read_text().replace("&gt;", ">")
    for text in (shown, card, report):
        assert f"7 of 20 {related}" in " ".join(text.split())
    assert re.search(r"\| human > related +\| left out +\| people", card)
    assert re.search(r"\| combined > human +\| stays +\| unvalidated", card)
    nobody = "validation: 6 of 6 pair types of train are unvalidated"
    assert nobody in (before.folder / "README.md").read_text()
    assert nobody in run("show", "axioms@before", "--home", home)


def test_table_6_is_what_is_counted_in_the_published_judgements(after: Version) -> None:
    judgements = rows_of(after, "judgements")
    assert {*after.configs["judgements"]} == {"people"}
    assert {row["annotator_id"] for row in judgements} == {*PEOPLE}
    tables = {table["title"]: table["rows"] for table in json.loads((after.folder / "tables.json").read_text())}
    rows = {row["pair type"]: row for row in tables["Preferences by pair type (table 6 of the paper)"]}
    for kind, row in rows.items():
        own = [each for each in judgements if kind in (each["pair_type"], "all pair types")]
        by_pair: dict[str, list[bool]] = {}
        for each in own:
            by_pair.setdefault(each["pair_id"], []).append(each["better"] == "preferred")
        votes = np.array([*by_pair.values()])
        assert votes.shape == (row["people: pairs of kappa"], 3)
        share = (votes.sum(axis=1) >= 2).mean()
        assert row["people: preferred %"] == pytest.approx(100 * share, abs=1e-9)
        kappa = fleiss_kappa(aggregate_raters(votes)[0]) if 0 < votes.mean() < 1 else None
        assert row["people: kappa"] == (kappa if kappa is None else pytest.approx(kappa, abs=1e-9))
        if kind in WANTED and kind not in UNVALIDATED:
            assert round(share * len(votes)) == WANTED[kind]
    assert rows["open_book > closed_book"]["people: preferred % paper"] == 57.4
    flaws = tables["Flaws of answers (table 8 of the paper)"]
    assert {(row["who"], row["answer"]) for row in flaws} == {("people", "preferred"), ("people", "rejected")}


def test_a_trace_of_a_pair_shows_who_said_what_also_of_one_that_was_left_out(home: Path, after: Version) -> None:
    left_out = next(row for row in rows_of(after, "judgements") if row["pair_type"] == "human > related")
    for key in (left_out["judgement_id"], f"v_{left_out['pair_id'].removeprefix('p_')}"):
        shown = run("trace", "axioms@after", key, "--home", home)
        assert f"{left_out['pair_id']}   axiom 1   human > related" in shown
        assert len(re.findall("people (ann|bob|cy) · the .* is moderately better", shown)) == 3
    alone = next(row for row in rows_of(after, "validation") if row["axiom"] == -1)
    assert "pair_for_validation" in run("trace", "axioms@after", alone["validation_id"], "--home", home)


def test_sheets_of_an_earlier_sample_count_as_long_as_their_pairs_are_there(
    tmp_path: Path, home: Path, before: Version, after: Version
) -> None:
    filled = fill(tmp_path, home, "before")
    again, _, _ = build_axioms(
        home, "smaller", **SMALL, judgements=str(filled), validation_pairs=2, validation_min_pairs=2, seed=5
    )
    assert again is not None
    said = {row["judgement_id"] for row in rows_of(again, "judgements")}
    assert len(rows_of(again, "validation")) < 60 < len(said)
    assert said <= {row["judgement_id"] for row in rows_of(after, "judgements")}
    strangers, _, _ = build_axioms(home, "strangers", **{**SMALL, "limit": 4})
    assert strangers is not None
    gone = [row for row in rows_of(before, "validation") if row["pair_type"] == "open_book > corrupted"][-1:]
    sheets = [json.loads(line) for line in (filled / "before-ann.jsonl").read_text().splitlines()]
    (tmp_path / "one.jsonl").write_text(json.dumps(next(s for s in sheets if s["pair_id"] == gone[0]["pair_id"])))
    kept = {row["pair_id"] for row in rows_of(strangers, "pairs")}
    if gone[0]["pair_id"] not in kept:
        with pytest.raises(SourceError, match="unknown pair"):
            build_axioms(home, "none", **{**SMALL, "limit": 4}, judgements=str(tmp_path / "one.jsonl"))


def test_a_second_build_of_the_same_sheets_makes_nothing_anew(tmp_path: Path, home: Path, after: Version) -> None:
    filled = fill(tmp_path, home, "before")
    again, progress, _ = build_axioms(home, None, **SMALL, judgements=str(filled))  # type: ignore[arg-type]
    assert again is not None
    assert again.name == "after"
    assert {entry.state for entry in progress.ended} == {"reuse"}


def settings_refused(**settings: Any) -> str:
    with pytest.raises(ValueError, match=r".") as error:
        AxiomsConfig(**settings)
    return str(error.value)


def test_settings_that_do_not_go_together_are_refused() -> None:
    judge = {"stages": {"judge_validation": {"model": "offline"}}, "validation_judge": "offline"}
    assert "validation_judge says who judges" in settings_refused(**judge)
    assert "labels are read of no file" in settings_refused(accounts={"lab": {"1": "e7"}})
