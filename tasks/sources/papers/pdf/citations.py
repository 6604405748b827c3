"""Entries of a bibliography and the citations that name them, as printed:

    "[12] C. Moss. Kites. 2014. doi:10.1000/kites."    cited as "[3, 12]", "[10-12]"
    "Moss, C. and Reed, E. (2014a). Kites."            cited as "(Moss and Reed, 2014a)", "Moss and Reed (2014a)"

A citation has an entry only if exactly one has its label, or its year and its first author's last name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from longform.artifacts.rows import Row
from tasks.sources.paper_body import Cite

MAX_RANGE = 30

_LABEL = re.compile(r"\[(?P<a>[\w+-]{1,12})\]|\(?(?P<b>\d{1,3})[.)]\s|(?P<c>\d{1,3})\s+(?=[A-Z])")
_YEAR = re.compile(r"(?<![\d.:/-])((?:19|20)\d\d)([a-z])?(?![\d/])")
_DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"<>]+[^\s\"<>.,;)\]]", re.IGNORECASE)
_ARXIV = re.compile(r"arxiv[:.\s/]*(?:abs/)?(\d{4}\.\d{4,5})", re.IGNORECASE)
_SURNAME = r"(?:(?:van|von|de|der|den|del|la|le|da|di) )*[A-ZÀ-ÞŁŚŽČŠ][\w’'-]+"
_AND = r"(?:,? (?:and|&) |, )"
_WHO = rf"(?P<name>{_SURNAME})(?:{_AND}{_SURNAME}){{0,3}}(?:,? et al\.?,?)?(?:’s|'s)?"
_YEARS = r"(?P<years>(?:19|20)\d\d[a-z]?(?:, ?(?:(?:19|20)\d\d[a-z]?|[a-z]\b))*)"
_OUTSIDE = re.compile(rf"{_WHO} ?[(\[]{_YEARS}(?=[)\],;:])[)\]]?")
_INSIDE = re.compile(rf"{_WHO},? {_YEARS}")
_PARENTHESES = re.compile(r"\([^()]{0,600}(?:19|20)\d\d[^()]{0,400}\)|\[[^\[\]]{4,600}(?:19|20)\d\d[^\[\]]{0,400}\]")
_NUMERIC = re.compile(r"\[(\d{1,3}(?:\s*[,;–—-]\s*\d{1,3})*)(?:, [^\]\d][^\]]{0,30})?\]")
_PIECE = re.compile(r"(\d{1,3})(?:\s*[–—-]\s*(\d{1,3}))?")
_KEY = re.compile(r"\[([A-Z][\w+-]{1,8}\d\d[a-z]?)\]")


def entry_of(ref_id: str, raw: str) -> Row:
    """A row of PAPERS.bibliography: the reference as printed, with its year and DOI where they are printed (arXiv's own
    DOI for its numbers); title, authors and venue are not read.
    """
    doi, arxiv, years = _DOI.search(raw), _ARXIV.search(raw), _years_of(raw)
    own = doi[0].lower() if doi else f"10.48550/arxiv.{arxiv[1]}" if arxiv else None
    year = int(years[0][:4]) if years else None
    empty: Row = {"paper_id": None, "title": None, "authors": [], "year": year, "venue": None, "doi": own}
    return {"ref_id": ref_id, **empty, "raw": raw}


def _years_of(raw: str) -> list[str]:
    """The years printed in a reference with their letters: first one in parentheses or with a letter, else the last
    that stands alone, but not in a DOI or address.
    """
    text = re.sub(r"https?://\S+|10\.\d{4,9}/\S+|arxiv[:\s]\S+", " ", raw, flags=re.IGNORECASE)
    found = [(match[0], match.start()) for match in _YEAR.finditer(text)]
    marked = [year for year, at in found if len(year) == 5 or text[at - 1 : at] == "("]
    plain = [year for year, at in found if text[at - 2 : at] in (". ", ", ", "; ")]
    return marked or plain or [year for year, _ in found]


class Bibliography:
    """Finds the citations in texts and the entries that they name. `rows`: of PAPERS.bibliography."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.labels, self.names = defaultdict[str, list[str]](list), defaultdict[tuple[str, str], list[str]](list)
        for row in rows:
            label = _LABEL.match(row["raw"])
            if label:
                self.labels[label["a"] or label["b"] or label["c"]].append(row["ref_id"])
            rest = row["raw"][label.end() :] if label else row["raw"]
            for year in dict.fromkeys(_with_bare(_years_of(rest))):
                self._add(rest, year, row["ref_id"])

    def _add(self, raw: str, year: str, ref_id: str) -> None:
        """Keep the entry under each word that may be its first author's last name, with the year."""
        for name in _first_names(raw):
            self.names[name, year].append(ref_id)

    def citations(self, text: str) -> list[Cite]:
        """The citations in a text, in order, without overlaps: (start, end, ref_id or None)."""
        found, end = list[Cite](), 0
        for cite in sorted([*self._numeric(text), *self._named(text)], key=lambda cite: (cite[0], -cite[1])):
            if cite[0] >= end:
                found.append(cite)
                end = cite[1]
        return found

    def _numeric(self, text: str) -> Iterator[Cite]:
        """The citations by label: each number of [3, 12], each end of the range [10-12], [Mos14]; only if the
        bibliography has labels, or, for one that is not there, none.
        """
        if not self.labels:
            return
        for match in _NUMERIC.finditer(text):
            for piece in _PIECE.finditer(text, match.start(1), match.end(1)):
                yield from self._of_piece(piece)
        for match in _KEY.finditer(text):
            yield match.start(1), match.end(1), _only(self.labels.get(match[1], []))

    def _of_piece(self, piece: re.Match[str]) -> Iterator[Cite]:
        """The citations of 7, or of the two ends of 7-9."""
        for group in (1, 2):
            if piece[group]:
                yield piece.start(group), piece.end(group), _only(self.labels.get(piece[group], []))

    def _named(self, text: str) -> Iterator[Cite]:
        """The citations by name and year; of several years after a name, each from the second on is its year alone."""
        for match in _OUTSIDE.finditer(text):
            yield from self._of_years(match, match.end())
        for part in _PARENTHESES.finditer(text):
            for match in _INSIDE.finditer(text, part.start(), part.end()):
                yield from self._of_years(match, match.end())

    def _of_years(self, match: re.Match[str], end: int) -> Iterator[Cite]:
        """The citations of a name with its years: the first from the name on, others their years."""
        name, bare, start = _fold(match["name"].split()[-1]), "", match.start()
        found = re.finditer(r"((?:19|20)\d\d)?([a-z])?(?:(?=\W)|$)", match["years"])
        pieces = [piece for piece in found if piece[0]]
        for piece in pieces:
            bare = piece[1] or bare
            stop = match.start("years") + piece.end()
            known = self.names.get((name, f"{bare}{piece[2] or ''}"), [])
            yield (start, end if len(pieces) == 1 else stop, _only(known))
            start = stop + 1


def _with_bare(years: Sequence[str]) -> Iterator[str]:
    """The first year as printed and without its letter."""
    if years:
        yield years[0]
        yield years[0][:4]


def _first_names(raw: str) -> set[str]:
    """Words of the first author that may be the last name, folded: "Moss, C." and "C. Moss" both give moss."""
    first = re.split(r",| and | & |;|\.\s+(?=[A-Z][a-z]{3,} [a-z])|\(|et al", raw, maxsplit=1)[0]
    return {_fold(word) for word in re.findall(r"[^\W\d_][\w’'-]+", first)}


def _fold(name: str) -> str:
    """The name casefolded, without possessive."""
    return re.sub(r"[’']s$", "", name).casefold()


def _only(found: Sequence[str]) -> str | None:
    """The one id in the list; None if there are none or several."""
    return found[0] if len(set(found)) == 1 else None
