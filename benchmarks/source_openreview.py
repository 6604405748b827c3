"""Submissions of OpenReview with their replies, as `longform fetch openreview` writes them: API v2, JSON lines."""

from __future__ import annotations

import random
from pathlib import Path

import orjson

WORDS = ["the", "of", "we", "kettle", "spout", "show", "bound", "for", "and", "method", "tea", "pours", "heat", "paper"]
REVIEWS = 4
PARTS = ("summary", "strengths", "weaknesses")


def generate(folder: Path, megabytes: float) -> Path:
    """A year's submissions, each with four reviews and a decision, about `megabytes` MB (10^6 bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    file, size, number = folder / "2024-submissions.jsonl", 0, 0
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in (9, 180, 260, 320, 400) for _ in range(40)]
    with file.open("wb") as out:
        while size < megabytes * 1e6:
            number += 1
            size += out.write(orjson.dumps(submission(number, chance, texts)) + b"\n")
    return file


def submission(number: int, chance: random.Random, texts: list[str]) -> dict[str, object]:
    forum, venue = f"s{number:09x}", "ICLR.cc/2024/Conference"
    accepted = chance.random() < 0.3
    content = {
        "title": chance.choice(texts[:40]),
        "abstract": chance.choice(texts[40:80]),
        "authors": [f"Name{chance.randrange(9_999)} Family{chance.randrange(9_999)}" for _ in range(4)],
        "keywords": chance.sample(WORDS, 4),
        "pdf": f"/pdf/{number:040x}.pdf",
        "venue": "ICLR 2024 poster" if accepted else "Submitted to ICLR 2024",
        "venueid": venue if accepted else f"{venue}/Rejected_Submission",
    }
    fields = [
        {**{name: chance.choice(texts) for name in PARTS}, "rating": "6: marginally above", "confidence": "4: sure"}
        for _ in range(REVIEWS)
    ]
    replies = [reply(forum, number, "Official_Review", review) for review in fields]
    replies.append(reply(forum, number, "Meta_Review", {"metareview": chance.choice(texts)}))
    replies.append(reply(forum, number, "Decision", {"decision": "Accept (poster)" if accepted else "Reject"}))
    return {
        "id": forum,
        "forum": forum,
        "number": number,
        "invitations": [f"{venue}/-/Submission", f"{venue}/-/Post_Submission"],
        "cdate": 1_695_000_000_000 + number,
        "mdate": 1_710_000_000_000,
        "license": "CC BY 4.0",
        "content": {name: {"value": value} for name, value in content.items()},
        "details": {"directReplies": replies},
    }


def reply(forum: str, number: int, kind: str, content: dict[str, str]) -> dict[str, object]:
    return {
        "id": f"{forum}{kind}{len(content['decision']) if 'decision' in content else 0}",
        "forum": forum,
        "replyto": forum,
        "cdate": 1_700_000_000_000,
        "invitations": [f"ICLR.cc/2024/Conference/Submission{number}/-/{kind}"],
        "content": {name: {"value": value} for name, value in content.items()},
    }


def ours(path: Path, home: Path) -> int:
    """The stage read_submissions over the file; records accounted for."""
    from benchmarks.building import built
    from flows.sources.openreview import Read, read

    return built(home, lambda build: read(build, [path], Read()))


def bare(path: Path) -> int:
    """orjson over the lines, and nothing else; records."""
    with path.open("rb") as file:
        return sum(1 for line in file if orjson.loads(line))
