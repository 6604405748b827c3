import bz2
import gzip
import html
import json
import lzma
import struct
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import paths
import pytest
import xxhash
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from reddit_lines import COMMENT, SECOND, SUBMISSION, line

from longform.artifacts.rows import Rejected, Shard, Source
from longform.errors import SourceError, UsageError
from schemas.sources.reddit import ITEMS
from tasks.sources.files.inputs import moment
from tasks.sources.files.lines import split_lines, unpacked
from tasks.sources.reddit.dumps import dump_lines, open_dumps, parse_items, record_of, seconds, unescaped, votes

SHARED = paths.REAL_DATA / "reddit"
SAMPLES = paths.SAMPLES / "reddit"
real = pytest.mark.skipif(not SHARED.exists(), reason="no real lines beside the repository")


def base36(number: int) -> str:
    return np.base_repr(number, 36).lower()


def pseudonym(name: str) -> str:
    return f"hash of {name}"


def parsed(
    lines: list[bytes], wanted: tuple[str, ...] = (), retrieved_at: str | None = None
) -> tuple[list[dict[str, Any]], list[Rejected], Counter[str]]:
    counts, rows, rejected = Counter[str](), [], []
    retrieved = None if retrieved_at is None else moment(retrieved_at)
    for item in parse_items(lines, wanted, pseudonym, retrieved, counts):
        if isinstance(item, Rejected):
            rejected.append(item)
        else:
            item.validate(full=True)
            assert item.schema.equals(ITEMS, check_metadata=True)
            rows += item.to_pylist()
    left = counts["of other subreddits"] + counts["blank lines"]
    assert len(rows) + len(rejected) + left == counts["read"] == len(lines)
    return rows, rejected, counts


def only(record: dict[str, Any], **changed: Any) -> dict[str, Any]:
    rows, rejected, _ = parsed([line(record, **changed)])
    assert rejected == []
    return rows[0]


def refused(record: dict[str, Any], **changed: Any) -> Rejected:
    rows, rejected, _ = parsed([line(record, **changed)])
    assert rows == []
    return rejected[0]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


# ---------------------------------------------------------------- records


def test_a_comment_says_what_it_answers() -> None:
    item = only(COMMENT, retrieved_on=SECOND + 15, _meta={"retrieved_2nd_on": SECOND + 129_600})
    assert item == {
        "post_id": "reddit/t1_kod0b1",
        "kind": "comment",
        "question_id": "reddit/t3_1afw2c",
        "question_hash": xxhash.xxh3_64_intdigest(b"reddit/t3_1afw2c"),
        "parent_id": "reddit/t3_1afw2c",
        "subreddit": "explainlikeimfive",
        "community": "explainlikeimfive",
        "number": int("kod0b1", 36),
        "title": None,
        "text": "Salt & ice.",
        "tags": [],
        "votes": 12,
        "upvote_ratio": None,
        "num_comments": None,
        "created": at(SECOND),
        "edited": False,
        "edited_at": None,
        "seen_at": at(SECOND + 129_600),
        "score_age_s": 129_600,
        "author_id": "hash of sample_author_1",
        "author_deleted": False,
        "distinguished": None,
        "stickied": False,
        "bot": False,
        "locked": False,
        "over_18": None,
        "is_self": None,
        "link": None,
        "url": "https://www.reddit.com/r/explainlikeimfive/comments/1afw2c/_/kod0b1/",
        "licence": "Reddit User Agreement",
        "retrieved_at": None,
        "repairs": 0,
    }


def test_a_submission_is_its_own_thread() -> None:
    item = only(SUBMISSION, title="Q &amp;\n A", selftext="a &gt; b", link_flair_text="Bio &amp; Co", locked=True)
    assert (item["post_id"], item["question_id"], item["parent_id"]) == ("reddit/t3_1afw2c", "reddit/t3_1afw2c", None)
    assert (item["kind"], item["title"], item["text"], item["tags"]) == ("submission", "Q & A", "a > b", ["Bio & Co"])
    assert (item["upvote_ratio"], item["num_comments"], item["is_self"], item["over_18"]) == (0.9, 3, True, False)
    assert (item["locked"], item["url"]) == (True, "https://www.reddit.com/r/explainlikeimfive/comments/1afw2c/")


