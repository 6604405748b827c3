"""Tables 2, 3 and 5 of Revision Distance, the agreement with choices, and what became of edits and cases.

From plain rows: drafts are those of the published table, their edits as `Edit`s. What is null was not computed and is
in no mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from longform.artifacts.rows import Row
from schemas.replies import INTENTIONS
from tasks.publishing.card import Cell, ReportTable
from tasks.revision_distance.tables.intervals import mean, mean_interval, wilson

TASKS = ("easy", "hard", "free", "structure")
SYSTEMS = ("weak", "strong", "vanilla", "cot", "rejected", "chosen", "reordered")
WEAK_AND_STRONG = {"easy": ("weak", "strong"), "hard": ("vanilla", "cot"), "free": ("rejected", "chosen")}
CATEGORIES = ("order", "comparison", "description", "other")
PLACES = ("exactly", "folded", "nearly", "not")
SHOWN = 50
DECIMALS = 9


class Edit(NamedTuple):
    """What the tables count of an edit: the columns of its struct by these names."""

    category: str | None
    revision_intention: str
    placed: str
    applied: bool
    why_not: str | None


class Metric(NamedTuple):
    column: str
    name: str
    less_is_better: bool = False

    def better(self, row: Row, than: Row) -> int:
        """1 where the row does better by it, -1 where the other does, 0 in a tie (but for the order of a sum)."""
        own, other = (round(float(one[self.column]), DECIMALS) for one in (row, than))
        more = (own > other) - (own < other)
        return -more if self.less_is_better else more


ROUGE = (Metric("rouge1", "ROUGE-1"), Metric("rouge2", "ROUGE-2"), Metric("rougeL", "ROUGE-L"))
BERTSCORE = Metric("bertscore", "BERTScore")
DISTANCES = (Metric("distance", "distance", True), Metric("weighted", "weighted distance", True))
GPT_SCORE = Metric("gpt_score", "GPT-Score")
METRICS = (*ROUGE, BERTSCORE, GPT_SCORE, *DISTANCES)
PRINTED_OVER_WEAK = {("hard", "distance")}  # all others of the paper's table 2 are printed over strong

Pairs = list[tuple[Row, Row]]


def pairs_of(drafts: Iterable[Row], task: str) -> Pairs:
    """The weak and the strong draft of each case of the task that has both, in the order of the cases."""
    weak, strong = WEAK_AND_STRONG[task]
    found: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    for row in drafts:
        if row["task"] == task:
            found[row["case_id"]][row["system"]] = row
    return [(row[weak], row[strong]) for _, row in sorted(found.items()) if weak in row and strong in row]


def scored(pairs: Pairs, metric: Metric) -> Pairs:
    """Those of which both drafts have this score."""
    return [pair for pair in pairs if all(row[metric.column] is not None for row in pair)]


def change(weak: float, strong: float, *, over: float, less_is_better: bool) -> float | None:
    """Percent by which the strong one is better, negative where it is worse; None over 0."""
    sign = -1 if less_is_better else 1
    return sign * 100 * (strong - weak) / over if over else None


# ---------------------------------------------------------------- table 2


def weak_and_strong(drafts: Sequence[Row], task: str, cases: int) -> ReportTable:
    """Table 2 for a task: means of the weak and the strong system by each metric, and the change between them."""
    weak, strong = WEAK_AND_STRONG[task]
    pairs = pairs_of(drafts, task)
    columns = (
        *("metric", "better", "weak", "from", "to", "strong", "from", "to", "strong - weak", "from", "to"),
        *("change over strong, %", "change over weak, %", "the paper divides by", "pairs", "left out"),
    )
    title = f"Weak and strong drafts of the {task} task (table 2)"
    named = "" if weak == "weak" else f"Weak: {weak}; strong: {strong}. "
    own = [row for row in drafts if row["task"] == task]
    notes = (
        f"{named}Means over the cases of which both drafts have the score; intervals (95 %) by bootstrap over cases. "
        "Change: strong less weak, with the sign turned where less is better, so that positive is an improvement.",
        *(
            _missing(drafts, task, cases, pairs),
            _lacking(own, GPT_SCORE, "not asked, or the reply could not be used"),
            _unscored(own),
        ),
    )
    note = " ".join(part for part in notes if part)
    return ReportTable(title, note, columns, [_compared(pairs, task, metric, cases) for metric in METRICS])


def _compared(pairs: Pairs, task: str, metric: Metric, cases: int) -> tuple[Cell, ...]:
    both = scored(pairs, metric)
    first, second = ([float(pair[side][metric.column]) for pair in both] for side in (0, 1))
    weak, strong = mean(first), mean(second)
    changes: list[Cell] = [None, None]
    if weak is not None and strong is not None:
        changes = [change(weak, strong, over=over, less_is_better=metric.less_is_better) for over in (strong, weak)]
    differences = [other - one for one, other in zip(first, second, strict=True)]
    return (
        *(metric.name, "less" if metric.less_is_better else "more"),
        *(weak, *mean_interval(first), strong, *mean_interval(second)),
        *(mean(differences), *mean_interval(differences), *changes, _printed_over(task, metric)),
        *(len(both), cases - len(both)),
    )


def _printed_over(task: str, metric: Metric) -> str:
    if metric.column == "weighted" or (task, metric.column) == ("easy", "bertscore"):
        return "not in the paper"
    return "weak" if (task, metric.column) in PRINTED_OVER_WEAK else "strong"


def _missing(drafts: Sequence[Row], task: str, cases: int, pairs: Pairs) -> str:
    """How many cases, drafts and distances the comparison lacks, and why."""
    own = [row for row in drafts if row["task"] == task]
    made = Counter(row["system"] for row in own)
    parts = [
        f"Cases: {cases:,}, with both drafts {len(pairs):,}.",
        *(f"Without a {name} draft: {cases - made[name]:,}." for name in WEAK_AND_STRONG[task] if made[name] < cases),
        _lacking(own, DISTANCES[0], "the editor's reply could not be used"),
    ]
    return " ".join(part for part in parts if part)


def _unscored(drafts: Iterable[Row]) -> str:
    """The drafts that have no BERTScore, by the reason."""
    reasons = Counter(row["bertscore_left_out"] or "no reason said" for row in drafts if row["bertscore"] is None)
    return f"Drafts without BERTScore: {_counts(reasons)}." if reasons else ""


def _lacking(drafts: Iterable[Row], metric: Metric, why: str) -> str:
    number = sum(row[metric.column] is None for row in drafts)
    return f"Drafts without {metric.name} ({why}): {number:,}." if number else ""


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counted.items()))


# ---------------------------------------------------------------- tables 3 and 5


def categories(drafts: Sequence[Row], cases: int) -> ReportTable:
    """Table 3: edits per text of each category, of related work, by system."""
    pairs = scored(pairs_of(drafts, "hard"), DISTANCES[0])
    rows: list[tuple[Cell, ...]] = []
    for side, system in enumerate(WEAK_AND_STRONG["hard"]):
        counted = [Counter(edit.category for edit in pair[side]["edits"]) for pair in pairs]
        means = [mean([float(found[name]) for found in counted]) for name in CATEGORIES]
        rows.append((system, *means, mean([float(found.total()) for found in counted]), len(pairs), cases - len(pairs)))
    note = (
        "Mean edits per text. Order: references are moved; comparison: they are related to each other; description: "
        "one is described longer, shorter or otherwise. Over the cases of which both drafts have a distance."
    )
    columns = ("system", *CATEGORIES, "all", "texts", "left out")
    return ReportTable("Kinds of edits of related work (table 3)", note, columns, rows)


def structure(drafts: Iterable[Row]) -> ReportTable:
    """Table 5: texts that differ from their references in the order alone."""
    own = sorted((row for row in drafts if row["task"] == "structure"), key=lambda row: (row["case_id"], row["system"]))
    metrics = (*ROUGE, BERTSCORE, *DISTANCES)
    seen = [_only_seen_by_distance(row) for row in own]
    known = [value for value in seen if value is not None]
    rows: list[tuple[Cell, ...]] = [
        (row["case_id"], *(row[metric.column] for metric in metrics), None if value is None else _yes(value))
        for row, value in zip(own[:SHOWN], seen, strict=False)
    ]
    means = (mean([row[metric.column] for row in own if row[metric.column] is not None]) for metric in metrics)
    if own:
        rows.append(("all", *means, f"{sum(known):,} of {len(known):,}"))
    shown = f" The first {SHOWN} of {len(own):,} are shown; the last row is of all." if len(own) > SHOWN else ""
    without = f" {_unscored(own)}" if own else ""
    note = f"The same sentences in another order: ROUGE-1 cannot see it, the distance must.{shown}{without}".rstrip()
    columns = ("pair", *(metric.name for metric in metrics), "ROUGE-1 is 100, distance above 0")
    return ReportTable("Texts that differ in their order alone (table 5)", note, columns, rows)


def _only_seen_by_distance(row: Row) -> bool | None:
    if row["rouge1"] is None or row["distance"] is None:
        return None
    return bool(row["rouge1"] == 100 and row["distance"] > 0)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# ---------------------------------------------------------------- without a reference


SOURCE = Metric("source_score", "the source's own score")


def preferences(drafts: Sequence[Row], cases: int) -> ReportTable:
    """Section 4.2: how often the chosen text needs fewer edits than the rejected one."""
    pairs = pairs_of(drafts, "free")
    rows = [_agreed(scored(pairs, metric), metric, cases) for metric in (*DISTANCES, SOURCE)]
    note = (
        "By each measure, pairs in which the chosen text does better than the rejected one (it needs fewer edits, or "
        "has the higher score), does as well, or worse; shares with Wilson intervals (95 %). "
        f"{_missing(drafts, 'free', cases, pairs)}"
    )
    columns = (
        *("measure", "chosen is better", "tie", "rejected is better"),
        *("chosen, % of all", "from", "to", "chosen, % without ties", "from", "to", "pairs", "left out"),
    )
    return ReportTable("Chosen and rejected texts, no reference (section 4.2)", note, columns, rows)


def _agreed(pairs: Pairs, metric: Metric, cases: int) -> tuple[Cell, ...]:
    outcomes = Counter(metric.better(chosen, rejected) for rejected, chosen in pairs)
    wins, decided = outcomes[1], outcomes[1] + outcomes[-1]
    shares = (*share(wins, len(pairs)), *share(wins, decided))
    return (metric.name, wins, outcomes[0], outcomes[-1], *shares, len(pairs), cases - len(pairs))


def share(part: int, whole: int) -> tuple[float | None, float | None, float | None]:
    """In percent, with its interval."""
    low, high = wilson(part, whole)
    return tuple(None if cell is None else 100 * cell for cell in (part / whole if whole else None, low, high))  # type: ignore[return-value]


def source_scores(drafts: Sequence[Row]) -> ReportTable:
    """By what the distance says of a pair: by how much the source's judge prefers the chosen text."""
    rows: list[tuple[Cell, ...]] = []
    for metric in DISTANCES:
        pairs = scored(pairs_of(drafts, "free"), metric)
        for outcome, name in ((1, "chosen needs fewer edits"), (0, "tie"), (-1, "rejected needs fewer edits")):
            own = [pair for pair in pairs if metric.better(pair[1], pair[0]) == outcome]
            gaps = [chosen["source_score"] - rejected["source_score"] for rejected, chosen in scored(own, SOURCE)]
            rows.append((metric.name, name, len(own), len(gaps), mean(gaps), *mean_interval(gaps)))
    note = "Score: the source's, of the chosen text less that of the rejected one; intervals (95 %) by bootstrap."
    columns = ("measure", "pairs in which", "pairs", "with scores", "mean score difference", "from", "to")
    return ReportTable("The source's own scores, by what the distance says", note, columns, rows)


