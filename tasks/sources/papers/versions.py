"""Whether two records are versions of one paper (preprint, submission, camera-ready), from their sketches.

    same      one identifier, and a title or text that agrees; or one title, and texts or authors that agree; or one
              text, and a title or authors that agree
    doubtful  something speaks for it, and something against: a DOI that both have, but other titles and texts (a
              parser took it from a reference, or it is the volume's); titles that differ in a number (parts, years)
    none      nothing but a title that many texts have (Introduction, Editorial), or nothing at all

Texts decide over titles, and titles over identifiers: the more of a paper is compared, the less can be misread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tasks.sources.papers.sketches import Sketch

IDENTIFIERS = {"doi": "doi", "arxiv_id": "arxiv_id", "acl_id": "acl_id", "corpus_id": "corpus_id", "file": "pdf_sha"}
ALIKE, VERY_ALIKE, UNLIKE = 0.5, 0.7, 0.15  # shares of texts: of one paper; of one paper for sure; of others
CLOSE_TITLES = 0.6  # Jaccard similarity of words
LEAST_TITLE_WORDS = 3
MOST_YEARS = 3  # between versions of one paper of which nothing but titles is known

_GENERIC = """
introduction; editorial; preface; foreword; related work; background; conclusion; conclusions; abstract; appendix;
contents; table of contents; front matter; back matter; index; author index; authors index; references;
bibliography; erratum; corrigendum; errata; correction; retraction; withdrawn; untitled; no title; title;
acknowledgements; acknowledgments; invited talk; keynote; keynote talk; book review; book reviews; book reviews and
notes; letter to the editor; letters to the editor; in this issue; from the editor; from the editors; message from
the chairs; message from the general chair; message from the program chairs; list of contributors; guest editorial;
introduction to the special issue; editors introduction; editor s introduction; obituary; announcements;
supplementary material; supplementary materials; supplementary information; paper title; conference paper title
"""
GENERIC = frozenset(" ".join(title.split()) for title in _GENERIC.split(";"))
_NUMBERS = "i ii iii iv v vi vii viii ix x xi xii one two three four five six first second third fourth fifth"
_COUNTED = "part parts volume vol phase chapter section track task version edition"
NUMBERS, COUNTED = frozenset(_NUMBERS.split()), frozenset(_COUNTED.split())

OTHER_PAPER, SERIES = "same identifier, other title and text", "titles differ in a number"
OTHER_AUTHORS, OTHER_TEXT = "other authors", "same title, other text"
UNSURE_TITLE, UNSURE_TEXT = "same title, nothing else to compare", "texts agree in part"
REASONS = (OTHER_PAPER, SERIES, OTHER_AUTHORS, OTHER_TEXT, UNSURE_TITLE, UNSURE_TEXT)

Titles = Literal["equal", "series", "close", "other", "unknown"]
Relation = Literal["agree", "differ", "between", "unknown"]


@dataclass(frozen=True, slots=True)
class Compared:
    """What two records have in common. `identifiers`: the names of those that are the same. Similarities are from 0
    to 1; `shared_authors` is a number; all are None where one of the two has nothing to compare.
    """

    identifiers: tuple[str, ...]
    titles: Titles
    specific: bool
    title_similarity: float | None
    abstract_similarity: float | None
    text_similarity: float | None
    shared_authors: int | None
    years_apart: int | None

    @property
    def texts(self) -> Relation:
        """How the texts relate: as the more alike of bodies and abstracts."""
        found = [value for value in (self.abstract_similarity, self.text_similarity) if value is not None]
        if not found:
            return "unknown"
        return "agree" if max(found) >= ALIKE else "differ" if max(found) < UNLIKE else "between"

    @property
    def very_alike(self) -> bool:
        """Whether bodies or abstracts share VERY_ALIKE or more."""
        return max(self.abstract_similarity or 0.0, self.text_similarity or 0.0) >= VERY_ALIKE

    @property
    def authors(self) -> Relation:
        """Whether the two share an author: agree or differ; unknown where one is anonymous."""
        return "unknown" if self.shared_authors is None else "agree" if self.shared_authors else "differ"


def compared(first: Mapping[str, Any], second: Mapping[str, Any]) -> Compared:
    """What two rows of SKETCHES have in common."""
    authors = set(first["surnames"]), set(second["surnames"])
    years = first["year"], second["year"]
    titles, similarity = compare_titles(first["words"], second["words"])
    return Compared(
        tuple(name for name, key in IDENTIFIERS.items() if first[key] is not None and first[key] == second[key]),
        titles,
        specific(first["words"]) and specific(second["words"]),
        similarity,
        _sketch(first, "abstract").share(_sketch(second, "abstract")),
        _sketch(first, "text").share(_sketch(second, "text")),
        len(authors[0] & authors[1]) if all(authors) else None,
        abs(years[0] - years[1]) if None not in years else None,
    )


def _sketch(row: Mapping[str, Any], name: str) -> Sketch:
    """The sketch of the abstract or the text of a row of SKETCHES."""
    return Sketch(row[f"{name}_size"], np.asarray(row[name], np.uint64))


def specific(words: Sequence[str]) -> bool:
    """Whether a title is likely to be of one paper only: LEAST_TITLE_WORDS or more words, and none of GENERIC."""
    return len(words) >= LEAST_TITLE_WORDS and " ".join(words) not in GENERIC


def compare_titles(first: Sequence[str], second: Sequence[str]) -> tuple[Titles, float | None]:
    """(how two titles relate, the Jaccard similarity of their words, None without words).

    `series`: the same words but for numbers (Part I, WMT19, a second look); `close`: CLOSE_TITLES or more, or one is
    the beginning of the other.
    """
    if not (first and second):
        return "unknown", None
    if "".join(first) == "".join(second):
        return "equal", 1.0
    similarity = len(set(first) & set(second)) / len(set(first) | set(second))
    bare = [
        [word for word, number in zip(words, _numbers(words), strict=True) if not number] for words in (first, second)
    ]
    if bare[0] == bare[1] or (
        _counts(first) != _counts(second) and similarity >= CLOSE_TITLES and _both(first, second)
    ):
        return "series", similarity
    short, long = sorted((first, second), key=len)
    beginning = len(short) >= LEAST_TITLE_WORDS and list(long[: len(short)]) == list(short)
    return ("close" if similarity >= CLOSE_TITLES or beginning else "other"), similarity


def _numbers(words: Sequence[str]) -> list[bool]:
    """For each word of a title whether it counts: digits, roman and written numbers, what follows "part", and such a
    word itself.
    """
    previous = ["", *words]
    return [
        word.isdigit() or word in NUMBERS or word in COUNTED or (before in COUNTED and len(word) <= 2)
        for before, word in zip(previous, words, strict=False)
    ]


def _counts(words: Sequence[str]) -> list[str]:
    """The words of a title that count, in order."""
    return [word for word, number in zip(words, _numbers(words), strict=True) if number and word not in COUNTED]


def _both(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether both titles count something: one that only dropped a number is no part of a series."""
    return bool(_counts(first) and _counts(second))


