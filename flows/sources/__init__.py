"""Sources that can be fetched and read without building a dataset, one module each.

Each module has TERMS (what its texts may be used for), DEFECTS (what is known to be wrong with it), and some of

    class Fetch(BaseModel)      settings of `longform fetch`, each with a description
    def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]
    class Read(BaseModel)       settings of `longform read`
    def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]    calls the source's stages
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = (
    "stackexchange",
    "reddit",
    "s2orc",
    "openreview",
    "papers",
    "acl_ocl",
    "msmarco",
    "webgpt",
    "wildchat",
    "ultrafeedback",
    "commitpackft",
    "url",
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a source holds (`what`), the licence of its texts, and whom to name for them (`attribution`). `decide`: the
    terms that a person must agree to before the source is fetched; None if there are none.
    """

    what: str
    licence: str
    attribution: str
    decide: str | None = None


@dataclass(frozen=True, slots=True)
class Defect:
    """A known defect of a source: a `sentence` on it, and the `reasons` (of rejected rows, counters, notes of rows) by
    which a read counts it.
    """

    sentence: str
    reasons: tuple[str, ...] = ()
