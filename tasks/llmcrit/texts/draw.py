"""The texts on which feedback is given: sections of papers, files of code, posts, or texts of one's own; and the draw.

Of each task some texts become demonstrations, others are test texts, half of which are modified (LLMCrit, section 4).
Which text is what depends on the hash of its id, so that a source that grows changes few draws.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from longform.artifacts.parts import key_hash
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rejected, Row, Shard, Source, grouped
from longform.engine.stage import AllRows, AtMost, Rows, StageContext, stage
from schemas.llmcrit import CANDIDATES, DRAWN
from tasks.llmcrit.task import WritingTask
from tasks.sources.admission import REASON as TAKEN_DOWN
from tasks.sources.author_names import names_authors
from tasks.sources.files.inputs import open_files, with_distinct_names
from tasks.sources.files.json_values import text_records
from tasks.sources.paper_body import text_of_role
from tasks.sources.permalinks import ids_of_address
from tasks.sources.reddit.reddit_threads import title_tag
from tasks.text.audits.equality import bare
from tasks.text.copies.duplicates import near_duplicates
from tasks.text.copies.shingles import shingle_hashes
from tasks.text.units import lines_of_code

Tasks = dict[str, dict[str, Any]]  # task -> its settings of texts

TEXT_FIELDS = ("text", "post", "code", "introduction", "input", "content")
DEMONSTRATED = 1 << 62  # texts whose hash is below, a quarter, may become demonstrations
SPARE = 50
OWN_A_PART = 500
TWICE = "an id that comes again"
OWN = "own"  # group of texts of one's own
NEARLY = 0.8  # of the word 3-grams of two texts are shared


def settings_of(tasks: list[WritingTask], source: str) -> Tasks:
    """task -> its settings of texts, for the tasks whose texts come from this source."""
    return {task.name: task.texts.model_dump(exclude={"paths"}) for task in tasks if task.texts.source == source}


# ---------------------------------------------------------------- candidates


@stage(CANDIDATES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["papers"] * len(sizes["tasks"])))
def section_texts(context: StageContext, papers: Rows, *, tasks: Tasks) -> Iterator[Row | Rejected]:
    """A section of each paper, for each task of papers; a Rejected for a paper without it, or whose decision is in none
    of the task's `strata`.
    """
    for paper in papers:
        for name, of in tasks.items():
            text, stratum = text_of_role(paper, of["section"]), _stratum(paper["decision"], of["strata"])
            if text and stratum is not None:
                authors = paper["authors"] if names_authors(paper["licence"]) else []
                yield {**_candidate(name, paper["paper_id"], text, paper), "stratum": stratum, "authors": authors}
            else:
                reason = "no such decision" if stratum is None else f"no section of the role {of['section']}"
                yield Rejected(paper["paper_id"], "filtered", reason, detail=name)


def _stratum(decision: str | None, strata: list[list[str]]) -> str | None:
    """The stratum of a decision, named after its first decision; "" where there are no strata, None for another
    decision.
    """
    return next((group[0] for group in strata if decision in group), None) if strata else ""


@stage(CANDIDATES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["commits"] * len(sizes["tasks"])))
def code_texts(context: StageContext, commits: Rows, *, tasks: Tasks) -> Iterator[Row | Rejected]:
    """The file after each commit, for each task of commits; a Rejected for one of another language or with too few
    lines of code.
    """
    for commit in commits:
        for name, of in tasks.items():
            text = commit["new_contents"].strip("\n")
            if commit["language"].casefold() != of["language"].casefold():
                yield Rejected(commit["commit_id"], "filtered", "another language", detail=name)
            elif lines_of_code(text) < of["least_lines"]:
                yield Rejected(commit["commit_id"], "filtered", "too few lines of code", detail=name)
            else:
                yield _candidate(name, commit["commit_id"], text, commit)


@stage(CANDIDATES, revision=1, at_most=AtMost(rows=lambda sizes: sizes["items"] * len(sizes["tasks"])))
def post_texts(context: StageContext, items: Rows, *, tasks: Tasks) -> Iterator[Row | Rejected]:
    """Each submission, title and text, for each task of posts; a Rejected for a comment, and for a submission of
    another subreddit, without one of the tags, or of a bot or moderator.
    """
    for item in items:
        for name, of in tasks.items():
            if reason := _no_post(item, of):
                yield Rejected(item["post_id"], "filtered", reason, detail=name)
            else:
                text = "\n\n".join(filter(None, [f"Title: {item['title'].strip()}", item["text"].strip()]))
                yield _candidate(name, item["post_id"], text, item) | {"popularity": item["votes"] or 0}


def _no_post(item: Row, of: Mapping[str, Any]) -> str | None:
    """Why an item is no post of a task with these settings; None if it is one."""
    if item["kind"] != "submission" or not item["title"]:
        return "a comment"
    if of["subreddits"] and item["community"] not in map(str.lower, of["subreddits"]):
        return "another subreddit"
    if of["tags"] and (title_tag(item["title"])[0] or "") not in [tag.upper() for tag in of["tags"]]:
        return "no such tag"
    return "a bot's or moderator's" if item["bot"] or item["distinguished"] or item["stickied"] else None


def open_texts(
    named: Iterable[tuple[str, list[Path]]], digest: Callable[[Path], str], *, licence: str | None = None
) -> list[Source]:
    """Files of one's own texts as sources: (group, paths) of each task. JSON lines hold a text each, other files are
    one text, whose id is the file's name, with those of folders where several have it.
    """
    facts = (("licence", licence),)
    ending = (".jsonl", ".json", ".md", ".txt", ".py", ".rst", ".tex")
    return [
        source
        for group, paths in named
        for source in with_distinct_names(open_files(paths, group=group, endings=ending, digest=digest, facts=facts))
    ]


@stage(CANDIDATES, revision=1, max_rows_per_part=OWN_A_PART)
def own_texts(context: StageContext, files: Shard, *, takedowns: Collection[str] = ()) -> Iterator[Row | Rejected]:
    """The texts of a file: each line of JSON lines, as an object with a text in one of TEXT_FIELDS and perhaps id,
    licence, url, stratum and authors; any other file is one text. A Rejected for a line without a text, and for an id
    that comes again.
    """
    facts, seen = dict(files.source.facts), set[str]()
    for place, key, record, raw in text_records(files):
        text = next((record[field] for field in TEXT_FIELDS if isinstance(record.get(field), str)), "")
        key = key or fingerprint(text)
        url = record.get("url")
        if takedowns and {f"{OWN}/{key}", *(ids_of_address(url) if isinstance(url, str) else [])} & {*takedowns}:
            yield Rejected(place, "filtered", TAKEN_DOWN)
        elif "\ufffd" in text or "\0" in text:
            yield Rejected(place, "defect", "no text in UTF-8")
        elif text.strip() and key not in seen:
            seen.add(key)
            yield _own(files.source.group, key, {**record, "text": text}, facts)
        else:
            reason = TWICE if text.strip() else f"no text under {', '.join(TEXT_FIELDS)}"
            yield Rejected(place, "defect", reason, raw=raw[:2_000])


def _own(task: str, key: str, record: Row, facts: Mapping[str, str | None]) -> Row:
    """The row of CANDIDATES of a text of one's own."""
    names = record.get("authors")
    found = _candidate(task, f"{OWN}/{key}", record["text"].strip("\n"), {})
    said = {name: record.get(name) if isinstance(record.get(name), str) else None for name in ("licence", "url")}
    found |= {"licence": said["licence"] or facts.get("licence"), "url": said["url"]}
    found |= {"authors": [str(name) for name in names] if isinstance(names, list) else []}
    return found | {"stratum": str(record.get("stratum") or "")}


