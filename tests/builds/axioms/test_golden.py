"""Whole builds compared with ElementTree, regular expressions and arithmetic that share no code with the project."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import paths
import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms

import longform
from benchmarks.make_dump import write_dump
from flows.cli.shared.verification import check
from flows.inspection.describe import rejected_rows
from longform.artifacts.store import Store
from longform.artifacts.versions import Version

SITES = {
    "beer_2017": "beer.stackexchange.com",
    "coffee_2015": "coffee.stackexchange.com",
    "hostile": "hostile.example",
    "generated": "generated.example",
}
Row = dict[str, Any]


# ---------------------------------------------------------------- what the XML says, read without the project


@dataclass
class Truth:
    """A dump as ElementTree reads it."""

    site: str
    bodies: dict[str, str] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)
    authors: dict[str, str | None] = field(default_factory=dict)
    question_of: dict[str, str] = field(default_factory=dict)
    answers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def kept(self) -> set[str]:
        """Questions with two answers, one with positive votes, one with 1.3 times the votes of another (negative count
        as 0).
        """
        return {question for question in self.titles if self._clear([self.scores[a] for a in self.answers[question]])}

    def _clear(self, votes: list[int]) -> bool:
        gaps = (a > 0 and a >= 1.3 * max(b, 0) for a in votes for b in votes if a > b)
        return len(votes) >= 2 and max(votes) > 0 and any(gaps)

    def pairs(self) -> set[tuple[str, str, str, float]]:
        """Axiom 0: question, preferred, rejected, margin."""
        return {
            (question, a, b, math.log10(max(self.scores[a], 1) / max(self.scores[b], 1)))
            for question in self.kept()
            for a, b in product(self.answers[question], repeat=2)
            if self.scores[a] > self.scores[b]
        }

    def two_best(self, question: str) -> list[str]:
        """The answer with most votes and the next of another author, as far as the dump names them."""
        best, *others = sorted(self.answers[question], key=lambda a: (-self.scores[a], int(a.split("/")[1])))
        return [best, *[a for a in others if not self.authors[a] or self.authors[a] != self.authors[best]][:1]]


def read(path: Path, site: str) -> Truth:
    found = Truth(site)
    text = path.read_text(encoding="utf-8-sig")
    legal = re.sub(r"&#x0*([0-8bcef]|1[0-9a-f]);|[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text, flags=re.IGNORECASE)
    for row in ElementTree.fromstring(legal):
        _add(found, row.attrib)
    found.answers = defaultdict(list, {q: found.answers[q] for q in found.titles})
    return found


def _add(found: Truth, post: dict[str, str]) -> None:
    bot = post.get("OwnerUserId") == "-2"
    fabricated = post.get("OwnerUserId") == "-1" and int(post["Id"]) >= 1_000_000_000
    if post["PostTypeId"] not in ("1", "2") or bot or fabricated:
        return
    post_id = f"{found.site}/{post['Id']}"
    found.bodies[post_id], found.scores[post_id] = post["Body"], int(post["Score"])
    found.authors[post_id] = post.get("OwnerUserId") or post.get("OwnerDisplayName")
    if post["PostTypeId"] == "1":
        found.titles[post_id] = post["Title"]
    else:
        found.question_of[post_id] = f"{found.site}/{post['ParentId']}"
        found.answers[found.question_of[post_id]].append(post_id)


# ---------------------------------------------------------------- what was built


@dataclass
class Built:
    truth: Truth
    store: Store
    version: Version
    rows: list[Row]

    def of(self, *axioms: int) -> list[Row]:
        return [row for row in self.rows if row["axiom"] in axioms]

    def all_of(self, *axioms: int) -> list[Row]:
        """The pairs of these axioms, with those that were left out since evaluation texts share their words."""
        left_out = {row["key"] for row in _rejected(self) if row["stage"] == "decontaminate"}
        others = [row for row in self.stage("assemble_pairs") if row["pair_id"] in left_out] if left_out else []
        assert len(others) == len(left_out)
        return [row for row in [*self.rows, *others] if row["axiom"] in axioms]

    def stage(self, name: str) -> list[Row]:
        rows: list[Row] = longform.load("axioms", stage=name, home=self.store.home).to_pylist()
        return rows


@pytest.fixture(scope="module")
def built_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Built]:
    """Builds of this module by the name of their dump, each built once."""
    made: dict[str, Built] = {}

    def of(name: str) -> Built:
        if name not in made:
            made[name] = _build(name, tmp_path_factory.mktemp(name))
        return made[name]

    return of


def _build(name: str, folder: Path) -> Built:
    dump = paths.REAL_DATA / "stackexchange" / name / "Posts.xml"
    if name == "generated":
        dump = folder / "Posts.xml"
        write_dump(dump, 1_500_000, seed=7)
    if not dump.exists():
        pytest.skip("the real dumps are not beside the project")
    settings: dict[str, Any] = {"eli5": [], "msmarco": [], "webgpt": []}  # of one's own dumps alone
    if name == "generated":  # its posts share their sentences
        settings |= {"test_share": 0.4, "decontamination": False, "accept": ["contaminated"]}
    version, _, made = build_axioms(folder / "home", dump=str(dump), site=SITES[name], **settings)
    assert version is not None
    files = sorted(version.folder.glob("*/*.parquet"))
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    return Built(read(dump, SITES[name]), made.store, version, rows)


@pytest.fixture(params=["beer_2017", "coffee_2015", "hostile", "generated"])
def built(request: pytest.FixtureRequest, built_of: Callable[[str], Built]) -> Built:
    return built_of(request.param)


# ---------------------------------------------------------------- axiom 0 and the filter


def test_axiom_0_is_pair_for_pair_what_the_xml_says(built: Built) -> None:
    names = ("question_id", "preferred_id", "rejected_id", "margin")
    published = Counter(tuple(row[name] for name in names) for row in built.all_of(0))
    assert published == Counter(built.truth.pairs())
    assert {row["question_id"] for row in built.stage("select_questions")} == built.truth.kept()


@pytest.mark.parametrize(("name", "posts", "kept", "pairs"), [
    ("beer_2017", (663, 1_572), 384, 2_192), ("coffee_2015", (225, 327), 71, 145),
])  # fmt: skip
def test_the_real_sites_have_their_counts(
    built_of: Callable[[str], Built], name: str, posts: tuple[int, int], kept: int, pairs: int
) -> None:
    built = built_of(name)
    threads = built.stage("join_threads")
    assert (len(threads), sum(len(thread["answers"]) for thread in threads)) == posts
    assert len({row["question_id"] for row in built.all_of(0)}) == kept
    assert len(built.all_of(0)) == pairs


def test_votes_in_a_row_are_the_posts(built: Built) -> None:
    for row in built.rows:
        for side in ("preferred", "rejected"):
            assert row[f"{side}_votes"] == built.truth.scores.get(row[f"{side}_id"])


def test_no_margin_is_nan_or_infinite_and_none_of_axiom_0_negative(built: Built) -> None:
    assert all(math.isfinite(row["margin"]) for row in built.rows)
    assert min(row["margin"] for row in built.of(0)) >= 0
    assert {row["margin"] for row in built.of(1, 2, 3, 5)} <= {0.25}


# ---------------------------------------------------------------- the hostile dump


def test_rows_with_illegal_references_are_repaired_and_their_text_is_whole(built_of: Callable[[str], Built]) -> None:
    posts = {row["number"]: row for row in built_of("hostile").stage("read_posts")}
    assert {number: (row["text"], row["repairs"]) for number, row in posts.items()} == {
        10: ("Q & A\n\n```py\nif x < 1:\n    return\n```", 0),
        11: ("press x", 1),
        12: ("bad", 0),
        13: ("nul", 1),
        14: ("orphan", 0),
    }
    assert posts[10]["title"] == "A & B <c>"
    assert posts[10]["tags"] == ["python", "c++"]
    assert (posts[12]["author_id"], posts[12]["author"]) == (None, "user123")


def test_the_hostile_dump_holds_one_thread(built_of: Callable[[str], Built]) -> None:
    (thread,) = built_of("hostile").stage("join_threads")
    answers = [(a["answer_id"], a["text"], a["votes"], a["accepted"], a["author"]) for a in thread["answers"]]
    assert (thread["question_id"], thread["votes"], thread["licence"]) == ("hostile.example/10", 5, "CC BY-SA 4.0")
    assert answers == [
        ("hostile.example/11", "press x", 3, True, None),
        ("hostile.example/13", "nul", 1, False, None),
        ("hostile.example/12", "bad", -2, False, "user123"),
    ]


def test_every_row_of_the_hostile_dump_that_is_left_out_says_why(built_of: Callable[[str], Built]) -> None:
    built = built_of("hostile")
    found = {(row["stage"], row["key"]): (row["kind"], row["reason"]) for row in _rejected(built)}
    site = "hostile.example"
    drawn = {key: found.pop(key) for key in [*found] if key[0] == "draw_one_a_question"}
    assert [*drawn.values()] == [("filtered", "another pair of its question was drawn")] * 2, "one of its three pairs"
    assert found == {
        ("read_posts", f"{site}/15"): ("filtered", "answer bot"),
        ("read_posts", f"{site}/16"): ("filtered", "not a question or answer"),
        ("read_posts", f"{site}/1000000001"): ("filtered", "fabricated post"),
        ("read_posts", f"{site}/1000000010"): ("filtered", "fabricated post"),
        ("join_threads", f"{site}/14"): ("defect", "orphan answer"),
        ("pair_with_related", f"{site}/10"): ("filtered", "no related question"),
        ("answer_open_book", f"{site}/10"): ("filtered", "no passage found"),
        ("pair_generated", f"{site}/10"): ("filtered", "fewer than two generated answers"),
        ("combine_answers", f"{site}/10"): ("filtered", "utilization above maximum"),
        ("pair_combined", f"{site}/10"): ("filtered", "no combined answer"),
    }
    assert [row["raw"] for row in _rejected(built) if row["kind"] == "defect"] == ["orphan"]


def test_only_the_human_pairs_of_the_hostile_dump_are_published(built_of: Callable[[str], Built]) -> None:
    rows = built_of("hostile").rows
    texts = {(row["preferred"], row["rejected"]): row["margin"] for row in rows}
    assert texts == {
        ("press x", "nul"): pytest.approx(math.log10(3)),
        ("press x", "bad"): pytest.approx(math.log10(3)),
        ("nul", "bad"): 0,
    }


def _rejected(built: Built) -> list[Row]:
    return list(rejected_rows(built.store, built.version, None))


# ---------------------------------------------------------------- the other axioms


def test_axiom_1_sets_an_answer_of_the_question_against_one_of_another_question(built: Built) -> None:
    for row in built.of(1):
        other = built.truth.question_of[row["rejected_id"]]
        assert built.truth.question_of[row["preferred_id"]] == row["question_id"]
        assert other != row["question_id"]
        assert other in built.truth.titles
    drawn = Counter(row["question_id"] for row in built.of(1))
    assert len({row["pair_id"] for row in built.of(1)}) == drawn.total()
    assert max(drawn.values(), default=0) <= 40


def test_evidence_is_of_other_threads_only_and_in_their_words(built: Built) -> None:
    posts = {row["post_id"]: row["text"] for row in built.stage("scrub_posts")}
    for row in built.rows:
        assert len(row["evidence"]) == len(row["evidence_ids"]) <= 5
        assert bool(row["evidence"]) == (row["preferred_source"] == "open_book")
        for passage_id, text in zip(row["evidence_ids"], row["evidence"], strict=True):
            answer = passage_id.split("#")[0]
            assert built.truth.question_of[answer] != row["question_id"]
            assert set(text.split()) <= set(posts[answer].split())


def test_corrupted_answers_differ_from_what_they_were_made_from(built: Built) -> None:
    open_book = {row["answer_id"]: row["text"] for row in built.stage("answer_open_book")}
    corrupted = {row["corrupted_id"]: row for row in built.stage("corrupt_answers")}
    for row in built.of(3):
        assert row["rejected"] != open_book[corrupted[row["rejected_id"]]["answer_id"]]
        assert row["rejected"] != row["preferred"]
    assert {row["rejected_id"] for row in built.all_of(3)} == set(corrupted)


def test_combined_answers_use_both_of_their_parents_and_paste_neither(built: Built) -> None:
    texts = {row["post_id"]: row["text"] for row in built.stage("scrub_posts")}
    for row in {row["preferred_id"]: row for row in built.of(5)}.values():
        used = [_share_used(row["preferred"], texts[a]) for a in built.truth.two_best(row["question_id"])]
        assert 0.35 < sum(used) < 1.85


def _share_used(combined: str, answer: str) -> float:
    bigrams, wanted = _bigrams(combined), _bigrams(answer)
    if wanted:
        return len(wanted & bigrams) / len(wanted)
    return float(bool(_words(answer)) and _words(answer)[0] in _words(combined))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _bigrams(text: str) -> set[tuple[str, str]]:
    words = _words(text)
    return {(words[place], words[place + 1]) for place in range(len(words) - 1)}


def test_axiom_5_sets_the_combined_answer_against_lesser_ones_and_in_the_test_split_against_its_parents(
    built: Built,
) -> None:
    for question in {row["question_id"] for row in built.of(5)}:
        rows = [row for row in built.of(5) if row["question_id"] == question]
        best = built.truth.two_best(question)
        least = min(built.truth.scores[answer] for answer in best)
        lesser = {answer for answer in built.truth.answers[question] if built.truth.scores[answer] < least}
        expected = set(best) if rows[0]["split"] == "test" else lesser
        assert {row["rejected_id"] for row in rows} == expected


def test_human_texts_are_those_of_the_stage_and_hold_every_letter_of_the_post(built: Built) -> None:
    from bs4 import BeautifulSoup

    posts = {row["post_id"]: row["text"] for row in built.stage("scrub_posts")}
    scrubbed = {row["post_id"] for row in built.stage("scrub_posts") if row["scrubbed"]}
    seen = set()
    for row in built.rows:
        assert row["question"] == f"{_one_line(built.truth.titles[row['question_id']])}\n\n{posts[row['question_id']]}"
        for side in ("preferred", "rejected"):
            if row[f"{side}_source"] == "human":
                assert row[side] == posts[row[f"{side}_id"]]
                seen.add(row[f"{side}_id"])
    for post in seen - scrubbed:
        letters = [c for c in BeautifulSoup(built.truth.bodies[post], "html.parser").get_text() if c.isalnum()]
        shown = iter(posts[post])
        assert all(letter in shown for letter in letters), post


def _one_line(title: str) -> str:
    return " ".join(title.split())


# ---------------------------------------------------------------- splits, attribution, conservation


def test_a_question_is_on_one_side_with_all_its_pairs(built: Built) -> None:
    sides = defaultdict(set)
    for row in built.rows:
        sides[row["question_id"]].add(row["split"])
    assert all(len(splits) == 1 for splits in sides.values())
    assert len({row["pair_id"] for row in built.rows}) == len(built.rows)
    for path in built.version.folder.glob("*/*.parquet"):
        assert set(pq.read_table(path, columns=["split"])["split"].to_pylist()) == {path.parent.name}


def test_near_duplicate_questions_are_never_on_both_sides(built_of: Callable[[str], Built]) -> None:
    built = built_of("generated")
    shown = {row["question_id"]: (row["split"], _trigrams(row["question"])) for row in built.rows}
    alike = [
        (first, second)
        for first, second in combinations(shown, 2)
        if _jaccard(shown[first][1], shown[second][1]) >= 0.7
    ]
    assert len(alike) >= 2
    for first, second in alike:
        assert {shown[first][0], shown[second][0]} != {"train", "test"}
    assert {split for split, _ in shown.values()} >= {"train", "test"}


def _trigrams(text: str) -> set[tuple[str, ...]]:
    words = _words(text)
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def _jaccard(first: set[tuple[str, ...]], second: set[tuple[str, ...]]) -> float:
    return len(first & second) / len(first | second)


def test_attribution_names_every_post_that_is_shown(built: Built) -> None:
    credited = {row["post_id"]: row for row in pq.read_table(built.version.folder / "attribution.parquet").to_pylist()}
    for row in built.rows:
        human = [row[f"{s}_id"] for s in ("preferred", "rejected") if row[f"{s}_source"] == "human"]
        cited = [passage.split("#")[0] for passage in row["evidence_ids"]]
        assert {row["question_id"], *human, *cited} <= credited.keys()
    for post, row in credited.items():
        kind = "q" if post in built.truth.titles else "a"
        assert row["url"] == f"https://{built.truth.site}/{kind}/{post.split('/')[1]}"
        assert row["author"] or row["author_url"]
        assert row["licence"].startswith("CC BY-SA ")


def test_nothing_vanishes(built: Built) -> None:
    assert list(check(built.store, built.version)) == []
    stages = {name: built.stage(name) for name in built.version.stages}
    left_out: dict[str, set[str]] = defaultdict(set)
    for row in _rejected(built):
        left_out[row["stage"]].add(row["key"])
    posts = {row["post_id"] for row in stages["read_posts"]}
    assert (
        posts == {row["post_id"] for row in stages["admit_posts"]} == {row["post_id"] for row in stages["scrub_posts"]}
    )
    threaded = {a["answer_id"] for row in stages["join_threads"] for a in row["answers"]}
    threaded |= {row["question_id"] for row in stages["join_threads"]}
    assert posts == threaded | left_out["join_threads"]
    kept = {row["question_id"] for row in stages["select_questions"]}
    assert {row["question_id"] for row in stages["join_threads"]} == kept | left_out["select_questions"]
    for name in ("answer_open_book", "answer_closed_book", "combine_answers", "pair_generated", "pair_combined"):
        assert kept == {row["question_id"] for row in stages[name]} | left_out[name]
    made = ("pair_by_votes", "pair_with_related", "pair_generated", "pair_combined")
    shown = {row["pair_id"] for row in built.all_of(0, 1, 2, 3, 5)}
    assert shown == {row["pair_id"] for name in made for row in stages[name]}


# ---------------------------------------------------------------- licences and scrubbed texts


def test_every_text_of_a_row_says_its_licence_and_what_it_was_made_from(built: Built) -> None:
    licences = {row["post_id"]: row["licence"] for row in built.stage("read_posts")}
    for row in built.rows:
        assert row["question_licence"] == licences[row["question_id"]]
        for side in ("preferred", "rejected"):
            if row[f"{side}_source"] == "human":
                assert (row[f"{side}_licence"], row[f"{side}_parent_ids"]) == (licences[row[f"{side}_id"]], [])
            else:
                made_from = [row["question_id"], *row[f"{side}_parent_ids"]]
                assert row[f"{side}_licence"] == max(licences[post] for post in made_from)
                assert row[f"{side}_scrubbed"] is None


def test_parents_of_generated_answers_are_what_they_were_made_from(built: Built) -> None:
    evidence = {
        row["question_id"]: list(dict.fromkeys(passage["answer_id"] for passage in row["passages"]))
        for row in built.stage("retrieve_passages")
    }
    for row in built.rows:
        for side in ("preferred", "rejected"):
            wanted = {
                "human": [],
                "closed_book": [],
                "combined": built.truth.two_best(row["question_id"]) if row[f"{side}_source"] == "combined" else [],
            }
            parents = wanted.get(row[f"{side}_source"], evidence[row["question_id"]])
            assert row[f"{side}_parent_ids"] == parents


def test_marks_are_where_the_rows_count_them(built: Built) -> None:
    before = {row["post_id"]: row for row in built.stage("read_posts")}
    credited = {row["post_id"]: row for row in pq.read_table(built.version.folder / "attribution.parquet").to_pylist()}
    for row in built.stage("scrub_posts"):
        texts = f"{row['title']} {row['text']}", f"{before[row['post_id']]['title']} {before[row['post_id']]['text']}"
        marks = [sum(text.count(mark) for mark in ("[mail]", "[phone]", "[handle]")) for text in texts]
        assert row["scrubbed"] == marks[0] - marks[1]
        assert credited.get(row["post_id"], row)["scrubbed"] == row["scrubbed"]
        assert bool(row["scrubbed"]) == (texts[0] != texts[1])
    for row in built.rows:
        assert row["question_scrubbed"] == credited[row["question_id"]]["scrubbed"]
        for side in ("preferred", "rejected"):
            if row[f"{side}_source"] == "human":
                assert row[f"{side}_scrubbed"] == credited[row[f"{side}_id"]]["scrubbed"]
