"""WebGPT comparisons as the released file has them: JSON lines, most of whose bytes are numbers of tokens."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from benchmarks.source_openreview import WORDS

QUOTES, TOKENS, VOCABULARY = 4, 700, 50_257


def generate(folder: Path, megabytes: float) -> Path:
    """comparisons.jsonl of about `megabytes` MB (10^6 bytes): two answers of some 1,000 characters a record."""
    folder.mkdir(parents=True, exist_ok=True)
    file, size, number = folder / "comparisons.jsonl", 0, 0
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in (12, 60, 160) for _ in range(40)]
    tokens = [[chance.randrange(VOCABULARY) for _ in range(TOKENS)] for _ in range(40)]
    with file.open("wb") as out:
        while size < megabytes * 1e6:
            number += 1
            size += out.write(orjson.dumps(record(number, chance, texts, tokens)) + b"\n")
    return file


def record(number: int, chance: random.Random, texts: list[str], tokens: list[list[int]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "question": {"dataset": "eli5", "id": f"q{number:x}", "full_text": f"{number}: {chance.choice(texts)}?"}
    }
    score = chance.choice((-1.0, -0.5, 0.0, 0.5, 1.0))
    for side, own in ((0, score), (1, -score)):
        found[f"quotes_{side}"] = {
            "title": [f"Tea (page{n}.example)" for n in range(QUOTES)],
            "extract": [chance.choice(texts) for _ in range(QUOTES)],
        }
        found[f"answer_{side}"] = f"{chance.choice(texts)} [1]. {chance.choice(texts)} [2, 3]."
        found[f"tokens_{side}"] = {"prefix": chance.choice(tokens), "completion": chance.choice(tokens)[:200]}
        found[f"score_{side}"] = own
    return found


def ours(path: Path, home: Path) -> int:
    """The stage read_comparisons over the file; records accounted for."""
    from benchmarks.building import built
    from flows.sources.webgpt import Read, read

    return built(home, lambda build: read(build, [path], Read()))


def bare(path: Path) -> int:
    """orjson over the lines, and nothing else; records."""
    with path.open("rb") as file:
        return sum(1 for line in file if orjson.loads(line))