def verdict(pair: Compared) -> tuple[Literal["same", "doubtful"], str | None] | None:
    """("same", None), ("doubtful", the reason, one of REASONS), or None where nothing speaks for one paper."""
    if pair.titles == "series":
        return ("doubtful", SERIES) if pair.identifiers or pair.texts == "agree" else None
    if pair.identifiers:
        return _by_identifier(pair)
    if pair.texts == "agree":
        return _by_text(pair)
    if pair.titles == "equal" and pair.specific:
        return _by_title(pair)
    return None


def _by_identifier(pair: Compared) -> tuple[Literal["same", "doubtful"], str | None]:
    """The verdict on two records that share an identifier: the title or the text must bear it out."""
    if pair.texts == "agree":
        return "same", None
    if pair.titles in ("equal", "close"):
        against = pair.texts == "differ" and (pair.authors == "differ" or not pair.specific)
        return ("doubtful", OTHER_PAPER) if against else ("same", None)
    if pair.titles == "other" or pair.texts == "differ":
        return "doubtful", OTHER_PAPER
    return ("doubtful", OTHER_AUTHORS) if pair.authors == "differ" else ("same", None)


def _by_text(pair: Compared) -> tuple[Literal["same", "doubtful"], str | None]:
    """The verdict on two records that share much text and no identifier: title or authors must bear it out, or nearly
    all the text.
    """
    if pair.titles in ("equal", "close"):
        return ("same", None) if pair.authors != "differ" or pair.very_alike else ("doubtful", OTHER_AUTHORS)
    if pair.authors == "differ":
        return "doubtful", OTHER_AUTHORS
    return ("same", None) if pair.authors == "agree" or pair.very_alike else ("doubtful", UNSURE_TEXT)


def _by_title(pair: Compared) -> tuple[Literal["same", "doubtful"], str | None] | None:
    """The verdict on two records of one title, whose texts are not alike or not known."""
    if pair.texts == "differ":
        return ("doubtful", OTHER_TEXT) if pair.authors == "agree" else None
    if pair.authors == "differ":
        return ("doubtful", OTHER_AUTHORS) if pair.texts == "between" else None
    if pair.texts == "between":
        return ("same", None) if pair.authors == "agree" else ("doubtful", UNSURE_TITLE)
    near = pair.years_apart is not None and pair.years_apart <= MOST_YEARS
    if pair.authors == "agree":
        return ("same", None) if near or pair.years_apart is None else ("doubtful", UNSURE_TITLE)
    return (
        ("same", None)
        if near and pair.years_apart is not None and pair.years_apart <= 1
        else ("doubtful", UNSURE_TITLE)
    )
