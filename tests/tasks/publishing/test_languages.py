"""The languages of a table's texts, from a sample: which are drawn, what they are found to be, where it is said."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import xxhash
import yaml
from axioms_builds import build_axioms
from hypothesis import given
from hypothesis import strategies as st

from tasks.publishing.languages import languages, sample

ENGLISH = "How long should the cask of ale lie in the cellar before somebody opens it for the guests? It is number"
GERMAN = "Wie lange soll das Fass im Keller liegen, bevor es jemand für die Gäste öffnet? Es ist die Nummer"
CODE = "x = [n ** 2 for n in range(10)]  # 42"


# ---------------------------------------------------------------- the sample


@given(st.permutations([(f"{site}.example/{number}", f"{site} {number}") for site in "ab" for number in range(12)]))
def test_the_sample_of_each_group_are_the_lowest_hashes_in_whatever_order(items: list[tuple[str, str]]) -> None:
    found = sample(items, 5)
    for group in ("a.example", "b.example"):
        own = sorted((xxhash.xxh3_64_intdigest(key.encode()), text) for key, text in items if key.startswith(group))
        assert found[group] == [text for _, text in own[:5]]


def test_rows_of_other_groups_change_no_sample() -> None:
    one = [(f"a.example/{number}", str(number)) for number in range(50)]
    other = [(f"b.example/{number}", str(number)) for number in range(50)]
    assert sample([*other, *one], 7)["a.example"] == sample(one, 7)["a.example"]


def test_no_more_than_the_sample_is_held_in_memory() -> None:
    tracemalloc.start()
    sample(((f"a.example/{number}", str(number) * 1_000) for number in range(20_000)), 10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000, "20,000 texts of 5,000 characters"


# ---------------------------------------------------------------- the languages


def test_shares_are_of_the_texts_that_show_a_language() -> None:
    found = languages("hop.example", [ENGLISH] * 30 + [GERMAN] * 10 + [CODE] * 60)
    assert (found.group, found.texts, found.shares) == ("hop.example", 40, (("en", 0.75), ("de", 0.25)))
    assert found.main == ["en", "de"]


def test_a_few_texts_make_no_language_of_the_group() -> None:
    assert languages("hop.example", [ENGLISH] * 99 + [GERMAN]).main == ["en"]


def test_texts_without_prose_are_of_no_language() -> None:
    assert languages("hop.example", [CODE]).shares == ()


# ---------------------------------------------------------------- where it is said

QUESTION = '<row Id="{0}" PostTypeId="1" CreationDate="{2}T23:30:00.000" Score="3" Title="{1} {0}" Body="{1} {0}." />'
ANSWER = '<row Id="{0}" PostTypeId="2" ParentId="{1}" CreationDate="{4}T12:00:00.000" Score="{3}" Body="{2} {0}." />'


def site(folder: Path, text: str, first: int) -> str:
    """The folder of a dump whose questions are of the years from `first` on, one a year, the answers a year later."""
    rows = []
    for number in range(6):
        day, later = f"{first + number}-12-31", f"{first + number + 1}-02-03"
        words = f"{text} {' '.join(f'{text.split()[number]}{number}' for _ in range(20))}"
        rows.append(QUESTION.format(10 * number + 1, words, day))
        rows += [
            ANSWER.format(10 * number + 2 + place, 10 * number + 1, text, 5 - 2 * place, later) for place in (0, 1)
        ]
    folder.mkdir(parents=True)
    (folder / "Posts.xml").write_text(f"<posts>\n{chr(10).join(rows)}\n</posts>")
    return str(folder)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    top = tmp_path_factory.mktemp("dumps")
    ours, theirs = top / "hops.stackexchange.com", top / "german.stackexchange.com"
    return [site(ours, ENGLISH, 2010), site(theirs, GERMAN, 2014)]


def published(home: Path, dumps: list[str], **settings: Any) -> Path:
    version, _, _ = build_axioms(home, "v1", dump=dumps, **settings)
    assert version is not None
    return version.folder


def test_card_and_croissant_say_the_languages_and_days_of_each_site(dumps: list[str], tmp_path: Path) -> None:
    folder = published(tmp_path / "home", dumps)
    card = (folder / "README.md").read_text()
    assert sorted(yaml.safe_load(card.split("---\n")[1])["language"]) == ["de", "en"]
    section = card.split("## Sites\n")[1].split("\n## ")[0]
    assert "| german.stackexchange.com | 18 | 2014-12-31 | 2020-02-03 | de 100% |" in section
    assert "| hops.stackexchange.com | 18 | 2010-12-31 | 2016-02-03 | en 100% |" in section
    assert "published" not in card.split("## ")[0], "v1 is no date"
    croissant = json.loads((folder / "croissant.json").read_text())
    assert sorted(croissant["inLanguage"]) == ["de", "en"]
    assert croissant["temporalCoverage"] == "2010-12-31/2020-02-03"
    assert "datePublished" not in croissant
    assert [
        (site["name"], site["url"], site["temporalCoverage"], site["inLanguage"]) for site in croissant["isBasedOn"]
    ] == [
        ("german.stackexchange.com", "https://german.stackexchange.com", "2014-12-31/2020-02-03", ["de"]),
        ("hops.stackexchange.com", "https://hops.stackexchange.com", "2010-12-31/2016-02-03", ["en"]),
    ]


def test_a_german_site_alone_is_not_said_to_be_english(dumps: list[str], tmp_path: Path) -> None:
    folder = published(tmp_path / "home", dumps[1:])
    assert yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])["language"] == ["de"]


def test_equal_builds_have_equal_cards_and_a_dated_one_its_day(dumps: list[str], tmp_path: Path) -> None:
    one, other = (published(tmp_path / name, dumps) for name in ("one", "other"))
    for file in ("README.md", "croissant.json", "report.html"):
        assert (one / file).read_bytes() == (other / file).read_bytes()
    version, _, _ = build_axioms(tmp_path / "one", "2026.11.20", dump=dumps[:1])
    assert version is not None
    assert "Version 2026.11.20, published 2026-11-20, " in (version.folder / "README.md").read_text()
    assert json.loads((version.folder / "croissant.json").read_text())["datePublished"] == "2026-11-20"


def test_mlcroissant_takes_a_version_with_languages_and_days(
    dumps: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import mlcroissant as mlc

    version, _, _ = build_axioms(tmp_path / "home", "2026.11.20", dump=dumps)
    assert version is not None
    dataset = mlc.Dataset(str(version.folder / "croissant.json"))
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert sorted(dataset.metadata.in_language or []) == ["de", "en"]
