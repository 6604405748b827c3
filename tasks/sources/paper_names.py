"""Names of papers as people and sources write them, and the one form of each that an id has.

    doi/10.1000/xyz123        https://doi.org/10.1000/XYZ123, doi:10.1000/xyz123. , <https://doi.org/10.1000/xyz123>
    arxiv/2101.00001          arXiv:2101.00001v2 [cs.CL], https://arxiv.org/pdf/2101.00001.pdf,
                              10.48550/arXiv.2101.00001
    arxiv/cs/0101001          arXiv:cs.CL/0101001: the class of an old id says nothing that its number does not
    acl/P19-1001              p19-1001, https://aclanthology.org/P19-1001.pdf
    acl/2020.acl-main.1       also in its DOI, 10.18653/v1/2020.acl-main.1

In a text that is no address a DOI may hold any sign; of an address what follows ? or # is no part of it.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import unquote, urlsplit

_DOI_NAME = re.compile(
    r"(?:(?:info:|urn:)?doi[:\s/]\s?|(?:https?://)?(?:www\.|dx\.)?doi\.org/)*(10\.[0-9]{4,9}/\S{1,300})", re.IGNORECASE
)
_DOI_ADDRESS = re.compile(r"(?:https?://)?(?:www\.|dx\.)?doi\.org/", re.IGNORECASE)
_DOI_IN_PATH = re.compile(r"/(10\.[0-9]{4,9}/[^?#\s]{1,300})")
_DOI_IN_QUERY = re.compile(r"(?:^|&)(?:id|doi)=(10\.[0-9]{4,9}/[^&#\s]{1,300})", re.IGNORECASE)
_AFTER_DOI = re.compile(
    r"(?:/(?:abstract|full(?:text)?|figures/\d+|tables/\d+|epdf|pdf(?:direct)?|html|summary|meta|references|citations?"
    r"|download))*"
    r"(?:\.(?:full|abstract))?(?:\.(?:pdf|html?))?/?\Z"
)
_ARCHIVES = (
    "acc-phys|adap-org|alg-geom|ao-sci|astro-ph|atom-ph|bayes-an|chao-dyn|chem-ph|cmp-lg|comp-gas|cond-mat|cs|dg-ga"
    "|funct-an|gr-qc|hep-(?:ex|lat|ph|th)|math|math-ph|mtrl-th|nlin|nucl-(?:ex|th)|patt-sol|physics|plasm-ph|q-alg|q-bio"
    "|quant-ph|solv-int|supr-con"
)
_ARXIV = rf"[0-9]{{2}}(?:0[1-9]|1[0-2])\.[0-9]{{4,5}}|(?:{_ARCHIVES})(?:\.[a-z]{{2}})?/[0-9]{{7}}"
_ARXIV_NAME = re.compile(
    rf"(?:arxiv[:\s/]\s?|(?:https?://)?(?:[a-z0-9-]+\.)*arxiv\.org/(?:abs|pdf|html|format|e-print|ps)/)?"
    rf"({_ARXIV})(?:v[0-9]+)?(?:\.pdf)?/?(?:\s*\[[\w.-]+\])?",
    re.IGNORECASE,
)
_ARXIV_ID = re.compile(r"(?:arxiv:)?([a-z-]+)?(?:\.[a-z]{2})?(/?[0-9.]+)(?:v[0-9]+)?", re.IGNORECASE)
_ARXIV_DOI = re.compile(r"10\.48550/(?:arxiv\.)?(.+)", re.IGNORECASE)
_ACL_DOI = re.compile(r"10\.(?:18653|3115)/v1/(.+)", re.IGNORECASE)
_ACL = re.compile(r"([A-Z][0-9]{2}-[0-9]{4,5})|([0-9]{4}\.[a-z0-9_]+-[a-z0-9_]+\.[0-9]+)", re.IGNORECASE)
_STOPS = (".", ",", ";", ":", "/", '"', "'")
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}


def paper_named(text: str) -> str | None:
    """doi/…, arxiv/… or acl/… in its one form, for a DOI, an arXiv id or an ACL Anthology id as it is written, and for
    addresses at doi.org and arxiv.org; None for any other text. What arXiv has a DOI for is arxiv/<id>.
    """
    name = " ".join(text.split()).strip("<>\"'").rstrip(".,;")
    if match := _ARXIV_NAME.fullmatch(re.sub(r"[?#].*", "", name)):
        return canonical(f"arxiv/{match[1]}")
    if _ACL.fullmatch(name):
        return canonical(f"acl/{name}")
    if _DOI_ADDRESS.match(name):
        name = unquote(re.sub(r"[?#].*", "", name))
    match = _DOI_NAME.fullmatch(name)
    if match is None:
        return None
    doi = canonical(f"doi/{match[1]}")
    return next((other for other in in_doi(doi) if other.startswith("arxiv/")), doi)


def canonical(record: str) -> str:
    """The one form of an id doi/…, arxiv/…, acl/… or author/…; any other id as it is."""
    group, _, rest = record.partition("/")
    if group == "doi":
        match = _DOI_NAME.fullmatch(rest)
        return f"doi/{_without_end((match[1] if match else rest).lower())}"
    if group == "arxiv" and (match := _ARXIV_ID.fullmatch(rest)):
        return f"arxiv/{(match[1] or '').lower()}{match[2]}"
    if group == "acl" and (match := _ACL.fullmatch(rest)):
        return f"acl/{match[1].upper() if match[1] else match[2].lower()}"
    if group == "author":
        return f"author/{' '.join(unicodedata.normalize('NFC', rest).lower().split())}"
    return record


def in_doi(record: str) -> list[str]:
    """The ids of arXiv and the ACL Anthology that a DOI (doi/…) holds; [] for other DOIs and other ids."""
    doi = record.removeprefix("doi/") if record.startswith("doi/") else ""
    if match := _ARXIV_DOI.fullmatch(doi):
        return [canonical(f"arxiv/{match[1]}")]
    match = _ACL_DOI.fullmatch(doi)
    return [canonical(f"acl/{match[1]}")] if match and _ACL.fullmatch(match[1]) else []


def papers_in_address(url: str) -> list[str]:
    """The ids of the paper that a page shows, as its address tells: of any site with an arXiv id behind arxiv.org/abs
    and the like, or with a DOI in its path or its query; [] if it tells none.
    """
    if match := _ARXIV_NAME.fullmatch(re.sub(r"[?#].*", "", url.strip())):
        return [canonical(f"arxiv/{match[1]}")]
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return []
    match = _DOI_IN_PATH.search(unquote(parts.path)) or _DOI_IN_QUERY.search(unquote(parts.query))
    if match is None:
        return []
    doi = canonical(f"doi/{_AFTER_DOI.sub('', match[1])}")
    return [doi, *in_doi(doi)]


def _without_end(doi: str) -> str:
    """A DOI without the punctuation behind it: a full stop, a slash, a bracket that was not opened in it."""
    while (doi[-1:] in _BRACKETS and doi.count(doi[-1]) > doi.count(_BRACKETS[doi[-1]])) or doi.endswith(_STOPS):
        doi = doi[:-1]
    return doi