def test_a_link_is_kept_with_what_it_links() -> None:
    assert only(SUBMISSION, is_self=False, url="https://a.example/?b=1&amp;c=2")["link"] == "https://a.example/?b=1&c=2"
    assert only(SUBMISSION, is_self=True, url="https://a.example/")["link"] is None


@pytest.mark.parametrize("value", [SECOND, float(SECOND), str(SECOND), f"{SECOND}.0", SECOND + 0.9])
def test_every_form_of_a_time_is_read(value: Any) -> None:
    assert only(COMMENT, created_utc=value)["created"] == at(SECOND)


@pytest.mark.parametrize(
    "value", [None, "", "soon", 0, -1, True, [], {}, "nan", "inf", 1e300, 10**40, SECOND * 1000 * 1000, ...]
)
def test_a_time_that_cannot_be_read_is_a_defect(value: Any) -> None:
    one = refused(COMMENT, created_utc=value)
    assert (one.key, one.kind, one.reason) == ("reddit/t1_kod0b1", "defect", "missing or ill-formed created_utc")


@pytest.mark.parametrize(
    ("value", "score"),
    [
        (12, 12),
        (-19_244, -19_244),
        (None, None),
        (..., None),
        ("7", 7),
        (7.0, 7),
        (10**12, None),
        (True, None),
        ([], None),
    ],
)
def test_every_form_of_a_score_is_read(value: Any, score: int | None) -> None:
    assert only(COMMENT, score=value)["votes"] == score


@pytest.mark.parametrize(
    ("given", "parent"),
    [
        ("t3_1afw2c", "reddit/t3_1afw2c"),
        ("t1_kod0a0", "reddit/t1_kod0a0"),
        (None, "reddit/t3_1afw2c"),
        (..., "reddit/t3_1afw2c"),
        (int("1afw2c", 36), "reddit/t3_1afw2c"),
        (int("kod0a0", 36), "reddit/t1_kod0a0"),
        ("1afw2c", "reddit/t3_1afw2c"),
        ("kod0a0", "reddit/t1_kod0a0"),
    ],
)
def test_every_form_of_a_parent_is_read(given: Any, parent: str) -> None:
    assert only(COMMENT, parent_id=given)["parent_id"] == parent


@pytest.mark.parametrize("given", ["t5_x", "t1_", "t1_../..", "T1_KOD", "", -1, True, 1.5, [], 36**12])
def test_a_parent_that_is_no_id_is_a_defect(given: Any) -> None:
    assert refused(COMMENT, parent_id=given).reason == "missing or ill-formed parent_id"


def test_the_thread_is_known_by_its_id_in_any_form_or_by_the_parent() -> None:
    for thread in ("t3_1afw2c", "1afw2c", int("1afw2c", 36), None, ...):
        assert only(COMMENT, link_id=thread)["question_id"] == "reddit/t3_1afw2c"
    assert refused(COMMENT, link_id=..., parent_id="t1_kod0a0").reason == "missing or ill-formed link_id"


def test_a_record_without_name_permalink_author_and_meta_is_read() -> None:
    item = only(SUBMISSION, author=..., is_self=..., num_comments=..., upvote_ratio=..., over_18=..., selftext=...)
    assert item["author_id"] is None
    assert item["author_deleted"] is False
    assert item["text"] == ""
    assert item["score_age_s"] is None


def test_an_id_is_read_from_the_name_where_there_is_no_other() -> None:
    assert only(COMMENT, id=..., name="t1_kod0b1")["post_id"] == "reddit/t1_kod0b1"
    assert only(SUBMISSION, id=87)["post_id"] == f"reddit/t3_{base36(87)}"
    one = refused(COMMENT, id="../etc")
    assert (one.kind, one.reason) == ("defect", "missing or ill-formed id")
    assert one.key.startswith("reddit/?")


