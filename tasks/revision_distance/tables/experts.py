"""The expert study: what experts prefer, whether metrics agree with them, and they with each other (section 4.1.3).

Rows of judgements are those of JUDGEMENTS: one expert's on one sheet, which shows two drafts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from longform.artifacts.rows import Row
from tasks.annotation.agreement import alpha, pairwise_share
from tasks.publishing.card import Cell, ReportTable
from tasks.revision_distance.tables.intervals import mean, mean_interval
from tasks.revision_distance.tables.tables import METRICS, SYSTEMS, Metric, Pairs, scored

RATED = ("content", "structure", "argument")


def sheets(judgements: Iterable[Row]) -> list[list[Row]]:
    """The judgements by sheet, in the order of the sheets' ids."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in judgements:
        found[row["sheet_id"]].append(row)
    return [found[key] for key in sorted(found)]


def verdict(sheet: Sequence[Row]) -> tuple[str, str] | None:
    """draft_id of the chosen and of the rejected text: more experts call the one better than the other.

    Those who prefer neither are not asked. None where as many prefer the one as the other.
    """
    both = (sheet[0]["first"], sheet[0]["second"])
    votes = Counter(row["better"] for row in sheet)
    if votes[both[0]] == votes[both[1]]:
        return None
    return both if votes[both[0]] > votes[both[1]] else (both[1], both[0])


def expert_tables(judgements: Sequence[Row], drafts: Iterable[Row]) -> list[ReportTable]:
    """What experts chose and what metrics say of it, what they say of each system, and how far they agree."""
    known = {row["draft_id"]: row for row in drafts}
    given = sheets(row for row in judgements if row["first"] in known and row["second"] in known)
    return [_metrics(given, known), _systems(given, known), _agreement(given, known)]


def _metrics(given: Sequence[Sequence[Row]], known: Mapping[str, Row]) -> ReportTable:
    verdicts = [found for sheet in given if (found := verdict(sheet))]
    pairs = [(known[chosen], known[rejected]) for chosen, rejected in verdicts]
    experts = len({row["expert"] for sheet in given for row in sheet})
    note = "No filled-in sheet was given."
    if given:
        note = (
            "Chosen: the text that more experts call better than the other. Means over the pairs of which both drafts "
            "have the score; intervals (95 %) by bootstrap over pairs. "
            f"Pairs: {len(given):,}, of which ties {len(given) - len(pairs):,} stand apart; experts: {experts:,}."
        )
    columns = (
        *("metric", "better", "chosen", "from", "to", "rejected", "from", "to", "chosen - rejected", "from", "to"),
        *("prefers the chosen", "tie", "prefers the rejected", "pairs", "left out"),
    )
    rows = [_preferred(pairs, metric) for metric in METRICS] if given else []
    return ReportTable("Texts that experts chose and rejected (expert study)", note, columns, rows)


def _preferred(pairs: Pairs, metric: Metric) -> tuple[Cell, ...]:
    both = scored(pairs, metric)
    chosen, rejected = ([float(pair[side][metric.column]) for pair in both] for side in (0, 1))
    differences = [one - other for one, other in zip(chosen, rejected, strict=True)]
    outcomes = Counter(metric.better(*pair) for pair in both)
    return (
        *(metric.name, "less" if metric.less_is_better else "more"),
        *(mean(chosen), *mean_interval(chosen), mean(rejected), *mean_interval(rejected)),
        *(mean(differences), *mean_interval(differences)),
        *(outcomes[1], outcomes[0], outcomes[-1], len(both), len(pairs) - len(both)),
    )


def _systems(given: Sequence[Sequence[Row]], known: Mapping[str, Row]) -> ReportTable:
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    ratings: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for sheet in given:
        chosen = (verdict(sheet) or (None,))[0]
        for draft in (sheet[0]["first"], sheet[0]["second"]):
            outcome = "tie" if chosen is None else "chosen" if draft == chosen else "rejected"
            outcomes[known[draft]["system"]][outcome] += 1
        for row in sheet:
            for name in RATED:
                for draft, rating in zip((row["first"], row["second"]), row[name], strict=False):
                    ratings[known[draft]["system"], name].append(float(rating))
    rows: list[tuple[Cell, ...]] = []
    for system in sorted(outcomes, key=SYSTEMS.index):
        counted = (outcomes[system][name] for name in ("chosen", "tie", "rejected"))
        means = (cell for name in RATED for cell in _rated(ratings[system, name]))
        rows.append((system, *counted, outcomes[system].total(), *means))
    note = "Ratings: 1 to 5, means over the judgements that give them, with how many these are."
    columns = (
        *("system", "chosen", "tie", "rejected", "texts"),
        *(cell for name in RATED for cell in (name, "ratings")),
    )
    return ReportTable("What experts say of each system (expert study)", note, columns, rows)


def _rated(values: Sequence[float]) -> tuple[float | None, int]:
    return mean(values), len(values)


def _agreement(given: Sequence[Sequence[Row]], known: Mapping[str, Row]) -> ReportTable:
    better = [[known[row["better"]]["system"] if row["better"] else "neither" for row in sheet] for sheet in given]
    rows = [("better text", *_agreed(better, ordinal=False))] if given else []
    for name in RATED if given else ():
        rows.append((name, *_agreed(_ratings_of_drafts(given, name), ordinal=True)))
    note = (
        "Two judgements of one sheet, or two ratings of one text, agree where they are the same. Krippendorff's alpha "
        "is agreement beyond chance, 1 at most: nominal of the better text, ordinal of ratings."
    )
    columns = ("judgement", "judged by two or more", "judgements of these", "agreed, %", "Krippendorff's alpha")
    return ReportTable("Agreement among experts (expert study)", note, columns, rows)


def _ratings_of_drafts(given: Sequence[Sequence[Row]], name: str) -> list[list[int]]:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for sheet in given:
        for row in sheet:
            for draft, rating in zip((row["first"], row["second"]), row[name], strict=False):
                found[row["sheet_id"], draft].append(rating)
    return list(found.values())


def _agreed(units: Sequence[Sequence[str | int]], *, ordinal: bool) -> tuple[Cell, ...]:
    several = [unit for unit in units if len(unit) > 1]
    agreed = pairwise_share(several)
    figures = (None if agreed is None else 100 * agreed, alpha(several, ordinal=ordinal))
    return (len(several), sum(map(len, several)), *figures)
