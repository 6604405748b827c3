"""MS MARCO's collection: a generated archive of it, and how it is read."""

from __future__ import annotations

import random
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

WORDS = str.split(
    "the a of to and in is for with on that by this are as from it at be or an your can will which may when water "
    "blood cost average year state county number people company system service school course health symptoms cause "
    "treatment disease temperature degree house name history definition meaning example percent million between"
)
MANGLED = [text.encode().decode("latin-1") for text in ("é", "’", "–", "°", "“", "”", "€", "é", "ü")]
SHARE_MANGLED = 0.03


def generate(folder: Path, megabytes: float) -> Path:
    """collectionandqueries.tar.gz, as it is distributed, with a collection of 330 bytes a passage, 3 % of them with
    mangled characters."""
    path, size = folder / "collectionandqueries.tar.gz", 0
    with tempfile.TemporaryFile() as plain:
        for block in lines(megabytes * 1e6):
            size += plain.write(block)
        plain.seek(0)
        member = tarfile.TarInfo("collection.tsv")
        member.size = size
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            archive.addfile(member, plain)
    return path


def lines(wanted: float) -> Iterator[bytes]:
    draw = random.Random(7)
    texts = [" ".join(draw.choices(WORDS, k=57)).capitalize() + "." for _ in range(2_000)]
    written, pid = 0, 0
    while written < wanted:
        text = draw.choice(texts)
        if draw.random() < SHARE_MANGLED:
            place = draw.randrange(len(text))
            text = f"{text[:place]}{draw.choice(MANGLED)} café {text[place:]}"
        line = f"{pid}\t{text}\n".encode()
        yield line
        written, pid = written + len(line), pid + 1


def ours(path: Path, home: Path) -> int:
    """The stage read_passages, with as many worker processes as there are processors; the lines accounted for."""
    from benchmarks.building import accounted, building
    from longform.artifacts.store import Digests
    from tasks.sources.files.inputs import open_files
    from tasks.sources.released.msmarco import COLLECTION, ENDINGS, GROUP, PIECE_BYTES, holding, read_passages

    digest = Digests(home)
    files = open_files([path], group=GROUP, endings=ENDINGS, digest=digest, piece_bytes=PIECE_BYTES)
    with building(home) as build:
        read_passages(build, holding(files, COLLECTION), repair=True)
    return accounted(build)


def bare(path: Path) -> int:
    """The archive unpacked, each line of its collection split at the tab and decoded, and nothing else."""
    records = 0
    with tarfile.open(path, "r|gz") as archive:
        for member in archive:
            for line in archive.extractfile(member) or ():
                _pid, text = line.rstrip(b"\n").split(b"\t")
                text.decode()
                records += 1
    return records