def test_the_kind_is_read_from_the_record() -> None:
    assert only(COMMENT, name="t3_kod0b1")["kind"] == "comment"
    assert only(COMMENT, name="t1_kod0b1", title="seen in a listing")["kind"] == "comment"
    assert only(SUBMISSION, name="t3_1afw2c", body="odd")["kind"] == "submission"
    assert refused({"id": "1"}).reason == "neither a submission nor a comment"


def test_the_score_is_as_old_as_the_last_reading_of_it() -> None:
    assert only(COMMENT, retrieved_on=SECOND + 9)["score_age_s"] == 9
    assert only(COMMENT, retrieved_utc=str(SECOND + 8))["score_age_s"] == 8
    assert only(COMMENT, retrieved_on=None, _meta={"note": "no_2nd_retrieval"})["score_age_s"] is None
    assert only(COMMENT, retrieved_on=SECOND + 9, _meta={"retrieved_2nd_on": float(SECOND + 99)})["score_age_s"] == 99
    assert only(COMMENT, retrieved_on=SECOND + 9, _meta="odd")["score_age_s"] == 9


def test_an_edit_is_false_or_a_time() -> None:
    assert [only(COMMENT, edited=value)["edited"] for value in (False, None, True, SECOND)] == [
        False,
        False,
        True,
        True,
    ]
    assert only(COMMENT, edited=float(SECOND + 5))["edited_at"] == at(SECOND + 5)
    assert only(COMMENT, edited=True)["edited_at"] is None


def test_names_are_hashed_and_those_of_deleted_accounts_are_none() -> None:
    assert only(COMMENT, author="[deleted]")["author_id"] is None
    assert only(COMMENT, author="[deleted]")["author_deleted"] is True
    assert "sample_author_1" not in json.dumps({**only(COMMENT), "author_id": ""}, default=str)


@pytest.mark.parametrize(
    ("author", "body", "bot"),
    [
        ("AutoModerator", "Rules.", True),
        ("RemindMeBot", "Soon.", True),
        ("some-bot", "Beep.", True),
        ("Talbot", "I bake.", False),
        ("sample_author_1", "I am a bot, and this action was performed automatically.", True),
        ("sample_author_1", "I am not a bot", False),
        (None, "Hm.", False),
    ],
)
def test_bots_are_flagged(author: str | None, body: str, bot: bool) -> None:
    assert only(COMMENT, author=author, body=body)["bot"] is bot


# ---------------------------------------------------------------- entities


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a &amp; b &lt;i&gt;", "a & b <i>"),
        ("&amp;amp;", "&amp;"),
        ("&amp;#x200B;", "&#x200B;"),
        ("&#x200B;&#39;", "\u200b'"),
        ("https://a.example/?x=1&copy=2&lt=3", "https://a.example/?x=1&copy=2&lt=3"),
        ("&nonsense; &;", "&nonsense; &;"),
        ("AT&T", "AT&T"),
    ],
)
def test_entities_are_unescaped_once(written: str, meant: str) -> None:
    assert unescaped(written) == meant
    assert only(COMMENT, body=written)["text"] == meant


@given(st.text(alphabet="&amp;ltgx#20B c", max_size=60))
def test_what_reddit_escapes_comes_back_as_it_was(text: str) -> None:
    assert unescaped(html.escape(text, quote=False)) == text


