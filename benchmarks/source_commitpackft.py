"""CommitPackFT's lines as the hub has them: plain JSON lines, one commit to one file each."""

from __future__ import annotations

import random
from pathlib import Path

import orjson

LINES = [
    "def pour(cup, litres):",
    "    return cup + litres",
    "import math",
    "",
    "class Kettle:",
    '    """A vessel for water."""',
    "    def __init__(self, watts):",
    "        self.watts = watts",
    "    for cup in range(12):",
    '        print("tea", cup)',
]
ACCENTED = '        print("thé", cup)  # naïve'  # in one file of ten: most code is ASCII


def generate(folder: Path, megabytes: float) -> Path:
    """A language's file of about `megabytes` MB (10^6 bytes); contents of about 1.5 kB, as in the Python part."""
    folder.mkdir(parents=True, exist_ok=True)
    file, size, number = folder / "data.jsonl", 0, 0
    chance = random.Random(1)
    pages = [page(chance, [*LINES, ACCENTED] if number % 10 == 0 else LINES) for number in range(400)]
    with file.open("wb") as out:
        while size < megabytes * 1e6:
            number += 1
            size += out.write(orjson.dumps(record(number, chance, pages)) + b"\n")
    return file


def page(chance: random.Random, lines: list[str]) -> str:
    return "\n".join(chance.choices(lines, k=chance.randrange(10, 120))) + "\n"


def record(number: int, chance: random.Random, pages: list[str]) -> dict[str, str]:
    name, page = f"src/kettle_{number}.py", chance.choice(pages)
    subject = f"Pour {number} cups more slowly than before"
    return {
        "commit": f"{chance.getrandbits(160):040x}",
        "old_file": name,
        "new_file": name,
        "old_contents": page,
        "new_contents": f"{page}# {number}\n",
        "subject": subject,
        "message": f"{subject}\n\nThey were spilt.\n",
        "lang": "Python",
        "license": "mit",
        "repos": ",".join(f"user{chance.randrange(999)}/kettle" for _ in range(3)),
    }


def ours(path: Path, home: Path) -> int:
    """The stage read_commits over the file; records accounted for."""
    from benchmarks.building import built
    from flows.sources.commitpackft import Read, read

    return built(home, lambda build: read(build, [path], Read()))


def bare(path: Path) -> int:
    """orjson over the lines, and nothing else; records."""
    with path.open("rb") as file:
        return sum(1 for line in file if orjson.loads(line))
