"""Related-work paragraphs and the papers they cite, against a join that is written out by hand in Python."""

import random
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from expertqa_tables import filled
from expertqa_toys import rejected_of, toy_source
from toy_stages import building

from longform.artifacts.rows import Row, Rows, Shard
from longform.engine.build import Build
from longform.engine.stage import StageContext, stage
from schemas.sources.papers import DUPLICATES, METADATA, PAPERS, RELATED
from tasks.revision_distance.cases.related import find_cited
from tasks.sources.papers.related import paragraphs_of, related_paragraphs

ABSTRACT = "We study boats in harbours and say how many there are."
TEXT = "Boats were counted before, by many and in many harbours of the north and of the south."
BOUNDS = {"least_cited": 2, "least_words": 5, "most_words": 100}


def paper(name: str, **given: Any) -> Row:
    return filled(PAPERS, paper_id=f"acl/{name}", **{"title": f"Paper {name}", "abstract": ABSTRACT, **given})


def known(paper_id: str, **given: Any) -> Row:
    return filled(METADATA, paper_id=paper_id, **given)


def entry(ref_id: str, **given: Any) -> Row:
    fields = PAPERS.field("bibliography").type.value_type
    return filled([fields.field(number) for number in range(fields.num_fields)], ref_id=ref_id, **given)


def cites(number: str, *references: Row, **given: Any) -> Row:
    """A row of RELATED."""
    listed = [{name: one[name] for name in ("ref_id", "paper_id", "title", "year")} for one in references]
    row = {"related_id": f"acl/{number}#3", "paper_id": f"acl/{number}", "title": "Counting Boats Again"}
    return filled(RELATED, **{**row, "abstract": ABSTRACT, "text": TEXT, "references": listed, **given})