# ---------------------------------------------------------------- edits


def by_system(drafts: Iterable[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    """Drafts with a distance by task and system, in the order of the paper."""
    found: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in drafts:
        if row["distance"] is not None:
            found[row["task"], row["system"]].append(row)
    return sorted(found.items(), key=lambda item: (TASKS.index(item[0][0]), SYSTEMS.index(item[0][1])))


def intentions(drafts: Iterable[Row]) -> ReportTable:
    """What edits are for."""
    rows: list[tuple[Cell, ...]] = []
    for names, own in by_system(drafts):
        counted = Counter(edit.revision_intention for row in own for edit in row["edits"])
        rows.append((*names, *(counted[name] / len(own) for name in INTENTIONS), counted.total() / len(own), len(own)))
    note = "Mean edits per text, of all texts with a distance."
    columns = ("task", "system", *INTENTIONS, "all", "texts")
    return ReportTable("Edits by intention", note, columns, rows)


def placement(drafts: Sequence[Row]) -> ReportTable:
    """Whether the snippets of edits are in the draft, and whether the edits were applied."""
    rows: list[tuple[Cell, ...]] = []
    why: Counter[str] = Counter()
    for names, own in by_system(drafts):
        edits = [edit for row in own for edit in row["edits"]]
        placed, applied = Counter(edit.placed for edit in edits), sum(edit.applied for edit in edits)
        why.update(edit.why_not or "no reason said" for edit in edits if not edit.applied)
        rows.append((*names, *(placed[name] for name in PLACES), len(edits), applied, len(edits) - applied, len(own)))
    note = (
        "How the words that an edit names were found in the draft: exactly; with white space, typographic signs and "
        "case folded; nearly; not at all. All of them count towards the distance."
        f"{f' Not applied: {_counts(why)}.' if why else ''}"
    )
    columns = (
        *("task", "system", "exactly", "folded", "nearly", "not placed"),
        *("edits", "applied", "not applied", "texts"),
    )
    return ReportTable("Edits by how they were placed", note, columns, rows)


def reproduced(drafts: Iterable[Row]) -> ReportTable:
    """Whether drafts become their references."""
    rows: list[tuple[Cell, ...]] = []
    for names, own in by_system(row for row in drafts if row["reproduces"] is not None):
        found = Counter(row["reproduces"] for row in own)
        rows.append((*names, *(found[name] for name in ("exactly", "words", "no")), len(own)))
    note = "Words: but for white space. An edit that is not applied, or says less than it should, leaves a difference."
    columns = ("task", "system", "exactly", "words", "no", "texts")
    return ReportTable("Whether the edits turn the draft into its reference", note, columns, rows)


# ---------------------------------------------------------------- cases


def selection(
    cases: Iterable[Row], candidates: Iterable[Row], checked: Iterable[Row], not_drawn: Iterable[str]
) -> ReportTable:
    """How many texts the rules found, were drawn, the model accepted, and were taken; `not_drawn`: keys of cases."""
    drawn, taken = (Counter(row["task"] for row in rows) for rows in (candidates, cases))
    left = Counter(task_of(key) for key in not_drawn)
    said = Counter((task_of(row["case_id"]), row["checked"]) for row in checked)
    rows: list[tuple[Cell, ...]] = []
    for task in TASKS:
        answers = [said[task, answer] for answer in ("yes", "no", None)]
        own = [drawn[task] + left[task], drawn[task], *answers, drawn[task] - sum(answers)]
        rows.append((task, *(own if task != "structure" else [None] * len(own)), taken[task]))
    note = (
        "Found: by the rules. More are drawn than are wanted, as the model that checks requests may decline some. "
        "Not asked: tasks or builds without a check. No usable answer: these are rejected. The structure task is given."
    )
    columns = ("task", "found", "drawn", "accepted", "declined", "not asked", "no usable answer", "cases")
    return ReportTable("Selection of cases", note, columns, rows)


def kinds(cases: Sequence[Row], candidates: Sequence[Row], checked: Iterable[Row]) -> ReportTable:
    """The kinds of writing that the rules see, and what the model says of them."""
    said = {row["case_id"]: row for row in checked}
    taken = Counter((row["task"], row["kind"]) for row in cases)
    drawn: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in candidates:
        drawn[row["task"], row["kind"]].append(said.get(row["case_id"], {}))
    rows: list[tuple[Cell, ...]] = []
    for task, kind in sorted({*taken, *drawn}, key=lambda names: (TASKS.index(names[0]), names[1])):
        answers = Counter(row.get("checked") for row in drawn[task, kind])
        same = sum(row.get("checked") == "yes" and row["checked_kind"] == kind for row in drawn[task, kind])
        figures = (answers.total(), answers["yes"], same, answers["no"])
        rows.append((task, kind, *figures, taken[task, kind]))
    note = "Of the same kind: accepted ones of which the model sees the kind that the rules see."
    columns = ("task", "kind", "drawn", "accepted", "of the same kind", "declined", "cases")
    return ReportTable("Kinds of cases", note, columns, rows)


def task_of(case_id: str) -> str:
    return case_id.split("/", 1)[0]
