"""UltraFeedback as the hub has it: JSON lines, an instruction with four models' rated answers each."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson

from benchmarks.source_openreview import WORDS

MODELS = ("alpaca-7b", "bard", "gpt-4", "llama-2-70b-chat", "mpt-30b-chat", "vicuna-33b", "wizardlm-13b")


def generate(folder: Path, megabytes: float) -> Path:
    """evol_instruct.jsonl of about `megabytes` MB (10^6 bytes): answers of some 1,200 characters, with critiques."""
    folder.mkdir(parents=True, exist_ok=True)
    file, size, number = folder / "evol_instruct.jsonl", 0, 0
    chance = random.Random(1)
    texts = [" ".join(chance.choices(WORDS, k=length)) for length in (25, 110, 230) for _ in range(40)]
    with file.open("wb") as out:
        while size < megabytes * 1e6:
            number += 1
            size += out.write(orjson.dumps(record(number, chance, texts)) + b"\n")
    return file


def record(number: int, chance: random.Random, texts: list[str]) -> dict[str, Any]:
    models = chance.sample(MODELS, k=4)
    return {
        "source": "evol_instruct",
        "instruction": f"{number}: {chance.choice(texts)}",
        "models": models,
        "completions": [completion(model, chance, texts) for model in models],
        "correct_answers": ["None"],
        "incorrect_answers": ["None"],
    }


def completion(model: str, chance: random.Random, texts: list[str]) -> dict[str, Any]:
    ratings = {name: chance.randrange(1, 6) for name in ("instruction_following", "honesty")}
    typed = {name: chance.randrange(1, 6) for name in ("truthfulness", "helpfulness")}
    annotations: dict[str, Any] = {
        name: {"Rating": str(rating), "Rationale": chance.choice(texts)} for name, rating in ratings.items()
    }
    for name, rating in typed.items():
        told = {"Rationale": chance.choice(texts), "Rationale For Rating": chance.choice(texts)}
        annotations[name] = {"Type": ["None"], "Rating": str(rating), **told}
    return {
        "annotations": annotations,
        "custom_system_prompt": "Answer as well as you can.",
        "model": model,
        "principle": "helpfulness",
        "response": chance.choice(texts),
        "critique": chance.choice(texts),
        "overall_score": float(chance.randrange(1, 11)),
        "fine-grained_score": sum((*ratings.values(), *typed.values())) / 4,
    }


def ours(path: Path, home: Path) -> int:
    """The stage read_instructions over the file; records accounted for."""
    from benchmarks.building import built
    from flows.sources.ultrafeedback import Read, read

    return built(home, lambda build: read(build, [path], Read()))


def bare(path: Path) -> int:
    """orjson over the lines, and nothing else; records."""
    with path.open("rb") as file:
        return sum(1 for line in file if orjson.loads(line))