# ---------------------------------------------------------------- what is gone


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"body": "[deleted]"}, "deleted by its author"),
        ({"body": " [Deleted]\n"}, "deleted by its author"),
        ({"body": "[removed]"}, "removed by moderators"),
        ({"body": "[ Removed by Reddit ]"}, "removed by Reddit"),
        ({"body": "[ Removed by reddit in response to a copyright notice. ]"}, "removed by Reddit"),
        ({"banned_by": "moderators"}, "removed by moderators"),
        ({"removal_reason": "legal"}, "removed by Reddit"),
        ({"_meta": {"was_deleted_later": True, "removal_type": "deleted"}}, "deleted or removed later"),
        ({"_meta": {"was_deleted_later": True}, "id": ...}, "deleted or removed later"),
    ],
)
def test_a_comment_that_is_gone_leaves_its_reason_and_no_text(changed: dict[str, Any], reason: str) -> None:
    one = refused(COMMENT, **changed)
    assert (one.kind, one.reason, one.raw) == ("filtered", reason, None)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"selftext": "[removed]"}, "removed by moderators"),
        ({"selftext": "[deleted]"}, "deleted by its author"),
        ({"title": "[deleted by user]"}, "deleted by its author"),
        ({"removed_by_category": "deleted"}, "deleted by its author"),
        ({"removed_by_category": "moderator"}, "removed by moderators"),
        ({"removed_by_category": "automod_filtered"}, "removed by moderators"),
        ({"removed_by_category": "copyright_takedown"}, "removed by Reddit"),
        ({"removed_by_category": ["odd"]}, "removed by Reddit"),
    ],
)
def test_a_submission_that_is_gone_leaves_its_reason(changed: dict[str, Any], reason: str) -> None:
    one = refused(SUBMISSION, **changed)
    assert (one.key, one.kind, one.reason, one.raw) == ("reddit/t3_1afw2c", "filtered", reason, None)


def test_a_text_that_was_restored_or_merely_quotes_a_removal_stays() -> None:
    meta = {"was_initially_deleted": True, "removal_type": "moderator"}
    assert only(SUBMISSION, removed_by_category="moderator", _meta=meta)["post_id"]
    assert only(COMMENT, body="Why does it say [removed]?")["text"] == "Why does it say [removed]?"
    assert only(COMMENT, body="[removed] was there")["text"] == "[removed] was there"


def test_a_defect_keeps_its_line_without_names_and_never_that_of_a_deleted_item() -> None:
    one = refused(COMMENT, created_utc="soon", author_fullname="t2_secret", author_flair_text="mine")
    assert one.raw is not None
    assert "Salt" in one.raw
    assert not any(name in one.raw for name in ("sample_author_1", "t2_secret", "mine"))
    cut = b'{"author": "sample_author_1", "_meta": {"was_deleted_later": true}, "body": "Sal'
    assert [(one.reason, one.raw) for one in parsed([cut])[1]] == [("no JSON object", None)]


# ---------------------------------------------------------------- lines


@pytest.mark.parametrize("text", [b"x", b"[]", b'"x"', b"{", b"\x00\x00", b"[" * 100_000, b'{"a": 1e999999}x', b"null"])
def test_a_line_that_is_no_object_is_a_defect_with_its_text(text: bytes) -> None:
    rows, (one,), _ = parsed([text])
    assert (rows, one.kind, one.reason) == ([], "defect", "no JSON object")
    assert one.raw == text[:2_000].decode()


def test_blank_lines_carriage_returns_and_byte_order_marks_do_no_harm() -> None:
    rows, rejected, counts = parsed([b"", b"\r", line(COMMENT) + b"\r", b"\xef\xbb\xbf" + line(SUBMISSION)])
    assert (len(rows), rejected, counts["blank lines"]) == (2, [], 2)


def test_half_characters_are_replaced_and_counted() -> None:
    written = line(COMMENT, body="@@ and more").replace(b"@@", b"\\ud83d \xff")
    rows, rejected, counts = parsed([written])
    assert (rows[0]["text"], rows[0]["repairs"], rejected, counts["repaired"]) == ("\ufffd \ufffd and more", 2, [], 1)
    assert only(COMMENT, body="\U0001f9c2 whole")["repairs"] == 0


