"""Dumps with planted copies, duplicates and cross-posts: what a row shows belongs to its side of the split."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pandas as pd
import pytest
from axioms_builds import build_axioms

import longform
from longform.artifacts.parts import key_hash
from longform.artifacts.versions import Version

NOUNS = ["kettle", "leaf", "cellar", "barrel", "yeast", "malt", "hop", "foam", "glass", "cup", "water", "roast", "lid"]
OTHERS = [
    "steep",
    "bitter",
    "sweet",
    "warm",
    "cold",
    "slow",
    "fast",
    "dark",
    "light",
    "green",
    "black",
    "white",
    "iron",
]
Post = dict[str, Any]


def text(seed: str, words: int) -> str:
    draw = random.Random(seed)
    drawn = [
        draw.choice(NOUNS + OTHERS) + draw.choice(["", "s", "ed", f" {draw.randint(1, 99)}"]) for _ in range(words)
    ]
    return " ".join(f"The {' '.join(drawn[start : start + 10])}." for start in range(0, words, 10))


class Dump:
    """The posts of a site, written as Posts.xml and PostLinks.xml."""

    def __init__(self, site: str, questions: int, first_day: int = 1) -> None:
        self.site, self.posts, self.links = site, list[Post](), list[tuple[int, int]]()
        for number in range(questions):
            self.ask(f"{site} {number}", day=first_day + number)

    def ask(self, seed: str, *, day: int, body: str | None = None, answers: tuple[str, ...] = ()) -> int:
        """Adds a question, its body and its answers by default drawn by `seed`; returns its number."""
        own = 10 * (len([post for post in self.posts if post["PostTypeId"] == 1]) + 1)
        date = f"2015-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00.000"
        words = body or text(f"body {seed}", 40)
        title = " ".join(words.split()[:6])
        common = {"CreationDate": date, "OwnerUserId": 5}
        self.posts.append(
            {
                "Id": own,
                "PostTypeId": 1,
                "Score": 3,
                "Title": title,
                "Tags": "<tea>",
                "Body": f"<p>{words}</p>",
                **common,
            }
        )
        for place, answer in enumerate(answers or (text(f"best {seed}", 60), text(f"worse {seed}", 50))):
            self.posts.append(
                {
                    "Id": own + 1 + place,
                    "PostTypeId": 2,
                    "ParentId": own,
                    "Score": 9 - 4 * place,
                    "Body": f"<p>{answer}</p>",
                    **common,
                    "OwnerUserId": 6 + place,
                }
            )
        return own

    def write(self, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        rows = "".join(
            f"  <row {' '.join(f'{name}={quoteattr(str(value))}' for name, value in post.items())} />\n"
            for post in self.posts
        )
        (folder / "Posts.xml").write_text(f'<?xml version="1.0" encoding="utf-8"?>\n<posts>\n{rows}</posts>\n')
        links = "".join(
            f'  <row Id="{number}" CreationDate="2016-01-01T00:00:00.000" '
            f'PostId="{later}" RelatedPostId="{first}" LinkTypeId="3" />\n'
            for number, (later, first) in enumerate(self.links, 1)
        )
        (folder / "PostLinks.xml").write_text(
            f'<?xml version="1.0" encoding="utf-8"?>\n<postlinks>\n{links}</postlinks>\n'
        )
        return str(folder)


TEA, ALE = "tea.stackexchange.com", "ale.stackexchange.com"
COPIED, PASTED = text("copied", 70), text("pasted", 55)
QUOTED = text("quoted", 110)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dump, Dump]:
    folder = tmp_path_factory.mktemp("dumps")
    tea, ale = Dump(TEA, 90), Dump(ALE, 60)
    for number in range(24):  # one answer pasted under many questions of both sides, and one passage in long answers
        worse = text(f"worse pasted {number}", 40)
        tea.ask(f"pasted {number}", day=100 + number, answers=(COPIED if number % 2 else PASTED, worse))
        long = f"{text(f'own {number}', 100)}</p><p>{QUOTED}</p><p>{text(f'end {number}', 100)}"
        tea.ask(f"quoting {number}", day=130 + number, answers=(long, text(f"other {number}", 40)))
    for number in range(12):
        body = text(f"body {TEA} {number}", 40)
        tea.ask(f"again {number}", day=170 + number, body=body + " please")  # near-duplicates
        ale.ask(f"cross {number}", day=number, body=body)  # cross-posts, asked earlier
        ale.ask(f"cross answer {number}", day=number + 20, answers=(COPIED, text(f"short {number}", 30)))
    tea.links = [(10 * (number + 20), 10 * (number + 50)) for number in range(25)]
    for number in range(8):  # two duplicates of a question that is not there, and a chain over one without an answer
        tea.links += [(10 * (number + 1), 9_000_000 + number), (10 * (number + 76), 9_000_000 + number)]
        tea.links += [(10 * (number + 10), 9_100_000 + number), (9_100_000 + number, 10 * (number + 120))]
    for number in range(6):  # an answer that is another question, word for word
        asked = next(post for post in tea.posts if post["Id"] == 10 * (number + 140))
        whole = f"{asked['Title']}</p><p>{asked['Body'].removeprefix('<p>').removesuffix('</p>')}"
        tea.ask(f"pasting {number}", day=190 + number, answers=(whole, text(f"beside {number}", 40)))
    tea.write(folder / TEA)
    ale.write(folder / ALE)
    return folder, tea, ale


def build(home: Path, folder: Path, *sites: str) -> Version:
    chosen = {"dump": [str(folder / site) for site in sites], "site": list(sites), "test_share": 0.4}
    version, _, _ = build_axioms(home, **chosen)
    assert version is not None
    return version


def rows_of(version: Version) -> pd.DataFrame:
    splits = ("train", "test", "overlap")
    paths = [path for split in splits for path in sorted((version.folder / split).glob("*.parquet"))]
    rows = pd.concat([pd.read_parquet(path) for path in paths])
    return rows[rows.source == "stackexchange"]


@pytest.fixture(scope="module")
def both(dumps: tuple[Path, Dump, Dump], tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return rows_of(build(tmp_path_factory.mktemp("home"), dumps[0], TEA, ALE))


def shown(rows: pd.DataFrame) -> set[str]:
    return {*rows.question, *rows.preferred, *rows.rejected, *(text for texts in rows.evidence for text in texts)}


def test_no_text_and_no_post_stands_on_both_sides(both: pd.DataFrame) -> None:
    train, test = both[both.split == "train"], both[both.split == "test"]
    assert len(train) > 1_000
    assert len(test) > 500
    assert shown(train) & shown(test) == set()
    posts = [
        {*side.preferred_id, *side.rejected_id, *(i.split("#")[0] for ids in side.evidence_ids for i in ids)}
        for side in (train, test)
    ]
    assert posts[0] & posts[1] == set()
    assert COPIED in shown(both)
    assert PASTED in shown(both)


def test_a_text_stays_where_it_stood_first(both: pd.DataFrame) -> None:
    first = both[both.question_id == f"{TEA}/{10 * 93}"]  # the second pasted one, with COPIED
    showing = both[(both.preferred == COPIED) | (both.rejected == COPIED)]
    assert set(showing.split) == set(first.split)


def declared_by(dump: Dump) -> list[tuple[str, str]]:
    """Each two questions that share a declared original, or of which one is the other's."""
    of: dict[int, set[int]] = {}
    for one, other in dump.links:
        of.setdefault(other, {other}).add(one)
    chained = [(one, last) for one, middle in dump.links for first, last in dump.links if middle == first]
    pairs = [*chained, *(pair for alike in of.values() for pair in permutations(alike, 2))]
    return [(f"{dump.site}/{one}", f"{dump.site}/{other}") for one, other in pairs]


