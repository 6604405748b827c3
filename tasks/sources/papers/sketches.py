"""What a paper is recognised by in another source: identifiers, words of its title, surnames, sketches of its texts.

A sketch is the SKETCH_SIZE smallest hashes of a text's word triples (bottom-k sketch, Broder 1997): whole for a short
text, a sample for a long one, chosen alike in all texts, so that two sketches tell how much two texts share.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longform.artifacts.rows import Row, Rows
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import SKETCHES
from tasks.text.copies.shingles import shingle_hashes

SKETCH_SIZE = 256
LEAST_TRIPLES = 20  # of a text that says anything about what paper it is of
MOST_TIMES_LONGER = 4  # a text so many times longer holds the other (a thesis, a volume), and is no version of it
PAPERS_AT_ONCE = 200

WORD = re.compile(r"[^\W\d_]+|\d+")
_ARXIV_DOI, _ACL_DOI = "10.48550/arxiv.", re.compile(r"10\.(?:18653|3115)/v1/")
_ARXIV_ID = re.compile(r"^(?:arxiv:)?(.*?)(?:v\d+)?$", re.IGNORECASE)
_SUFFIXES = {"jr", "sr", "ii", "iii", "iv", "phd", "md"}
_NOBODY = {"anonymous", "author", "authors", "anon", "anonym", "anonymised", "anonymized"}
TEXTS = ("title", "authors", "year", "doi", "arxiv_id", "acl_id", "corpus_id", "pdf_sha", "abstract", "text")

Hashes = NDArray[np.uint64]


def folded(text: str) -> str:
    """The text in lower case, without accents, ligatures and width variants."""
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def title_words(title: str | None) -> list[str]:
    """The words of a title, folded, in order; digits are words of their own: WMT19 is wmt, 19. [] without a title."""
    return WORD.findall(folded(title or ""))


def surnames(authors: Sequence[str]) -> list[str]:
    """The surnames of authors given as "Jane van Doe", "Doe, Jane" or "Doe", folded, each once, sorted.

    The last word without a suffix (Jr, III), or what stands before a comma, of that the last word. An author who is
    only said to be anonymous is left out.
    """
    found = set()
    for author in authors:
        before, comma, _ = folded(author).partition(",")
        words = [word for word in re.findall(r"[^\W\d_]+", before) if word not in _SUFFIXES or comma]
        if words and not _NOBODY & set(words):
            found.add(words[-1])
    return sorted(found)


def sketch(text: str | None) -> tuple[int, Hashes]:
    """(number of different word triples of the text, the SKETCH_SIZE smallest of their hashes, sorted).

    (0, none) for a text without words, or None.
    """
    hashes = shingle_hashes(text) if text else np.empty(0, np.uint64)
    return int(hashes.size), hashes[:SKETCH_SIZE]


@dataclass(frozen=True, slots=True)
class Sketch:
    """A sketch of a text: the number of different triples, and the smallest of their hashes, sorted."""

    size: int
    hashes: Hashes

    def share(self, other: Sketch) -> float | None:
        """The share of the smaller text's triples that the larger one has, from 0 to 1; of texts whose sizes differ
        more than MOST_TIMES_LONGER times the Jaccard similarity. None if one has fewer than LEAST_TRIPLES.
        """
        small, large = sorted((self.size, other.size))
        if small < LEAST_TRIPLES:
            return None
        both = np.union1d(self.hashes, other.hashes)
        if small > SKETCH_SIZE or large > SKETCH_SIZE:
            both = both[:SKETCH_SIZE]
        shared = np.intersect1d(self.hashes, other.hashes, assume_unique=True)
        jaccard = float(np.isin(both, shared, assume_unique=True).mean())
        if large > MOST_TIMES_LONGER * small:
            return jaccard
        return min(1.0, jaccard * (small + large) / (1 + jaccard) / small)


def sketch_of(paper: Mapping[str, Any]) -> Row:
    """The row of SKETCHES for a row of PAPERS, METADATA or SUBMISSIONS; columns that it lacks count as null."""
    doi = (paper.get("doi") or "").strip().lower() or None
    abstract_size, abstract = sketch(paper.get("abstract"))
    text_size, text = sketch(paper.get("text"))
    return {
        "paper_id": paper.get("paper_id") or paper["submission_id"],
        "words": title_words(paper.get("title")),
        "surnames": surnames(paper.get("authors") or []),
        "year": paper.get("year"),
        "doi": doi,
        "arxiv_id": _arxiv(paper.get("arxiv_id"), doi),
        "acl_id": _acl(paper.get("acl_id"), doi),
        "corpus_id": paper.get("corpus_id"),
        "pdf_sha": (paper.get("pdf_sha") or "").strip().lower() or None,
        "abstract_size": abstract_size,
        "abstract": abstract,
        "text_size": text_size,
        "text": text,
    }


def _arxiv(arxiv_id: str | None, doi: str | None) -> str | None:
    """The arXiv id in lower case without version, else the one in an arXiv DOI, else None."""
    own = arxiv_id or (doi.removeprefix(_ARXIV_DOI) if doi and doi.startswith(_ARXIV_DOI) else "")
    found = _ARXIV_ID.match(own.strip().lower())
    return (found[1] if found else "") or None


def _acl(acl_id: str | None, doi: str | None) -> str | None:
    """The ACL Anthology's id in lower case, else the one in its DOI, else None."""
    found = _ACL_DOI.match(doi or "")
    return (acl_id or (doi[found.end() :] if doi and found else "")).strip().lower() or None


@stage(SKETCHES, revision=1)
def sketch_papers(context: StageContext, papers: Rows) -> Iterator[pa.RecordBatch]:
    """A row for each paper, each record of metadata or each submission, by which its other versions are found."""
    key = papers.schema.metadata[b"key"].decode()
    columns = [name for name in (key, *TEXTS) if name in papers.schema.names]
    for batch in papers.batches(columns, size=PAPERS_AT_ONCE):
        yield pa.RecordBatch.from_pylist([sketch_of(row) for row in batch.to_pylist()], schema=SKETCHES)