def test_a_line_that_only_mentions_a_subreddit_is_of_another() -> None:
    lines = [
        line(COMMENT),
        line(COMMENT, id="a", subreddit="pics", body="see r/explainlikeimfive"),
        line(COMMENT, id="b", subreddit="pics", body='"subreddit":"explainlikeimfive"'),
        line(SUBMISSION, id="c", subreddit="pics", crosspost_parent_list=[{"subreddit": "explainlikeimfive"}]),
        line(SUBMISSION, id="d", crosspost_parent_list=[{"subreddit": "pics"}]),
        line(COMMENT, id="e", subreddit="ExplainLikeImFive"),
        line(COMMENT, id="f").replace(b'"explainlike', b'"\\u0065xplainlike'),
        line(COMMENT, id="g", subreddit="explainlikeimfive2"),
    ]
    rows, rejected, counts = parsed(lines, ("ExplainLikeIMFive",))
    assert [row["post_id"][-2:] for row in rows] == ["b1", "_d", "_e", "_f"]
    assert (rejected, counts["of other subreddits"]) == ([], 4)
    assert (rows[2]["subreddit"], rows[2]["community"]) == ("ExplainLikeImFive", "explainlikeimfive")


def test_no_line_of_a_wanted_subreddit_is_lost_for_being_broken() -> None:
    _, rejected, _ = parsed([b'{"subreddit":"pics', line(COMMENT, subreddit=None), b"{}"], ("pics",))
    assert [one.kind for one in rejected] == ["defect"] * 3


