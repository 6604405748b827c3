"""Papers and their paragraphs as records of questions name them: by title, by id, by number, in any of these forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Row
from tasks.sources.files.spellings import EMPTY, first_text

PARAGRAPHS = ("cited_paragraphs", "evidence_paragraphs", "paragraphs")
TITLE, IDS = ("title", "paper_title", "name"), ("corpus_id", "corpusid", "corpusId", "s2_id")
TITLES = "title"  # group of the ids that are made of titles
TEXT = ("text", "paragraph", "passage", "content")


def papers_named(value: Any) -> list[Row]:
    """The papers that a record lists, each once, with paper_id and title, "" where the record has none. A number alone
    is a corpus id, another text a title.
    """
    found = {}
    for each in value if isinstance(value, list) else value.items() if isinstance(value, dict) else []:
        if isinstance(each, tuple):  # id -> title, or id -> object
            each = {"paper_id": each[0], **(each[1] if isinstance(each[1], dict) else {"title": each[1]})}
        record = each if isinstance(each, dict) else {"title": each}
        if _is_number(each):
            record = {"corpus_id": each}
        title = first_text(record, TITLE) or ""
        if title or paper_id_of(record):
            found[title.casefold() or paper_id_of(record)] = {"paper_id": paper_id_of(record), "title": title}
    return list(found.values())


def paper_id_of(record: Mapping[str, Any]) -> str:
    """The paper_id that a record names, s2/<number> for a corpus id; "" if it names none."""
    found = (record[name] for name in (*IDS, "paper_id") if record.get(name))
    own = next((each.strip() if isinstance(each, str) else each for each in found), "")
    return f"s2/{own}" if _is_number(own) else own if isinstance(own, str) else ""


def _is_number(value: Any) -> bool:
    """Whether a value is a number, as a corpus id is, or the digits of one."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and value.isdecimal())


def paragraphs_named(value: Any, papers: list[Row]) -> list[Row]:
    """(paper, text) of each paragraph that a record brings. `papers`: as `papers_named` reads them."""
    titles = {paper["title"].casefold(): place for place, paper in reversed([*enumerate(papers)])}
    ids = {paper["paper_id"]: place for place, paper in enumerate(papers) if paper["paper_id"]}
    found: list[Row] = []
    for place, each in enumerate(value if isinstance(value, list) else []):
        record = each if isinstance(each, dict) else {}
        title = (first_text(record, TITLE) or "").casefold()
        paper = ids.get(paper_id_of(record), titles.get(title, place if not record and place < len(papers) else None))
        inner = next((record[name] for name in PARAGRAPHS if isinstance(record.get(name), list)), None)
        texts = each if isinstance(each, list) else inner if inner is not None else [record or each]
        for text in texts:
            words = first_text(text, TEXT) if isinstance(text, dict) else text
            if paper is not None and isinstance(words, str) and words.strip():
                found.append({"paper": paper, "text": words.strip()})
    return found


def imported_id(paper: Row) -> str:
    """The id of a paper that only an imported file knows: its own, else one made of its title."""
    return str(paper["paper_id"]) or title_id(paper["title"])


def title_id(title: str) -> str:
    """The id of a paper of which only the title is known: title/<hash>."""
    return f"{TITLES}/{fingerprint(title.casefold())[:16]}"


def names_of_paper(paper_id: str | None, title: str | None) -> set[str]:
    """The ids by which a takedown may mean a paper: its own, and that of its title."""
    return {each for each in (paper_id, title_id(title) if title else None) if each}


def taken_down_papers(asked: Iterable[Row], takedowns: Collection[str]) -> set[str]:
    """The takedowns, and the title ids of the listed papers that questions (rows with `evidence`) name by id."""
    evidence = (paper for row in asked for paper in row["evidence"]) if takedowns else ()
    named = [names_of_paper(paper["paper_id"], paper["title"]) for paper in evidence]
    return {*takedowns}.union(*(names for names in named if names & {*takedowns}))


def passages_named(value: Any) -> list[Row] | None:
    """The passages of a record, with passage_id, title and text: texts, or objects with a title and a text. None if
    there are none.
    """
    found = []
    for each in value if isinstance(value, list) else []:
        record = each if isinstance(each, dict) else {"text": each}
        if words := first_text(record, TEXT):
            name = record.get("passage_id")
            kept = {"passage_id": name if isinstance(name, str) else None, "title": first_text(record, TITLE) or ""}
            found.append({**kept, "text": words})
    return found or None


def are_held_whole(value: Any) -> bool:
    """Whether nothing is lost when passages are read: each is a text, or has a text and at most a title and an id."""
    for each in value:
        record = each if isinstance(each, dict) else {"text" if isinstance(each, str) else "": each}
        names = {name for name, item in record.items() if item not in EMPTY}
        known = names & {*TEXT}, names & {*TITLE}, names & {"passage_id"}
        if any(len(of) > 1 for of in known) or not known[0] or sum(map(len, known)) < len(names):
            return False
    return True
