from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import paths
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axioms_builds import Silent
from hypothesis import given, settings
from hypothesis import strategies as st
from reddit_lines import COMMENT, SUBMISSION, line

from flows.builds.fetching import config_of
from flows.sources.reddit import Read, read
from longform.artifacts.rows import Rejected
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.engine.build import Build
from longform.engine.runners import ThreadRunner
from longform.engine.thread_tasks import SequentialStages
from longform.errors import UsageError
from longform.llm.models import Models
from schemas.sources.reddit import ITEMS, REDDIT_THREADS
from tasks.sources.reddit.dumps import parse_items
from tasks.sources.reddit.reddit_threads import threads, title_tag, without_eli5

SAMPLES = paths.SAMPLES / "reddit"


def base36(number: int) -> str:
    return np.base_repr(number, 36).lower()


def items(*lines: bytes) -> pa.Table:
    batches = [item for item in parse_items(lines, (), str, None, Counter()) if isinstance(item, pa.RecordBatch)]
    return pa.Table.from_batches(batches, schema=ITEMS)


def write(path: Path, *lines: bytes) -> str:
    pq.write_table(items(*lines), path)
    return str(path)


def joined(paths: list[str], scratch: Path, memory_limit_mb: int = 512) -> tuple[list[dict[str, Any]], list[Rejected]]:
    found: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    for item in threads(paths, scratch, memory_limit_mb=memory_limit_mb):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            assert item.schema.equals(REDDIT_THREADS, check_metadata=True)
            found += item.to_pylist()
    return found, rejected


# ---------------------------------------------------------------- joining


def test_comments_of_later_months_find_their_submission(tmp_path: Path) -> None:
    january = write(tmp_path / "a.parquet", line(COMMENT, id="c1", score=3), line(SUBMISSION))
    february = write(tmp_path / "b.parquet", line(COMMENT, id="c2", score=9), line(COMMENT, id="c3", score=None))
    (thread,), rejected = joined([january, february], tmp_path)
    assert rejected == []
    assert thread["question_id"] == "reddit/t3_1afw2c"
    assert (thread["site"], thread["title"]) == ("reddit.com/r/explainlikeimfive", "ELI5: Why?")
    assert [(answer["answer_id"][-2:], answer["votes"]) for answer in thread["answers"]] == [
        ("c2", 9),
        ("c1", 3),
        ("c3", None),
    ]
    assert thread["answers"][0]["url"] == "https://www.reddit.com/r/explainlikeimfive/comments/1afw2c/_/c2/"


def test_replies_and_comments_without_a_submission_are_left_out_with_their_reason(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        line(SUBMISSION),
        line(COMMENT, id="c1", parent_id="t1_c0"),
        line(COMMENT, id="c2", link_id="t3_zz", parent_id="t3_zz"),
    )
    (thread,), rejected = joined([path], tmp_path)
    assert thread["answers"] == []
    assert {(one.key, one.kind, one.reason) for one in rejected} == {
        ("reddit/t1_c1", "filtered", "reply to a comment"),
        ("reddit/t1_c2", "filtered", "no submission in these dumps"),
    }


def test_of_an_item_in_two_dumps_the_newer_reading_stays(tmp_path: Path) -> None:
    lines = [
        line(COMMENT, id="c1", score=1, retrieved_on=1_706_750_000),
        line(COMMENT, id="c1", score=7, retrieved_on=1_706_760_000),
        line(COMMENT, id="c1", score=5),
    ]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        paths = [write(tmp_path / f"{place}.parquet", lines[place]) for place in order]
        paths.append(write(tmp_path / "s.parquet", line(SUBMISSION), line({**SUBMISSION, "score": 41})))
        (thread,), rejected = joined(paths, tmp_path)
        assert [answer["votes"] for answer in thread["answers"]] == [7]
        assert Counter(one.reason for one in rejected) == {"duplicate id": 3}


def test_a_comment_and_a_submission_may_have_the_same_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", line(SUBMISSION), line(COMMENT, id="1afw2c"))
    (thread,), rejected = joined([path], tmp_path)
    assert (len(thread["answers"]), rejected) == (1, [])