def _candidate(task: str, source_id: str, text: str, record: Row) -> Row:
    """A row of CANDIDATES; licence, address and date are those of the record."""
    return {
        "text_id": f"{task}/{source_id}",
        "task": task,
        "text": text,
        "stratum": "",
        "popularity": None,
        "source_id": source_id,
        "licence": record.get("licence"),
        "url": record.get("url"),
        "authors": [],
        "retrieved_at": record.get("retrieved_at"),
    }


# ---------------------------------------------------------------- the draw


def rank(seed: int, text_id: str) -> int:
    """The place of a text in the order of a draw: 64 bits."""
    return key_hash(f"{seed}\x1f{text_id}")


@stage(DRAWN, revision=1, at_most=AtMost(rows=lambda of: of["papers"] + of["commits"] + of["posts"] + of["own"]))
def draw_texts(
    context: StageContext,
    papers: AllRows,
    commits: AllRows,
    posts: AllRows,
    own: AllRows,
    released: AllRows,
    *,
    texts: int,
    demonstrations: dict[str, int],
    popular: dict[str, int | None],
    characters: int,
    seed: int,
) -> Iterator[Row | Rejected]:
    """At most `texts` test texts of each task, in equal numbers of each stratum, every other one to be modified; and
    those that may become demonstrations. A Rejected for each other candidate.

    `demonstrations`: task -> texts that are needed for these at least; at most half of the candidates are kept for
    them. `popular`: task -> so many candidates with most votes are drawn from; None: all. Left out are texts of more
    than `characters` characters, equal to another, and test texts that are nearly one of a demonstration, of those in
    `released` or one that is kept for them.
    """
    tables = [papers, commits, posts, own]
    reasons, pools = _sifted(tables, characters)
    shown = grouped(released.as_dicts("demonstration_id", "task", "input"), "task")
    uses: dict[str, tuple[str, bool]] = {}
    for task, pool in pools.items():
        chosen = _most_popular(pool, popular.get(task))
        reasons.update({row["text_id"]: "fewer votes" for row in pool if row["text_id"] not in chosen})
        ranked = sorted((row for row in pool if row["text_id"] in chosen), key=lambda row: rank(seed, row["text_id"]))
        kept = _kept_for_demonstrations(ranked, demonstrations.get(task, 0), seed)
        uses.update(dict.fromkeys(kept, ("demonstration", False)))
        strata = grouped((row for row in ranked if row["text_id"] not in kept), "stratum")
        others = [row for name in sorted(strata) for row in strata[name][: texts + SPARE]]
        given = {row["demonstration_id"]: row["input"] for row in shown[task]}
        near = _nearly(tables, kept, [row["text_id"] for row in others], given)
        reasons.update(dict.fromkeys(near, "nearly the text of a demonstration"))
        uses.update(_test([row for row in others if row["text_id"] not in near], texts, seed))
    for row in chain.from_iterable(tables):
        name = row["text_id"]
        if found := uses.pop(name, None):
            use, modified = found
            reasons[name] = TWICE
            yield {**row, "use": use, "modified": modified}
        else:
            yield Rejected(name, "filtered", reasons.get(name, "not drawn"))