def test_pages_of_users_and_advertisements_are_left_out() -> None:
    assert refused(SUBMISSION, subreddit="u_sample_author_2").reason == "on a user's own page"
    assert len(parsed([line(SUBMISSION, subreddit="u_sample")], ("u_sample",))[0]) == 1
    assert (refused(SUBMISSION, subreddit=None, promoted=True).reason) == "advertisement"
    assert refused(SUBMISSION, subreddit="../x").reason == "missing or ill-formed subreddit"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just("t3_x")
    | st.just("[deleted]"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
FIELDS = [
    *COMMENT,
    *SUBMISSION,
    *("_meta", "name", "retrieved_on", "distinguished", "removed_by_category", "link_flair_text", "url", "stickied"),
]


@settings(max_examples=300)
@given(st.booleans(), st.dictionaries(st.sampled_from(FIELDS), ANYTHING, max_size=6), st.booleans())
def test_no_value_of_any_type_crashes_and_every_line_is_accounted_for(
    asks: bool, changed: dict[str, Any], select: bool
) -> None:
    parsed([line(SUBMISSION if asks else COMMENT, **changed)], ("explainlikeimfive",) if select else ())


@settings(max_examples=200)
@given(st.binary(max_size=80), st.integers(0, 400), st.integers(0, 40))
def test_no_damage_to_a_line_crashes(noise: bytes, start: int, length: int) -> None:
    whole = line(COMMENT, _meta={"retrieved_2nd_on": 1})
    parsed((whole[:start] + noise + whole[start + length :]).split(b"\n"))


@given(st.integers(0, 36**12 - 1))
def test_a_numeric_id_is_what_int_reads_in_base_36(number: int) -> None:
    row = only(SUBMISSION, id=number)
    assert int(row["post_id"].removeprefix("reddit/t3_"), 36) == row["number"] == number


def test_numbers_beyond_all_bounds_are_none() -> None:
    for value in ("9" * 400, float("nan"), float("-inf"), 10**400, "1e400"):
        assert (seconds(value), votes(value)) == (None, None)


def test_the_moment_of_the_fetch_is_in_every_row() -> None:
    rows, _, _ = parsed([line(COMMENT)], retrieved_at="2024-03-01")
    assert rows[0]["retrieved_at"] == datetime(2024, 3, 1, tzinfo=UTC)


# ---------------------------------------------------------------- files


LINES = b"".join(line(COMMENT, id=base36(number), body=f"text {number * 7919}") + b"\n" for number in range(2_000))
WIDE = {zstd.CompressionParameter.window_log: 31, zstd.CompressionParameter.enable_long_distance_matching: 1}


def wide(content: bytes) -> bytes:
    """A frame that asks for a window of 2^31 bytes, as the dumps do: written as a stream, without its size."""
    packer = zstd.ZstdCompressor(options=WIDE)
    return packer.compress(content) + packer.flush()


def blocks(content: bytes, rows_a_block: int = 300) -> bytes:
    """The content's lines in the container that archives of Reddit used."""
    rows, packed = content.split(b"\n")[:-1], b""
    for first in range(0, len(rows), rows_a_block):
        chosen, index, offset = rows[first : first + rows_a_block], b"", 0
        for row in chosen:
            index, offset = index + struct.pack("<II", offset, len(row)), offset + len(row)
        block = zstd.compress(struct.pack("<I", len(chosen)) + index + b"".join(chosen))
        packed += struct.pack("<I", len(block)) + block
    return packed


PACKED = {
    "RC_2024-01.zst": wide(LINES),
    "RC_2024-01-frames.zst": wide(LINES[:90_000]) + wide(LINES[90_000:]),
    "RC_2024-01.zst_blocks": blocks(LINES),
    "RC_2010-01.bz2": bz2.compress(LINES),
    "RC_2018-01.xz": lzma.compress(LINES),
    "RC_2018-01.gz": gzip.compress(LINES),
    "RC_2018-01.jsonl": LINES,
    "RC_2018-01": LINES,
}


def opened(path: Path) -> Source:
    (source,) = open_dumps([path], digest=lambda file: "0" * 64)
    return source


def lines_of(path: Path) -> list[bytes]:
    source = opened(path)
    return [one for index in range(len(source.pieces)) for one in dump_lines(Shard(source, index))]


@pytest.mark.parametrize("name", PACKED)
def test_a_dump_has_the_same_lines_however_it_is_packed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(PACKED[name])
    assert b"".join(one + b"\n" for one in lines_of(tmp_path / name)) == LINES


def test_the_frames_really_ask_for_the_wide_window() -> None:
    with pytest.raises(zstd.ZstdError, match="too much memory"):
        zstd.decompress(PACKED["RC_2024-01.zst"])


@settings(max_examples=40)
@given(st.data())
@pytest.mark.parametrize("name", [name for name in PACKED if "." in name and ".jsonl" not in name])
def test_a_dump_that_was_cut_anywhere_is_no_shorter_dump(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = PACKED[name]
    cut = data.draw(st.integers(1, len(content) - 1))
    path = tmp_path_factory.mktemp("cut") / name
    path.write_bytes(content[:cut])
    if cut in _whole_at(name):
        return
    with pytest.raises(SourceError, match=r"truncated|damaged|is no"):
        lines_of(path)


def _whole_at(name: str) -> set[int]:
    """Where a cut cannot be told: between two frames or blocks."""
    content, ends, place = PACKED[name], set(), 0
    if name.endswith("frames.zst"):
        return {len(wide(LINES[:90_000]))}
    while name.endswith("_blocks") and place < len(content):
        place += 4 + struct.unpack_from("<I", content, place)[0]
        ends.add(place)
    return ends


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x01\x00", "truncated"),
        (struct.pack("<I", 1 << 30), "claims 1,073,741,824 bytes"),
        (struct.pack("<I", 4) + b"none", "damaged"),
        (struct.pack("<I", 11) + zstd.compress(b"\x01")[:11], "damaged|truncated"),
    ],
)
def test_blocks_that_are_none_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "RC_2023-05.zst_blocks").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        lines_of(tmp_path / "RC_2023-05.zst_blocks")


@pytest.mark.parametrize("inside", [struct.pack("<I", 1 << 31), struct.pack("<III", 1, 0, 99) + b"short", b"ab"])
def test_rows_outside_their_block_are_refused(tmp_path: Path, inside: bytes) -> None:
    block = zstd.compress(inside)
    (tmp_path / "a.zst_blocks").write_bytes(struct.pack("<I", len(block)) + block)
    with pytest.raises(SourceError, match=r"damaged.*take the month's \.zst instead"):
        lines_of(tmp_path / "a.zst_blocks")


