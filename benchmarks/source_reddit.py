"""Reddit's comments of a month: generated, read by the stage, and merely unpacked and parsed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# fmt: off
SUBREDDITS = [
    "explainlikeimfive", "WritingPrompts", "AskReddit", "askscience", "AskHistorians", "pics", "funny", "gaming", "DIY",
    "news", "movies", "science", "history", "books", "music", "sports", "nba", "soccer", "technology", "worldnews",
]
BLOCK_LINES = 5_000

_SYLLABLES = ["an", "ber", "co", "dil", "el", "fra", "gon", "hu", "il", "jam", "ka", "lor", "men", "no", "ost", "pra"]
_STOPS = ["", "", "", "", ",", "."]
_MARKUP = ["\\n\\n", "&gt; ", "&amp; ", "\\n* ", "\\u2019s "]
_NULL = [
    "approved_at_utc", "approved_by", "associated_award", "author_flair_background_color", "author_flair_css_class",
    "author_flair_template_id", "author_flair_text", "author_flair_text_color", "banned_at_utc", "banned_by",
    "collapsed_because_crowd_control", "collapsed_reason", "collapsed_reason_code", "comment_type", "distinguished",
    "likes", "mod_note", "mod_reason_by", "mod_reason_title", "removal_reason", "report_reasons", "top_awarded_type",
    "unrepliable_reason",
]
_FALSE = [
    "archived", "author_is_blocked", "author_patreon_flair", "author_premium", "can_gild", "can_mod_post", "collapsed",
    "edited", "is_submitter", "locked", "no_follow", "saved", "score_hidden", "stickied",
]
_EMPTY = ["all_awardings", "author_flair_richtext", "awarders", "mod_reports", "treatment_tags", "user_reports"]
# fmt: on
_FIXED: dict[str, Any] = {
    **dict.fromkeys(_NULL),
    **dict.fromkeys(_FALSE, False),
    **{name: [] for name in _EMPTY},
    "author_flair_type": "text",
    "gildings": {},
    "num_reports": 0,
    "replies": "",
    "send_replies": True,
    "subreddit_id": "t5_2sokd",
    "subreddit_type": "public",
    "total_awards_received": 0,
}


def generate(folder: Path, megabytes: float) -> Path:
    """RC_2024-01.zst of comments in the form of that year, in a window of 2^31; 1 in 10 is removed."""
    from backports import zstd

    path = folder / "RC_2024-01.zst"
    options = {
        zstd.CompressionParameter.compression_level: 1,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
        zstd.CompressionParameter.window_log: 31,
    }
    with zstd.open(path, "wb", options=options) as file:
        written, lines = 0, _lines(random.Random(8))
        while written < megabytes * 1e6:
            block = b"".join(next(lines) for _ in range(BLOCK_LINES))
            file.write(block)
            written += len(block)
    return path


def _lines(draw: random.Random) -> Iterator[bytes]:
    """Lines without an end. Texts are strings of phrases from a stock."""
    words = ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) + draw.choice(_STOPS) for _ in range(8_000)]
    weights = [1 / rank for rank in range(1, 8_001)]
    stock = [" ".join(draw.choices(words, weights, k=draw.randint(3, 7))) + " " for _ in range(20_000)]
    stock[:400] = [phrase + draw.choice(_MARKUP) for phrase in stock[:400]]
    heads = [_head(name) for name in SUBREDDITS]
    for number in range(1 << 40):
        yield _line(draw, number, heads, stock)


def _head(subreddit: str) -> str:
    fixed = json.dumps({**_FIXED, "subreddit": subreddit, "subreddit_name_prefixed": f"r/{subreddit}"})
    return fixed[:-1].replace(": ", ":").replace(", ", ",")


def _line(draw: random.Random, number: int, heads: list[str], stock: list[str]) -> bytes:
    own, thread, author = f"k{number:07}", f"1a{number // 40:06}", int(draw.expovariate(1) * 40_000)
    parent = f"t3_{thread}" if number % 2 else f"t1_k{max(0, number - 1):07}"
    body = "[removed]" if number % 10 == 0 else "".join(draw.choices(stock, k=1 + int(draw.expovariate(0.15))))
    score, second, place = int(draw.expovariate(0.1)) - 3, 1_706_745_600 + number // 90, number % len(heads)
    return (
        f'{heads[place]},"_meta":{{"retrieved_2nd_on":{second + 129_600}}},"author":"some_author_{author}",'
        f'"author_fullname":"t2_{author:x}","body":"{body}","created":{second}.0,"created_utc":{second}.0,"id":"{own}",'
        f'"link_id":"t3_{thread}","name":"t1_{own}","parent_id":"{parent}","permalink":"/r/{SUBREDDITS[place]}/comments/'
        f'{thread}/why_is_it_so_{number // 40}/{own}/","retrieved_on":{second + 9},"score":{score},"ups":{score},'
        f'"updated_on":{second + 30}}}\n'
    ).encode()


def ours(path: Path, home: Path) -> int:
    """The lines that read_items accounts for, all subreddits wanted: the harder case."""
    return _read(path, home, [])


def ours_one_of_twenty(path: Path, home: Path) -> int:
    """As `ours`, with one subreddit of twenty wanted: most lines are passed over without being parsed."""
    return _read(path, home, ["explainlikeimfive"])


def _read(path: Path, home: Path, subreddits: list[str]) -> int:
    from benchmarks.building import accounted, building
    from longform.artifacts.store import Digests
    from longform.pseudonyms import Pseudonyms
    from tasks.sources.reddit.dumps import open_dumps, read_items

    sources = open_dumps([path], Digests(home))
    with building(home) as build:
        read_items(build, sources, subreddits=subreddits, authors=Pseudonyms(home))
    return accounted(build) + build.done[-1].artifact.counts().get("of other subreddits", 0)


def bare(path: Path) -> int:
    """The lines, unpacked by the standard zstd reader and parsed by orjson."""
    import orjson
    from backports import zstd

    lines = 0
    with zstd.open(path, "rb", options={zstd.DecompressionParameter.window_log_max: 31}) as file:
        for line in io.BufferedReader(file, 1 << 20):
            orjson.loads(line)
            lines += 1
    return lines
