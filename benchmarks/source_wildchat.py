"""WildChat: a generated Parquet file of conversations, and how it is read."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

WORDS = str.split(
    "please write a short story about the way that people learn to cook bread in an old town and explain why it "
    "matters for function list value return class data model sure here is an example of what you asked first second "
    "then finally because however important different system time result answer question number language water"
)
CATEGORIES = str.split(
    "harassment harassment/threatening harassment_threatening hate hate/threatening hate_threatening self-harm "
    "self-harm/instructions self-harm/intent self_harm self_harm_instructions self_harm_intent sexual sexual/minors "
    "sexual_minors violence violence/graphic violence_graphic"
)
DETOXIFY = str.split("identity_attack insult obscene severe_toxicity sexual_explicit threat toxicity")
ROWS_PER_GROUP = 1_000
START = datetime(2023, 4, 9, tzinfo=UTC)


def generate(folder: Path, megabytes: float) -> Path:
    """train-00000-of-00001.parquet: all columns of WildChat-1M, snappy, row groups of 1,000 conversations, of which
    4 % are toxic and 2 % logged again."""
    import pyarrow as pa
    from pyarrow import parquet

    draw = random.Random(11)
    rows = [conversation(draw) for _ in range(ROWS_PER_GROUP)]
    base = pa.Table.from_pylist(rows)
    path, written, number = folder / "train-00000-of-00001.parquet", 0.0, 0
    with parquet.ParquetWriter(path, base.schema, compression="snappy") as file:
        while written < megabytes * 1e6:
            hashes = [hashlib.md5(b"%d" % (number + row)).hexdigest() for row in range(ROWS_PER_GROUP)]
            repeated = draw.sample(range(1, ROWS_PER_GROUP), ROWS_PER_GROUP // 50)
            for row in repeated:
                hashes[row] = hashes[row - 1]
            file.write_table(base.set_column(0, "conversation_hash", pa.array(hashes)))
            written, number = written + base.nbytes, number + ROWS_PER_GROUP
    return path


def conversation(draw: random.Random) -> dict[str, Any]:
    pairs, toxic = min(8, 1 + int(draw.expovariate(0.6))), draw.random() < 0.04
    when = START + timedelta(seconds=draw.randrange(30_000_000))
    turns = [turn(draw, role, when, toxic) for _ in range(pairs) for role in ("user", "assistant")]
    return {
        "conversation_hash": "0" * 32,
        "model": draw.choice(("gpt-3.5-turbo-0613", "gpt-4-0314")),
        "timestamp": when,
        "conversation": turns,
        "turn": pairs,
        "language": "English",
        "openai_moderation": [moderation(draw) for _ in turns],
        "detoxify_moderation": [{name: draw.random() for name in DETOXIFY} for _ in turns],
        "toxic": toxic,
        "redacted": False,
        "state": "Nowhere",
        "country": "Utopia",
        "hashed_ip": "f" * 64,
        "header": {"accept-language": "en", "user-agent": "none"},
    }


def turn(draw: random.Random, role: str, when: datetime, toxic: bool) -> dict[str, Any]:
    user = role == "user"
    return {
        "content": " ".join(draw.choices(WORDS, k=draw.randrange(5, 120) if user else draw.randrange(60, 400))),
        "country": "Utopia" if user else None,
        "hashed_ip": "f" * 64 if user else None,
        "header": {"accept-language": "en", "user-agent": "none"} if user else None,
        "language": "English",
        "redacted": False,
        "role": role,
        "state": None,
        "timestamp": None if user else when,
        "toxic": toxic,
        "turn_identifier": draw.randrange(1_000_000),
    }


def moderation(draw: random.Random) -> dict[str, Any]:
    return {
        "categories": dict.fromkeys(CATEGORIES, False),
        "category_scores": {name: draw.random() for name in CATEGORIES},
        "flagged": False,
    }


def ours(path: Path, home: Path) -> int:
    """The stages list_conversations and read_conversations; the conversations accounted for."""
    from benchmarks.building import building
    from longform.artifacts.store import Digests
    from tasks.sources.files.hub import pinned
    from tasks.sources.files.inputs import open_files
    from tasks.sources.released.wildchat import ENDINGS, GROUP, PIECE_BYTES, list_conversations, read_conversations

    digest = Digests(home)
    files = open_files([path], group=GROUP, endings=ENDINGS, digest=digest, piece_bytes=PIECE_BYTES)
    known = pinned(files, repository=None, revision=None)
    with building(home) as build:
        rows = read_conversations(build, known, list_conversations(build, known), toxic=False)
    return rows.count + sum(build.done[-1].artifact.rejected().values())


def bare(path: Path) -> int:
    """All columns of the file decoded, and nothing else."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return sum(len(batch) for batch in file.iter_batches(1_000, use_threads=False))
