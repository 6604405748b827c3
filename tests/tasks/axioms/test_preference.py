"""The pairs as trainers read them, compared with the published pairs by plain loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from axioms_builds import build_axioms
from card_rows import pair
from expertqa_tables import Home
from hypothesis import given
from hypothesis import strategies as st

import longform
from longform.artifacts.rows import Rejected
from longform.artifacts.versions import Version
from longform.errors import UsageError
from longform.llm.ask.tokens import count
from schemas.axioms import PAIRS, PREFERENCE
from tasks.axioms.preference import draw_one_a_question, draw_order, view_as_chats, view_as_texts

Row = dict[str, Any]
TEXTS = {"prompt": "question", "chosen": "preferred", "rejected": "rejected"}


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """A version of the samples."""
    version, _, _ = build_axioms(tmp_path_factory.mktemp("home"), test_share=0.3)
    assert version is not None
    return version


def rows(version: Version, config: str) -> dict[str, Row]:
    found = [row for path in version.tables()[config] for row in pq.read_table(path).to_pylist()]
    assert len({row["pair_id"] for row in found}) == len(found)
    return {row["pair_id"]: row for row in found}


def test_every_pair_is_a_chat_of_one_message_a_side(version: Version) -> None:
    pairs, chats = rows(version, "pairs"), rows(version, "preference")
    assert pairs.keys() == chats.keys()
    for key, chat in chats.items():
        row = pairs[key]
        for name, text in TEXTS.items():
            (message,) = chat[name]
            assert message["role"] == ("user" if name == "prompt" else "assistant")
            if name != "prompt" or not row["evidence"]:
                assert message["content"] == row[text]
        assert (chat["margin"], chat["axiom"], chat["pair_type"]) == (row["margin"], row["axiom"], row["pair_type"])


def test_the_evidence_of_a_pair_follows_the_question_by_the_numbers_that_answers_cite(version: Version) -> None:
    pairs, chats = rows(version, "pairs"), rows(version, "preference")
    grounded = [key for key, row in pairs.items() if row["evidence"]]
    others = ("closed_book", "corrupted", "irrelevant_grounding", "passage")
    assert {pairs[key]["pair_type"] for key in grounded} == {f"open_book > {other}" for other in others}
    for key in grounded:
        (message,) = chats[key]["prompt"]
        place = -1
        for shown in [
            pairs[key]["question"],
            *(f"\n\nPassage {number}:\n{text}" for number, text in enumerate(pairs[key]["evidence"], start=1)),
        ]:
            assert message["content"].index(shown) > place
            place = message["content"].index(shown)
        assert len(message["content"]) == place + len(shown)


def test_margin_is_in_every_row_and_no_trainer_finds_a_null_where_it_looks(version: Version) -> None:
    for config in ("preference", "preference_sampled", "preference_text"):
        for path in version.tables()[config]:
            table = pq.read_table(path)
            for name in ("prompt", "chosen", "rejected", "margin", "axiom", "pair_type", "pair_id", "question_id"):
                assert table[name].null_count == 0
                assert not table.schema.field(name).nullable


def test_who_wrote_what_under_which_licence_comes_along(version: Version) -> None:
    pairs, chats = rows(version, "pairs"), rows(version, "preference")
    carried = [name for name in PAIRS.names if name not in {*TEXTS.values(), "evidence"}]
    assert {"evidence_ids", "rejected_licence", "question_url", "retrieved_at", "preferred_response"} < {*carried}
    for key, chat in chats.items():
        for name in carried:
            assert chat[name.replace("preferred_", "chosen_")] == pairs[key][name], name


def test_the_plain_form_has_the_same_texts_and_ends_a_prompt_with_an_empty_line(version: Version) -> None:
    chats, texts = rows(version, "preference"), rows(version, "preference_text")
    assert chats.keys() == texts.keys()
    for key, row in texts.items():
        for name in TEXTS:
            (message,) = chats[key][name]
            assert row[name] == message["content"] + ("\n\n" if name == "prompt" else "")
        assert {**row, **dict.fromkeys(TEXTS)} == {**chats[key], **dict.fromkeys(TEXTS)}


def test_tokens_are_those_of_prompt_and_answer_together(version: Version) -> None:
    for row in rows(version, "preference_text").values():
        for side in ("chosen", "rejected"):
            whole = count(row["prompt"] + row[side])
            assert abs(row[f"{side}_tokens"] - whole) <= 3, "counted apart, the empty line between is not"


def test_one_row_of_each_question_is_drawn_and_the_weights_of_a_question_sum_to_one(version: Version) -> None:
    chats, sampled = rows(version, "preference"), rows(version, "preference_sampled")
    of_question = defaultdict(list)
    for row in chats.values():
        of_question[row["split"], row["question_id"]].append(row)
    assert Counter(row["question_id"] for row in sampled.values()) == Counter(key for _, key in of_question)
    for own in of_question.values():
        assert sorted(row["draw"] for row in own) == [*range(1, len(own) + 1)]
        assert sum(row["weight"] for row in own) == pytest.approx(1)
    assert all(chats[key] | {"weight": 1.0} == row and row["draw"] == 1 for key, row in sampled.items())


def test_the_drawn_rows_are_no_mirror_of_the_axiom_with_most_pairs(version: Version) -> None:
    axioms = Counter(row["axiom"] for row in rows(version, "preference_sampled").values())
    assert len(axioms) >= 4
    assert max(axioms.values()) < sum(axioms.values()) / 2, "axiom 1 has three pairs of four"


PAIRS_OF_A_QUESTION = st.lists(
    st.tuples(st.text("abcdef", min_size=6, max_size=6), st.integers(0, 5)),
    min_size=1,
    max_size=30,
    unique_by=lambda pair: pair[0],
)


@given(PAIRS_OF_A_QUESTION, st.integers(0, 3), st.randoms())
def test_a_draw_takes_each_axiom_once_before_one_twice_whatever_the_order(pairs: Any, seed: int, chance: Any) -> None:
    places = dict(zip(pairs, draw_order(pairs, "q", seed), strict=True))
    assert sorted(places.values()) == [*range(1, len(pairs) + 1)]
    drawn = sorted(places, key=places.__getitem__)
    for taken in range(1, len(drawn) + 1):
        rounds = Counter(axiom for _, axiom in drawn[:taken])
        left = Counter(axiom for _, axiom in drawn[taken:])
        assert all(rounds[axiom] >= max(rounds.values()) - 1 for axiom in left)
    shuffled = chance.sample(pairs, len(pairs))
    assert dict(zip(shuffled, draw_order(shuffled, "q", seed), strict=True)) == places


def test_another_seed_draws_another_pair_and_each_pair_is_drawn_as_often() -> None:
    pairs = [(f"p{number}", 0) for number in range(4)]
    first = Counter(draw_order(pairs, "q", seed).index(1) for seed in range(2_000))
    assert all(400 < first[place] < 600 for place in range(4))
    axioms = Counter(draw_order([*pairs, ("p4", 1)], "q", seed).index(1) == 4 for seed in range(2_000))
    assert 900 < axioms[True] < 1_100, "of two axioms each comes first in half of the draws"


def test_pairs_of_the_overlap_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    table = Home(tmp_path).table(PAIRS, [pair(1), pair(2, split="overlap", question_id="tea.example/1"), pair(3)])
    found = [*view_as_chats.body(None, table, seed=0)]
    (rejected,) = [each for each in found if isinstance(each, Rejected)]
    assert (rejected.key, rejected.kind) == ("p_2", "filtered")
    assert [row["pair_id"] for each in found if not isinstance(each, Rejected) for row in each.to_pylist()] == [
        "p_1",
        "p_3",
    ]


def test_a_question_whose_pairs_lie_in_two_batches_is_drawn_from_once(tmp_path: Path) -> None:
    many = [pair(number, question_id="tea.example/1") for number in range(1_500)]
    home = Home(tmp_path)
    chats = [row for batch in view_as_chats.body(None, home.table(PAIRS, many), seed=0) for row in batch.to_pylist()]
    assert [row["pair_id"] for row in chats] == [row["pair_id"] for row in many]
    assert sum(row["draw"] == 1 for row in chats) == 1
    found = [*draw_one_a_question.body(None, home.table(PREFERENCE, chats))]
    kept = [row for each in found if not isinstance(each, Rejected) for row in each.to_pylist()]
    assert len(kept) == 1
    assert sum(isinstance(each, Rejected) for each in found) == 1_499
    texts = [row for batch in view_as_texts.body(None, home.table(PREFERENCE, chats)) for row in batch.to_pylist()]
    assert [row["chosen"] for row in texts] == [row["preferred"] for row in many]


# ---------------------------------------------------------------- loading and export


def test_a_prefix_of_an_id_still_names_one_row_although_views_have_it_too(version: Version) -> None:
    from tasks.publishing.lineage import published_row

    key = next(iter(rows(version, "preference")))
    config, row = published_row(version, key[:-1])
    assert (config, row["pair_id"]) == ("pairs", key)
    with pytest.raises(UsageError, match="has no row p_nothing"):
        published_row(version, "p_nothing")


def test_a_version_counts_its_pairs_once(version: Version) -> None:
    from flows.inspection.describe import summary

    counts = {config: sum(splits.values()) for config, splits in version.manifest["configs"].items()}
    once = sum(number for config, number in counts.items() if config not in version.views)
    assert counts["pairs"] == len(rows(version, "pairs"))
    assert summary(version)["rows"] == once
    assert f"{once:,} rows" in (version.folder / "README.md").read_text()
    tokens = longform.load("axioms/preference", home=version.folder.parents[2])["chosen_tokens"]
    assert tokens.null_count == 0


@pytest.mark.parametrize("config", ["preference", "preference_sampled", "preference_text"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_an_export_is_the_config_as_json_lines(version: Version, config: str, split: str, tmp_path: Path) -> None:
    from flows.cli.exports import app

    file = tmp_path / "out.jsonl"
    given = ["axioms", "--to", str(file), "--config", config, "--split", split]
    app([*given, "--home", str(version.folder.parents[2])], standalone_mode=False)
    found = {row["pair_id"]: row for row in map(json.loads, file.read_bytes().splitlines())}
    expected = {key: row for key, row in rows(version, config).items() if row["split"] == split}
    assert found == json.loads(json.dumps(expected, default=lambda when: when.isoformat()))


def test_an_export_without_options_is_the_training_split_as_chats(version: Version, tmp_path: Path) -> None:
    from flows.cli.exports import app

    file = tmp_path / "out.jsonl"
    app(["axioms", "--to", str(file), "--home", str(version.folder.parents[2])], standalone_mode=False)
    found = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
    assert {row["split"] for row in found} == {"train"}
    assert found[0]["prompt"][0]["role"] == "user"


def test_an_export_goes_into_a_pipe_and_through_a_link_which_both_stay(version: Version, tmp_path: Path) -> None:
    from flows.cli.exports import app

    home = ["--home", str(version.folder.parents[2])]
    plain, link, pipe = (tmp_path / name for name in ("plain", "link", "pipe"))
    plain.touch()
    link.symlink_to(plain)
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as readers:
        read = readers.submit(pipe.read_bytes)
        app(["axioms", "--to", str(pipe), *home], standalone_mode=False)
        content = read.result()
    app(["axioms", "--to", str(link), "--force", *home], standalone_mode=False)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert plain.read_bytes() == content != b""
    with pytest.raises(UsageError, match="--estimates does not go with axioms"):
        app(["axioms", "--to", str(plain), "--estimates", "--force", *home], standalone_mode=False)


LOADED = """
import json, sys
from datasets import load_dataset
found = {config: load_dataset(sys.argv[1], config) for config in sys.argv[2:]}
print(json.dumps({config: {split: rows.to_list() for split, rows in of.items()} for config, of in found.items()},
                 default=lambda when: when.isoformat()))
"""


@pytest.mark.check
def test_datasets_loads_the_configs_by_their_names(version: Version, tmp_path: Path) -> None:
    configs = ["preference", "preference_sampled", "preference_text"]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "TZ": "UTC"}
    command = [sys.executable, "-c", LOADED, str(version.folder), *configs]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for config in configs:
        assert found[config].keys() == {"train", "test"}
        loaded = {row["pair_id"]: row for of in found[config].values() for row in of}
        assert loaded == json.loads(json.dumps(rows(version, config), default=lambda when: when.isoformat()))