def test_no_items_make_no_threads(tmp_path: Path) -> None:
    assert joined([write(tmp_path / "a.parquet")], tmp_path) == ([], [])


def test_what_does_not_fit_in_memory_is_joined_all_the_same(tmp_path: Path) -> None:
    lines = [line(SUBMISSION, id=base36(number)) for number in range(300)]
    lines += [
        line(
            COMMENT, id=base36(number), link_id=f"t3_{thread}", parent_id=f"t3_{thread}", score=number, body="x" * 3_000
        )
        for number in range(3_000)
        if (thread := base36(number % 300))
    ]
    paths = [write(tmp_path / f"{place}.parquet", *lines[place::3]) for place in range(3)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spilled = joined(paths, scratch, memory_limit_mb=16)
    assert spilled == joined(paths, tmp_path)
    assert [len(thread["answers"]) for thread in spilled[0]] == [10] * 300
    assert list(scratch.iterdir()) == []


PLACES = st.lists(
    st.tuples(
        st.integers(0, 2),  # which file
        st.booleans(),  # a submission, else a comment
        st.integers(0, 9),  # its id
        st.integers(0, 5),  # its thread
        st.sampled_from(["t3", "t1"]),  # what it replies to
        st.none() | st.integers(-3, 3),  # score
        st.none() | st.integers(1, 3),  # when it was read
    ),
    max_size=40,
)


@pytest.mark.check
@settings(max_examples=60)
@given(PLACES)
def test_the_join_equals_one_of_dicts(tmp_path_factory: pytest.TempPathFactory, places: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("join")
    files: list[list[bytes]] = [[], [], []]
    newest: dict[str, Any] = {}
    for file, asks, own, thread, parent, score, seen in places:
        shared = {"score": score, "retrieved_on": seen and 1_706_750_000 + seen}
        if asks:
            files[file].append(line(SUBMISSION, id=base36(own), **shared))
        else:
            link, reply = f"t3_{base36(thread)}", f"{parent}_{base36(thread)}"
            files[file].append(line(COMMENT, id=base36(own), link_id=link, parent_id=reply, **shared))
        key = f"reddit/{'t3' if asks else 't1'}_{base36(own)}"
        newest[key] = max(newest.get(key, 0), seen or 0)
    paths = [write(folder / f"{place}.parquet", *lines) for place, lines in enumerate(files)]
    found, rejected = joined(paths, folder)
    kept = [thread["question_id"] for thread in found] + [
        answer["answer_id"] for thread in found for answer in thread["answers"]
    ]
    assert len(set(kept)) == len(kept)
    assert Counter(kept + [one.key for one in rejected]) == Counter(
        row["post_id"] for path in paths for row in pq.read_table(path).to_pylist()
    )
    every = {row["post_id"]: row for path in paths for row in pq.read_table(path).to_pylist()}
    asked = {key for key in every if "/t3_" in key}
    assert {thread["question_id"] for thread in found} == asked
    for thread in found:
        assert [answer["votes"] for answer in thread["answers"]] == sorted(
            (answer["votes"] for answer in thread["answers"]), key=lambda score: (score is None, -(score or 0))
        )
        for post in (thread, *thread["answers"]):
            own = post.get("answer_id") or post["question_id"]
            assert (int(post["seen_at"].timestamp()) - 1_706_750_000 if post["seen_at"] else 0) == newest[own]
    hashes = [every[thread["question_id"]]["question_hash"] for thread in found]
    assert hashes == sorted(hashes)


# ---------------------------------------------------------------- titles


@pytest.mark.parametrize(
    ("title", "question"),
    [
        ("ELI5: Why?", "Why?"),
        ("[ELI5] Why?", "Why?"),
        ("eli5 why", "why"),
        ("ELI5 - why", "why"),
        ("(ELI5): why", "why"),
        ("ELIF: why", "why"),
        ("[ eli5 ]: why", "why"),
        ("Why do I see ELI5: everywhere?", "Why do I see ELI5: everywhere?"),
        ("Elif statements, what are they?", "statements, what are they?"),
        ("ELI5ing is fun", "ELI5ing is fun"),
        ("ELI5:", ""),
    ],
)
def test_the_tag_goes_from_the_start_of_a_question(title: str, question: str) -> None:
    assert without_eli5(title) == question


@pytest.mark.parametrize(
    ("title", "tag", "prompt"),
    [
        ("[WP] You wake up.", "WP", "You wake up."),
        ("[wp]You wake up.", "WP", "You wake up."),
        ("(EU): Dragons.", "EU", "Dragons."),
        ("You [WP] wake up.", None, "You [WP] wake up."),
        ("[Serious] Hm.", None, "[Serious] Hm."),
        ("", None, ""),
    ],
)
def test_a_prompt_is_known_by_the_tag_in_front(title: str, tag: str | None, prompt: str) -> None:
    assert title_tag(title) == (tag, prompt)


# ---------------------------------------------------------------- the samples, from files to a selection


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for all tests of the samples, which lie in it as one file: a single unit starts no worker."""
    folder = tmp_path_factory.mktemp("home")
    lines = [path.read_bytes() for path in sorted(SAMPLES.glob("R*.jsonl"))]
    (folder / "all.jsonl").write_bytes(b"".join(lines))
    return folder


def build(home: Path, dumps: Path | None = None, **config: Any) -> tuple[dict[str, Any], Build]:
    made = Build(
        Store(home),
        tasks=SequentialStages(),
        runner=ThreadRunner(),
        progress=Silent(),
        models=Models(home / "responses.sqlite"),
    )
    *_, last = read(made, [dumps or home / "all.jsonl"], Read(**config))
    made.close()
    return {row["question_id"].removeprefix("reddit/t3_"): row for row in last}, made


def told(made: Build, stage: str) -> tuple[int, dict[str, int], dict[str, int]]:
    artifact = next(entry.artifact for entry in made.done if entry.stage == stage)
    rejected = {reason: number for (_, reason), number in artifact.rejected().items()}
    return artifact.rows, rejected, artifact.counts()


def test_eli5_of_the_samples(home: Path) -> None:
    rows, made = build(home, preset="eli5")
    assert {key: row["title"] for key, row in rows.items()} == {
        "19a001": "Why does salt melt ice on a road but not in my freezer?",
        "19a002": "How can a plane fly upside down if the wing's shape makes the lift?",
        "19a003": "what does a bank do with the money I lend it?",
    }
    assert [(answer["answer_id"][-4:], answer["votes"]) for answer in rows["19a001"]["answers"]] == [
        ("0001", 401),
        ("0002", 57),
        ("0101", 6),
    ]
    assert rows["19a003"]["text"] == '> A friend says it is "made up".\n\nIs that true?'
    read_items, join = told(made, "read_items"), told(made, "join_reddit")
    assert (read_items[0], read_items[2]["of other subreddits"], read_items[2]["read"]) == (24, 14, 48)
    assert join[1] == {"duplicate id": 1, "reply to a comment": 1, "no submission in these dumps": 2}
    assert told(made, "select_eli5") == (
        3,
        {"too few votes": 2, "a bot's or moderator's": 1, "a link, no question": 1, "no answer left": 1},
        {"answers: a bot's": 2, "answers: too few votes": 2},
    )


def test_eli5_with_other_settings(home: Path) -> None:
    rows, _ = build(home, preset="eli5", min_score=-100, min_words=1)
    assert {"Because science."} < {answer["text"] for answer in rows["19a001"]["answers"]}
    assert build(home, preset="eli5", first_month="2011-07", last_month="2018-07")[0] == {}
    assert len(build(home, preset="eli5", first_month="2024-01", last_month="2024-01")[0]) == 3


def test_writing_prompts_of_the_samples(home: Path) -> None:
    rows, made = build(home, preset="writing_prompts")
    (prompt,) = rows.values()
    assert prompt["title"].startswith("Every lighthouse on the coast")
    assert prompt["tags"] == ["Writing Prompt", "WP"]
    assert [answer["answer_id"][-4:] for answer in prompt["answers"]] == ["0016", "0102"]
    assert told(made, "select_prompts")[1:] == (
        {"no prompt by its tag": 2},
        {"answers: a bot's, sticky or moderator's": 1, "answers: too few words": 1},
    )
    assert set(build(home, preset="writing_prompts", tags=["wp", "EU"])[0]) == {"19b001", "19b002"}


def test_without_a_preset_every_thread_stays_and_the_group_is_reddit(home: Path) -> None:
    rows, made = build(home)
    assert len(rows) == 13
    (part,) = made.done[-1].artifact.parts
    assert part.key == "reddit/0-00000"
    assert build(home, subreddits=["r/sampleother"])[0].keys() == {"19c001", "19c002"}


def test_a_second_build_reuses_everything(home: Path) -> None:
    build(home, preset="eli5")
    _, made = build(home, preset="eli5")
    assert {entry.state for entry in made.done} == {"reuse"}


def test_no_name_of_an_author_is_in_any_file_of_the_home(home: Path) -> None:
    build(home, preset="eli5")
    build(home)
    for path in home.rglob("*.parquet"):
        assert "sample_author" not in str(pq.read_table(path).to_pylist())


def test_months_are_read_file_by_file_to_the_same_threads(tmp_path: Path, home: Path) -> None:
    apart, made = build(tmp_path, SAMPLES, preset="eli5")
    assert [part.key.split("/")[0] for part in made.done[0].artifact.parts] == ["reddit"] * 3
    together, _ = build(home, preset="eli5")
    hashes = [row.pop("author_id") for rows in (apart, together) for row in rows.values()]
    assert len(set(hashes)) == len(hashes)  # two homes, two keys
    for rows in (apart, together):
        for row in rows.values():
            row["answers"] = [{**answer, "author_id": None} for answer in row["answers"]]
    assert apart == together


def test_what_is_taken_down_is_in_no_thread(tmp_path: Path, home: Path) -> None:
    add(
        tmp_path, [("reddit/t3_19a002", "2026-11-21", "deleted on Reddit"), ("reddit/t1_kx0001", "2026-11-21", "asked")]
    )
    rows, made = build(tmp_path, home / "all.jsonl")
    assert "19a002" not in rows
    assert "kx0001" not in str(rows)
    assert told(made, "admit_items")[1] == {"taken down": 3}  # one of them stands in two dumps
    left_out = told(made, "join_reddit")[1]
    assert (left_out["submission taken down"], left_out["no submission in these dumps"]) == (2, 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["preset=eli5", "first_month=2023-13"], 'first_month = "2023-13" does not fit: write year and month'),
        (["preset=eli5", "last_month=2023-00"], 'last_month = "2023-00" does not fit: write year and month'),
        (["preset=eli5", "last_month=12023-01"], "write year and month"),
        (["preset=eli5", "first_month=2023-1"], "write year and month"),
        (["preset=eli5", "first_month=2023-02", "last_month=2023-01"], "2023-02 is after last_month = 2023-01"),
        (["first_month=2023-01"], "no effect with preset = none: add preset=eli5"),
        (["last_month=2023-01", "preset=writing_prompts"], "no effect with preset = writing_prompts"),
    ],
)
def test_months_that_select_nothing_are_refused(settings: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        config_of("reddit", "read", settings)


def test_one_month_is_first_and_last() -> None:
    config = config_of("reddit", "read", ["preset=eli5", "first_month=2023-12", "last_month=2023-12"])
    assert (config.first_month, config.last_month) == ("2023-12", "2023-12")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_score": 5}, "min_score has no effect with preset = none"),
        ({"min_words": 5}, "min_words has no effect with preset = none"),
        ({"preset": "eli5", "tags": ["EU"]}, "tags has no effect with preset = eli5"),
        ({"subreddits": []}, "write names of subreddits"),
        ({"subreddits": ["ask science"]}, "write names of subreddits"),
        ({"subreddits": [""]}, "write names of subreddits"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Read(**settings)


def test_subreddits_are_named_in_any_way_that_people_write_them() -> None:
    assert Read(subreddits=["r/AskScience", "/r/x_y/", " eli5 "]).subreddits == ["askscience", "x_y", "eli5"]