@stage(PAPERS, revision=1)
def make_papers(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(METADATA, revision=1)
def make_metadata(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(DUPLICATES, revision=1)
def make_duplicates(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


@stage(RELATED, revision=1)
def make_related(context: StageContext, files: Shard, *, rows: list[Row]) -> Iterator[Row]:
    yield from rows


def found_in(
    builder: Build,
    folder: Path,
    related: list[Row],
    papers: list[Row],
    metadata: list[Row],
    duplicates: list[Row] | None = None,
    **bounds: int,
) -> Rows:
    sources = [toy_source(folder)]
    tables = make_papers(builder, sources, rows=papers), make_metadata(builder, sources, rows=metadata)
    tables = *tables, make_duplicates(builder, sources, rows=duplicates or [])
    return find_cited(builder, make_related(builder, sources, rows=related), *tables, **{**BOUNDS, **bounds})


def found(
    folder: Path, related: list[Row], papers: list[Row], metadata: list[Row] | None = None, **bounds: Any
) -> tuple[dict[str, Row], dict[str, str]]:
    """related_id -> case, related_id -> why it is none."""
    with building(folder / "home") as run:
        cases = found_in(run, folder, related, papers, metadata or [], **bounds)
        reasons = {key: reason for key, (_, reason) in rejected_of(cases).items()}
        return {row["related_id"]: row for row in cases}, reasons


def links(case: Row) -> list[tuple[str, str]]:
    return [(one["paper_id"], one["by"]) for one in case["cited"]]


# ---------------------------------------------------------------- paragraphs


def test_sub_sections_belong_to_related_work_and_each_entry_comes_once_in_order() -> None:
    text = "Intro here. A (b1) and (b0). Then (b0), (b9), [?]. Method."
    spans = [(0, 11), (12, 28), (29, 50), (51, 58)]

    def mark(ref_id: str | None, at: int) -> Row:
        return {"start": at, "end": at + 4, "ref_id": ref_id}

    marks = [[], [mark("b1", 14), mark("b0", 23)], [mark("b0", 34), mark("b9", 40), mark(None, 46), mark("b0", 47)], []]
    roles = ["introduction", "related_work", "related_work", None]
    row = paper(
        "1",
        text=text,
        sections=[
            {"number": None, "head": f"Head {place}", "role": role, "start": 0, "end": 58}
            for place, role in enumerate(roles)
        ],
        paragraphs=[
            {"section": place, "start": start, "end": end, "citations": marks[place]}
            for place, (start, end) in enumerate(spans)
        ],
        bibliography=[entry("b0", title="Zero", year=2000), entry("b1", paper_id="s2/7"), entry("b2")],
    )
    first, second = paragraphs_of(row)
    assert (first["related_id"], first["head"], first["text"]) == ("acl/1#1", "Head 1", "A (b1) and (b0).")
    assert [(one["ref_id"], one["paper_id"], one["title"], one["year"]) for one in first["references"]] == [
        ("b1", "s2/7", None, None),
        ("b0", None, "Zero", 2000),
    ]
    assert second["related_id"] == "acl/1#2"
    assert [one["ref_id"] for one in second["references"]] == ["b0"]


def test_a_paper_without_related_work_says_so(tmp_path: Path) -> None:
    with building(tmp_path / "home") as run:
        rows = related_paragraphs(run, make_papers(run, [toy_source(tmp_path)], rows=[paper("1"), paper("2")]))
        assert rows.count == 0
        assert {reason for _, reason in rejected_of(rows).values()} == {"no paragraph on related work"}


# ---------------------------------------------------------------- looking papers up


def test_a_link_comes_first_then_the_title_whatever_its_case_and_its_punctuation(tmp_path: Path) -> None:
    papers = [
        paper("a", title="BOATS: A Survey of   Boats", year=2010),
        paper("b", title="Über Schiffe", year=2012),
        paper("c", title="Other Boats", corpus_id=7, year=2013),
    ]
    references = [
        entry("b0", title="No title that anybody has", paper_id="s2/7"),
        entry("b1", title="boats -- a survey of boats.", year=2011),
        entry("b2", title="ÜBER SCHIFFE", year=2012),
        entry("b3", title="Boats, a survey of boats", year=2010),
        entry("b4", title="Unknown", year=2010),
    ]
    cases, _ = found(tmp_path, [cites("x", *references)], papers)
    assert links(cases["acl/x#3"]) == [("acl/c", "link"), ("acl/a", "title"), ("acl/b", "title")]


@pytest.mark.parametrize(
    ("cited", "years", "is_found"),
    [
        (2010, [2010], True),
        (2010, [2011], True),
        (2010, [2009], True),
        (2010, [2012], False),
        (2010, [2010, 2011], False),
        (2010, [2010, 2015], True),
        (2010, [2010, None], False),
        (2010, [None], True),
        (None, [1999], True),
        (None, [1999, 2020], False),
        (2010, [], False),
    ],
)
def test_years_may_differ_by_one_and_only_one_paper_may_fit(
    tmp_path: Path, cited: int | None, years: list[int | None], is_found: bool
) -> None:
    papers = [paper(f"p{place}", title="Boats", year=year) for place, year in enumerate(years)]
    row = cites("x", entry("b0", title="Boats", year=cited), entry("b1", title="Sure", year=2000))
    cases, _ = found(tmp_path, [row], [*papers, paper("sure", title="Sure", year=2000)], least_cited=1)
    assert [one["paper_id"] for one in cases["acl/x#3"]["cited"]] == ["acl/p0"] * is_found + ["acl/sure"]


def test_records_of_one_paper_are_one_and_what_one_lacks_another_gives(tmp_path: Path) -> None:
    papers = [paper("a", title="Boats", year=2010, acl_id="a", abstract=None), paper("b", title="Sails", abstract=" ")]
    metadata = [
        known("acl/a", title="Boats", year=2010, acl_id="a", abstract="On boats."),
        known("s2/1", title="Boats", year=2011, acl_id="a", corpus_id=1, abstract="On boats, too."),
        known("s2/2", title="Sails", year=2011, corpus_id=2),
        known("acl/x", title="Counting Boats Again", abstract="Own."),
    ]
    rows = [cites("x", entry("b0", title="Boats", year=2010), entry("b1", paper_id="s2/2"), abstract=None)]
    cases, _ = found(tmp_path, rows, papers, metadata, least_cited=1)
    [boats, sails] = cases["acl/x#3"]["cited"]
    assert (boats["paper_id"], boats["abstract"]) == ("acl/a", "On boats.")
    assert (sails["paper_id"], sails["abstract"], sails["by"]) == ("s2/2", None, "link")
    assert cases["acl/x#3"]["abstract"] == "Own."


@pytest.mark.parametrize(
    ("given", "bounds", "reason"),
    [
        ({"abstract": None}, {}, "no abstract of its own"),
        ({"text": "Too short."}, {}, "text too short"),
        ({"text": TEXT * 10}, {}, "text too long"),
        ({}, {"least_cited": 3}, "too few cited papers with abstracts"),
        ({"references": []}, {}, "too few cited papers with abstracts"),
        ({"text": f"{TEXT} In counting boats again, we count."}, {}, "names its own paper"),
        ({"paper_id": "acl/a", "related_id": "acl/x#3"}, {}, "names its own paper"),
    ],
)
def test_paragraphs_that_make_no_case_say_why(
    tmp_path: Path, given: dict[str, Any], bounds: dict[str, int], reason: str
) -> None:
    papers = [paper("a", title="Boats", year=2010), paper("b", title="Sails", year=2010)]
    row = cites("x", entry("b0", title="Boats", year=2010), entry("b1", title="Sails", year=2010), **given)
    cases, reasons = found(tmp_path, [row], papers, None, **bounds)
    assert (cases, reasons) == ({}, {"acl/x#3": reason})


def test_a_case_is_the_paragraph_with_its_paper_and_without_mail_addresses(tmp_path: Path) -> None:
    papers = [paper("a", title="Boats", year=2010, abstract="Ask a@boats.test."), paper("b", title="Sails", year=2010)]
    row = cites(
        "x", entry("b0", title="Boats"), entry("b1", title="Sails"), licence="CC BY 4.0", url="https://x.example"
    )
    cases, _ = found(tmp_path, [row], papers)
    case = cases["acl/x#3"]
    assert case["case_id"] == "hard/acl/x#3"
    assert (case["task"], case["kind"], case["reference_by"]) == ("hard", "related_work", "human")
    assert (case["reference"], case["title"], case["abstract"]) == (TEXT, "Counting Boats Again", ABSTRACT)
    assert case["cited"][0]["abstract"] == "Ask [mail]."
    assert (case["scrubbed"], case["licence"], case["url"]) == (1, "CC BY 4.0", "https://x.example")


# ---------------------------------------------------------------- against a plain join


def plainly(row: Row, papers: list[Row]) -> list[str]:
    """The papers that a paragraph cites, by going through all of them for each reference."""
    ids: list[str] = []
    for one in row["references"]:
        linked = [p["paper_id"] for p in papers if one["paper_id"] and one["paper_id"] == p["paper_id"]]
        fit = [
            p["paper_id"]
            for p in papers
            if one["title"]
            and re.sub(r"\W", "", one["title"].lower()) == re.sub(r"\W", "", p["title"].lower())
            and (one["year"] is None or p["year"] is None or abs(one["year"] - p["year"]) <= 1)
        ]
        ids += linked or (fit if len(fit) == 1 else [])
    return list(dict.fromkeys(ids))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_found_is_what_a_plain_join_finds(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    titles = [f"On {dice.choice(['Boats', 'boats', 'BOATS:'])} {number}" for number in range(12)]
    years = [None, *range(2000, 2006)]
    papers = [paper(f"p{n}", title=dice.choice(titles), year=dice.choice(years)) for n in range(40)]
    rows = [
        cites(
            f"x{number}",
            *(
                entry(
                    f"b{place}",
                    title=dice.choice([*titles, "Nothing"]).upper(),
                    year=dice.choice(years),
                    paper_id=dice.choice([None, None, "acl/p3", "s2/404"]),
                )
                for place in range(dice.randrange(8))
            ),
        )
        for number in range(60)
    ]
    cases, _ = found(tmp_path, rows, papers, least_cited=0)
    assert {key: [one["paper_id"] for one in case["cited"]] for key, case in cases.items()} == {
        row["related_id"]: plainly(row, papers) for row in rows
    }


# ---------------------------------------------------------------- many


@stage(METADATA, revision=1)
def many_records(context: StageContext, files: Shard, *, number: int) -> Iterator[Row]:
    """Half of them have one and the same title."""
    for place in range(number):
        title = "Introduction" if place % 2 else f"On Boat Number {place}"
        yield known(
            f"s2/{place}", title=title, year=1950 + place % 70, corpus_id=place, abstract=f"{place}. {ABSTRACT}" * 10
        )


@stage(RELATED, revision=1)
def many_paragraphs(context: StageContext, files: Shard, *, number: int) -> Iterator[Row]:
    for place in range(number):
        references = [entry(f"b{n}", title=f"on boat number {(place + n) * 2}", year=None) for n in range(4)]
        introductions = [entry(f"i{n}", title="INTRODUCTION", year=1950 + (place + n) % 70) for n in range(4)]
        yield cites(f"x{place}", *references, *introductions)


@pytest.mark.check
def test_fifty_thousand_records_of_one_title_cost_no_more_than_others(tmp_path: Path) -> None:
    with building(tmp_path / "home") as run:
        sources = [toy_source(tmp_path)]
        metadata = many_records(run, sources, number=100_000)
        related = many_paragraphs(run, sources, number=10_000)
        empty = make_papers(run, sources, rows=[])
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        cases = find_cited(run, related, empty, metadata, make_duplicates(run, sources, rows=[]), **BOUNDS)
        assert time.process_time() - started < 120
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1_000 * 1_024
        assert cases.count == 10_000
        assert all(len(row["cited"]) == 4 for row in cases.table(["cited"]).slice(0, 50).to_pylist())


@stage(METADATA, revision=1)
def long_abstracts(context: StageContext, files: Shard, *, number: int) -> Iterator[Row]:
    for place in range(number):
        yield known(f"s2/{place}", title=f"On Boat Number {place}", abstract=f"{place}. ".ljust(19_900, "x"))


def test_a_paragraph_that_cites_few_long_abstracts_again_and_again_fits_into_memory(tmp_path: Path) -> None:
    """Written out for each citation, they would take more than the database has."""
    titles = [f"On boat number {place}" for place in range(50)]
    entries = [entry(f"b{n}", title=titles[n % 50], year=None) for n in range(2_000)]
    with building(tmp_path / "home") as run:
        sources = [toy_source(tmp_path)]
        metadata = long_abstracts(run, sources, number=50)
        related = make_related(run, sources, rows=[cites(f"x{n}", *entries) for n in range(20)])
        tables = make_papers(run, sources, rows=[]), metadata, make_duplicates(run, sources, rows=[])
        cases = find_cited(run, related, *tables, **BOUNDS)
        assert [len(case["cited"]) for case in cases] == [50] * 20


def versions(first: str, second: str, group: str | None) -> Row:
    pair = {"pair_id": f"{first}={second}", "first_id": first, "second_id": second, "group_id": group}
    return filled(DUPLICATES, **{**pair, "verdict": "same" if group else "doubtful"})


def test_a_title_that_two_versions_of_a_paper_have_leads_to_the_one_with_the_smallest_id(tmp_path: Path) -> None:
    papers = [paper("p1", title="On Tides", year=2023), paper("p2", title="On tides", year=2024), paper("q")]
    row = cites("x", entry("b0", title="On Tides", year=2024), entry("b1", paper_id="acl/q"))
    two = versions("acl/p1", "acl/p2", "acl/p1")
    for name, said, expected in (
        ("same", [two], [("acl/p1", "title"), ("acl/q", "link")]),
        ("doubtful", [versions("acl/p1", "acl/p2", None)], [("acl/q", "link")]),
        ("nothing", [], [("acl/q", "link")]),
    ):
        cases, _ = found(tmp_path / name, [row], papers, duplicates=said, least_cited=1)
        assert [links(case) for case in cases.values()] == [expected], name


def test_of_versions_with_one_title_one_with_an_abstract_is_taken_and_links_stay(tmp_path: Path) -> None:
    papers = [paper("p1", title="On Tides", abstract=None), *(paper(name, title="On Tides") for name in ("p2", "p3"))]
    said = [versions("acl/p1", "acl/p2", "acl/p1"), versions("acl/p2", "acl/p3", "acl/p1")]
    row = cites("x", entry("b0", title="On Tides", year=None), entry("b1", paper_id="acl/p3"))
    cases, _ = found(tmp_path, [row], papers, duplicates=said, least_cited=1)
    assert [links(case) for case in cases.values()] == [[("acl/p2", "title"), ("acl/p3", "link")]]


def test_a_paragraph_that_cites_a_version_of_its_own_paper_names_itself(tmp_path: Path) -> None:
    papers = [paper("p1", title="On Tides"), paper("p2", title="Tides, Again"), paper("q"), paper("r")]
    row = cites("p2", *(entry(name, paper_id=f"acl/{name}") for name in ("p1", "q", "r")), title="Tides, Again")
    assert found(tmp_path / "a", [row], papers)[1] == {}
    _, reasons = found(tmp_path / "b", [row], papers, duplicates=[versions("acl/p1", "acl/p2", "acl/p1")])
    assert reasons == {"acl/p2#3": "names its own paper"}


def test_what_is_too_long_for_an_abstract_is_none(tmp_path: Path) -> None:
    papers = [paper("a", abstract="a" * 20_000), paper("b", abstract="b" * 20_001), paper("c")]
    row = cites("x", *(entry(name, paper_id=f"acl/{name}", year=None) for name in "abc"))
    cases, _ = found(tmp_path, [row], papers)
    [case] = cases.values()
    assert [one["abstract"] and len(one["abstract"]) for one in case["cited"]] == [20_000, None, len(ABSTRACT)]