def test_no_negative_answers_a_question_that_is_the_same(both: pd.DataFrame, dumps: tuple[Path, Dump, Dump]) -> None:
    declared = {frozenset(pair) for pair in declared_by(dumps[1])}
    side = both.drop_duplicates("question_id").set_index("question_id").split
    assert not [pair for pair in declared if {side.get(key) for key in pair} == {"train", "test"}]
    negatives = both[both.axiom == 1]
    assert len(negatives) > 500
    for row in negatives.itertuples():
        other = row.related_question_id
        assert row.rejected_id.rsplit("/")[0] == other.rsplit("/")[0]
        assert frozenset((row.question_id, other)) not in declared
        assert 0 < row.related_similarity < 0.8
    assert both[both.axiom != 1].related_question_id.isna().all()


def test_dates_are_those_of_the_posts(both: pd.DataFrame, dumps: tuple[Path, Dump, Dump]) -> None:
    dates = {f"{dump.site}/{post['Id']}": post["CreationDate"][:10] for dump in dumps[1:] for post in dump.posts}
    assert [str(date)[:10] for date in both.question_created] == [dates[key] for key in both.question_id]
    human = both[both.preferred_source == "human"]
    assert [str(date)[:10] for date in human.preferred_created] == [dates[key] for key in human.preferred_id]
    assert both[both.preferred_source != "human"].preferred_created.isna().all()


def test_cross_posts_are_overlap_in_the_site_named_later(both: pd.DataFrame) -> None:
    crossed = {f"{ALE}/{10 * (61 + 2 * number)}" for number in range(12)}
    found = both[both.question_id.isin(crossed)]
    assert set(found.question_id) == crossed
    assert set(found.split) == {"overlap"}


def test_a_site_appended_changes_no_row_of_those_before_it(
    both: pd.DataFrame, dumps: tuple[Path, Dump, Dump], tmp_path: Path
) -> None:
    alone = rows_of(build(tmp_path, dumps[0], TEA)).sort_values("pair_id").reset_index(drop=True)
    first = both[both.site == TEA].sort_values("pair_id").reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, first)


def test_a_question_with_many_paraphrases_is_the_same_as_each(tmp_path: Path) -> None:
    site, body = Dump(TEA, 60), text("asked often", 40)
    for number in range(40):
        site.ask(f"often {number}", day=70 + number, body=body)
        site.ask(f"twice {number}", day=120 + number, body=text(f"asked twice {number // 2}", 40))
    site.write(tmp_path / TEA)
    rows = rows_of(build(tmp_path / "home", tmp_path, TEA))
    found = longform.load("axioms", stage="find_paraphrases", home=tmp_path / "home")["question_id"].to_pylist()
    assert len(set(found)) > 40
    assert found == sorted(found, key=key_hash)  # as a site of several parts must have them
    often = {f"{TEA}/{10 * (61 + 2 * number)}" for number in range(40)}
    found = rows[rows.question_id.isin(often)]
    assert len(set(found[found.split != "overlap"].split)) == 1
    assert not rows[rows.question_id.isin(often)].related_question_id.isin(often).any()
