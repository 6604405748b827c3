"""What docs/annotation.md prints can be typed, in its order, with sheets that people filled in between."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pages import built, commands, page, typed

import longform
from flows.expertqa import ExpertqaConfig
from flows.revision_distance import RevisionDistanceConfig
from longform.artifacts.versions import versions
from tasks.annotation.files import FORMATS

pytestmark = pytest.mark.check
PAGE = page("annotation")
MODELS: dict[str, Any] = {"expertqa": ExpertqaConfig, "revision-distance": RevisionDistanceConfig}
LABELS = {"support": "Complete", "informativeness": "Very relevant", "worthiness": "Yes", "correctness": "Unsure"}


def fill_in(folder: Path) -> None:
    """Two people label everything; they differ in the worthiness of every claim with an even number."""
    (folder / "filled").mkdir(exist_ok=True)
    for name in ("ann", "bob"):
        rows = [json.loads(line) for line in (folder / "sheets.jsonl").read_text().splitlines()]
        for row in rows:
            row |= {"annotator_id": name, "usefulness": "Useful"}
            for place, claim in enumerate(row["claims"]):
                claim |= LABELS | ({"worthiness": "No"} if name == "bob" and place % 2 else {})
        (folder / "filled" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def judge(folder: Path) -> None:
    with (folder / "pairs.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    with (folder / "judged.csv").open("w", newline="", encoding="utf-8-sig") as file:
        lines = csv.DictWriter(file, rows[0].keys(), delimiter=";")
        lines.writeheader()
        for expert in ("1", "2"):
            lines.writerows(
                {**row, "expert": expert, "better": "A", "content_a": "4,0", "content_b": 2} for row in rows
            )


@pytest.fixture(scope="module")
def typed_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Where every command of the page was typed, in its order; and what each printed."""
    folder = tmp_path_factory.mktemp("annotation-page")
    printed = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line, MODELS[line.split()[2]], folder)
                continue
            done = typed(line, folder)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            printed[line] = done.stdout
            if line.startswith("longform sheets") and "--to sheets.jsonl" in line:
                fill_in(folder)
            if "pairs.csv" in line:
                judge(folder)
    return folder, printed


def test_the_labels_of_both_are_published_and_the_pairs_judged(typed_out: tuple[Path, dict[str, str]]) -> None:
    folder, _ = typed_out
    home = folder / "data"
    version = versions(home, "expertqa")[-1].name
    claims, labels = (
        longform.load("expertqa", config=config, version=version, home=home).to_pandas()
        for config in ("claims", "labels")
    )
    assert set(labels["claim_id"]) == set(claims["claim_id"])
    assert labels.groupby("claim_id")["annotator_id"].agg(set).map({"ann", "bob"}.issubset).all()
    assert set(labels[labels["annotator_id"] == "ann"]["support"]) == {"Complete"}
    modes = labels.groupby("claim_id")["support"].agg(lambda given: list(given.mode()))
    for claim in claims.itertuples():
        assert claim.support == (modes[claim.claim_id][0] if len(modes[claim.claim_id]) == 1 else None)
    drafts = longform.load("revision-distance", split="hard", home=home).to_pandas()
    assert set(drafts["experts"]) == {2}


def test_what_came_back_is_shown_with_agreement(typed_out: tuple[Path, dict[str, str]]) -> None:
    folder, printed = typed_out
    (shown, pairs) = (text for line, text in printed.items() if line.startswith("longform labels"))
    assert re.search(r"^\s*ann +\d+ +\d+$", shown, re.MULTILINE)
    assert re.search(r"^worthiness +\d+ +\d+ +0\.\d+ ", shown, re.MULTILINE)
    assert re.search(r"^better +\d+ +\d+ +1\.00 ", pairs, re.MULTILINE)
    line = next(line for line in printed if line.startswith("longform labels expertqa"))
    said = json.loads(typed(f"{line} --json", folder).stdout)
    agreed = {row["field"]: row for row in said["agreement"]}
    assert agreed["support"]["agreed"] == 1.0
    assert agreed["worthiness"]["agreed"] < 1
    assert agreed["worthiness"]["cohen from"] <= agreed["worthiness"]["cohen"] <= agreed["worthiness"]["cohen to"]
    progress = {row["field"]: row for row in said["progress"]}
    assert progress["support"]["units"] == progress["support"]["by more"] > 0
    assert said["rejected"] == {}


def test_the_accounts_of_the_page_are_taken_and_one_of_a_file_that_nothing_names_is_refused() -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    settings = tomllib.loads(block)
    assert ExpertqaConfig(**settings).accounts["exports/lab"] == {"1": "e7", "2": "e12"}
    with pytest.raises(ValueError, match='accounts is given for "exports/labs", but labels are read of exports/lab'):
        ExpertqaConfig(labels="exports/lab", accounts={"exports/labs": {"1": "e7"}})
    with pytest.raises(ValueError, match="no file"):
        RevisionDistanceConfig(accounts={"exports": {"1": "e7"}})


def test_the_page_has_every_format() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE) == ["--format", *FORMATS]