def _sifted(tables: Iterable[Rows], characters: int) -> tuple[dict[str, str], dict[str, list[Row]]]:
    """(text id -> why it is left out; task -> the other candidates, without their texts)."""
    reasons: dict[str, str] = {}
    pools: defaultdict[str, list[Row]] = defaultdict(list)
    seen, ids = set[tuple[str, int]](), set[str]()
    for row in chain.from_iterable(
        rows.as_dicts("text_id", "task", "text", "stratum", "popularity") for rows in tables
    ):
        text = row.pop("text")
        same = (row["task"], key_hash(bare(text) or text))
        if row["text_id"] in ids:
            reasons.setdefault(row["text_id"], TWICE)
        elif len(text) > characters:
            reasons[row["text_id"]] = "longer than the most characters"
        elif same in seen:
            reasons[row["text_id"]] = "the text of another"
        else:
            seen.add(same)
            pools[row["task"]].append(row)
        ids.add(row["text_id"])
    return reasons, pools


def _most_popular(pool: list[Row], number: int | None) -> set[str]:
    """The ids of the `number` texts with most votes, ties by id; of all texts for None."""
    of = len(pool) if number is None else number
    best = heapq.nsmallest(of, pool, key=lambda row: (-(row["popularity"] or 0), row["text_id"]))
    return {row["text_id"] for row in best}


def _kept_for_demonstrations(ranked: list[Row], least: int, seed: int) -> list[str]:
    """The ids of the texts that may become demonstrations: those with a low hash, at least `least`, at most half; none
    if none is needed.
    """
    low = sum(rank(seed, row["text_id"]) < DEMONSTRATED for row in ranked)
    return [row["text_id"] for row in ranked[: min(max(low, least), len(ranked) // 2)]] if least else []


def _nearly(tables: Iterable[Rows], kept: list[str], others: list[str], given: dict[str, str]) -> set[str]:
    """Those of `others` whose text is nearly that of one of `kept`, or one of `given`: id -> text of demonstrations."""
    wanted = dict.fromkeys([*kept, *others])
    texts = {
        row["text_id"]: row["text"]
        for rows in tables
        for row in rows.as_dicts("text_id", "text")
        if row["text_id"] in wanted
    }
    texts |= given
    names = [name for name in (*given, *wanted) if name in texts]
    first = {*kept, *given}
    pairs = near_duplicates([shingle_hashes(texts[name]) for name in names], NEARLY)
    crossing = ((names[one], names[other]) for one, other in pairs)
    return {name for pair in crossing if len(first & {*pair}) == 1 for name in pair if name not in first}


def _test(ranked: list[Row], number: int, seed: int) -> dict[str, tuple[str, bool]]:
    """text id -> (test, whether it is to be modified) of the texts that are drawn: the first of each stratum in turn.
    Half of them, and of each stratum, are to be modified: those that come first by another hash.
    """
    strata = grouped(ranked, "stratum")
    in_turn = (row for rows in zip_longest(*(strata[name] for name in sorted(strata))) for row in rows if row)
    drawn = [row for row, _ in zip(in_turn, range(number), strict=False)]
    found: dict[str, tuple[str, bool]] = {}
    for _, own in sorted(grouped(drawn, "stratum").items()):
        half = (len(found) + len(own)) // 2 - len(found) // 2  # odd strata are rounded down and up in turn
        own.sort(key=lambda row: key_hash(f"{seed}\x1fmodified\x1f{row['text_id']}"))
        found.update({row["text_id"]: ("test", place < half) for place, row in enumerate(own)})
    return found
