"""What docs/page.md prints can be typed, in its order, with somebody who works on the page in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from page_server import PASSWORD, Client, served
from pages import built, commands, page, typed

import longform
from flows.expertqa import ExpertqaConfig

pytestmark = pytest.mark.check
PAGE = page("page")
USEFUL = {"task.usefulness": "Useful"}
CLAIM = {
    "support": "Complete",
    "informativeness": "Very relevant",
    "worthiness": "Yes",
    "correctness": "Unsure",
    "reliability": "Somewhat reliable",
}


def work(home: Path) -> int:
    """The annotator does every task; how many there were."""
    done = 0
    with served(home) as server:
        ann = Client(server.address)
        assert ann.logged_in("ann").status_code == 303
        round_id = ann.get("/work").text.partition("/work/rounds/")[2][:16]
        while "/tasks/" in (address := ann.next_task(round_id)):
            claims = ann.get(address).text.count('class="card split"')
            values = {f"{place}.{name}": value for place in range(claims) for name, value in CLAIM.items()}
            assert ann.submit(address, USEFUL | values, seconds="3").status_code == 303
            done += 1
    return done


@pytest.fixture(scope="module")
def typed_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, dict[str, str]]:
    """Where every command of the page was typed, in its order; how many tasks were done; and what each printed."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "password").write_text(PASSWORD)
    done, printed = 0, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in commands(PAGE):
            if line.startswith("longform build"):
                built(line, ExpertqaConfig, folder)
            elif line == "longform serve":
                done = work(folder / "data")
            else:
                ended = typed(f"{line} < password" if "users add" in line else line, folder)
                assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"
                printed[line] = ended.stdout
    return folder, done, printed


def test_what_was_said_on_the_page_is_published_under_a_pseudonym(typed_out: tuple[Path, int, dict[str, str]]) -> None:
    folder, done, _ = typed_out
    rows = [json.loads(line) for line in (folder / "filled" / "page.jsonl").read_text().splitlines()]
    assert len(rows) == done > 0
    (who,) = {row["annotator_id"] for row in rows}
    assert "ann" not in who
    claims = longform.load("expertqa", config="claims", home=folder / "data").to_pandas()
    assert who in set(claims["annotator_id"])
    assert set(claims[claims["annotator_id"] == who]["support"]) == {"Complete"}


def test_sheets_of_the_page_are_not_taken_in_twice(typed_out: tuple[Path, int, dict[str, str]]) -> None:
    _, done, printed = typed_out
    (said,) = [said for line, said in printed.items() if "annotations import" in line]
    assert said.startswith(f"0 annotations were added, {done} were there already.")