def test_a_folder_is_its_dumps_each_once(tmp_path: Path) -> None:
    (tmp_path / "RS_2024-01.zst").write_bytes(PACKED["RC_2024-01.zst"])
    (tmp_path / "RC_2024-01.zst_blocks").write_bytes(PACKED["RC_2024-01.zst_blocks"])
    (tmp_path / "RC_2024-01.zst.fetch.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("none")
    found = open_dumps([tmp_path, tmp_path / "RS_2024-01.zst"], digest=lambda file: file.name)
    assert [Path(source.path).name for source in found] == ["RC_2024-01.zst_blocks", "RS_2024-01.zst"]
    with pytest.raises(UsageError):
        open_dumps([], digest=lambda file: "")


# ---------------------------------------------------------------- real lines and samples


@real
def test_real_comments_of_2005_to_2024_are_all_accounted_for() -> None:
    rows, rejected, _ = parsed(list(split_lines(unpacked(SHARED / "RC_sample.scrubbed.w31.zst"), "comments")))
    assert (len(rows), len(rejected)) == (23, 4)
    assert Counter(one.reason for one in rejected) == {"removed by moderators": 2, "deleted by its author": 2}
    found = {row["post_id"]: row for row in rows}
    assert found["reddit/t1_kod0bkd"]["created"] == datetime(2024, 2, 1, tzinfo=UTC)
    assert found["reddit/t1_kod0bkd"]["score_age_s"] == 1_706_875_209 - 1_706_745_600
    assert found["reddit/t1_c0cmuom"]["votes"] == 550
    assert found["reddit/t1_c0cmuom"]["created"] == datetime(2009, 9, 1, tzinfo=UTC)
    assert found["reddit/t1_c0cmuoo"]["text"].startswith(">Nebraska\n>Diocese of Grand Island")
    assert found["reddit/t1_c15"]["author_deleted"] is True
    assert found["reddit/t1_c63fp23"]["distinguished"] == "special"
    assert {row["kind"] for row in rows} == {"comment"}
    tops = [row for row in rows if row["parent_id"] == row["question_id"]]
    assert len(tops) == 15


@real
def test_real_submissions_of_2005_to_2024_are_all_accounted_for() -> None:
    rows, rejected, _ = parsed(list(split_lines(unpacked(SHARED / "RS_sample.scrubbed.w31.zst"), "submissions")))
    assert sorted((one.key, one.reason) for one in rejected) == [
        ("reddit/t3_1afwvv9", "on a user's own page"),
        ("reddit/t3_abdn5a", "removed by moderators"),
    ]
    found = {row["post_id"]: row for row in rows}
    assert len(found) == 23
    assert found["reddit/t3_1v3sg"]["title"] == "NUMBERS & WEB SITES"
    assert found["reddit/t3_87"]["number"] == 8 * 36 + 7
    assert found["reddit/t3_1afwvvf"]["upvote_ratio"] == 0.89
    assert found["reddit/t3_j08bcm"]["edited_at"] == at(1_606_781_062)
    assert found["reddit/t3_j08bcm"]["score_age_s"] == 1_623_001_372 - 1_606_780_808
    assert sum(row["is_self"] for row in rows) == 9


@real
def test_real_lines_need_the_wide_window_and_no_repair() -> None:
    for path in sorted(SHARED.glob("*.zst")):
        with pytest.raises(zstd.ZstdError, match="too much memory"):
            zstd.decompress(path.read_bytes())
        assert all(found and found[1] == 0 for found in map(record_of, split_lines(unpacked(path), path)))


def test_the_samples_hold_what_their_description_says() -> None:
    lines = [one for path in sorted(SAMPLES.glob("*.jsonl")) for one in lines_of(path)]
    rows, rejected, counts = parsed(lines)
    assert (len(lines), len(rows), counts["repaired"]) == (48, 35, 1)
    assert Counter((one.kind, one.reason) for one in rejected) == {
        ("filtered", "removed by moderators"): 3,
        ("filtered", "deleted or removed later"): 2,
        ("filtered", "deleted by its author"): 1,
        ("filtered", "removed by Reddit"): 1,
        ("filtered", "advertisement"): 1,
        ("filtered", "on a user's own page"): 1,
        ("defect", "empty comment"): 1,
        ("defect", "missing or ill-formed created_utc"): 1,
        ("defect", "missing or ill-formed id"): 1,
        ("defect", "no JSON object"): 1,
    }
