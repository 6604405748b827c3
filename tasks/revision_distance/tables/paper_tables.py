"""Tables 2, 3 and 5 and section 4.2 of Revision Distance, with the paper's figures beside ours; edits; cases; experts.

The expert study (section 4.1.3) shows what experts prefer, whether metrics agree with experts, and experts with each
other.

`drafts` are rows of the published table: draft_id, case_id, task, system and the scores, missing where they were not
computed. `edits` has a row per edit: `draft`, the position of its draft's row, and category, revision_intention,
placed, applied, why_not. A text without a score is in no mean. `judgements` are rows of JUDGEMENTS: one expert's on one
sheet, which shows two drafts, both of them in `drafts`. The paper prints no figure of its study.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from schemas.replies import INTENTIONS
from tasks.annotation.agreement import alpha, pairwise_share
from tasks.metrics.intervals import mean_interval, share_interval
from tasks.publishing.printed import beside, printed
from tasks.revision_distance.form import RATED

TASKS = ("easy", "hard", "free", "structure")
SYSTEMS = ("weak", "strong", "vanilla", "cot", "rejected", "chosen", "reordered")
WEAK_AND_STRONG = {"easy": ("weak", "strong"), "hard": ("vanilla", "cot"), "free": ("rejected", "chosen")}
PRINTED = Path(__file__).with_name("printed.toml")
CATEGORIES = ("order", "comparison", "description", "other")
PLACED_AS = {"exactly": "exactly", "folded": "folded", "nearly": "nearly", "not": "not placed"}
CHANGES = {"strong": "change over strong, %", "weak": "change over weak, %"}
SHOWN = 50
EXPERT_OUTCOMES = ("chosen", "tie", "rejected")  # what became of a text on a sheet
DECIMALS = 9  # scores that differ beyond them are a tie: the order of a sum changes the last digits


class Metric(NamedTuple):
    """A column of the published drafts and its name in tables; `sign` is -1 if a lower value is better, else 1."""

    column: str
    name: str
    sign: int = 1


ROUGE = (Metric("rouge1", "ROUGE-1"), Metric("rouge2", "ROUGE-2"), Metric("rougeL", "ROUGE-L"))
BERTSCORE = Metric("bertscore", "BERTScore")
DISTANCES = (Metric("distance", "distance", -1), Metric("weighted", "weighted distance", -1))
CORRECTED = (
    Metric("corrected", "corrected distance", -1),
    Metric("normalised", "corrected distance per 100 words", -1),
    Metric("ter", "TER", -1),
)
GPT_SCORE = Metric("gpt_score", "GPT-Score")
SOURCE = Metric("source_score", "the source's own score")
METRICS = (*ROUGE, BERTSCORE, GPT_SCORE, *DISTANCES, *CORRECTED)


def scores(drafts: pd.DataFrame, task: str, column: str) -> pd.DataFrame:
    """A column of `drafts` as columns `weak` and `strong`, by case_id, for the cases whose two drafts have a value.

    WEAK_AND_STRONG says which systems are meant for the task. `drafts`: rows of PUBLISHED_DRAFTS of any task.
    """
    own = drafts[drafts.task == task].pivot(index="case_id", columns="system", values=column)
    return own.reindex(columns=list(WEAK_AND_STRONG[task])).set_axis(["weak", "strong"], axis=1).dropna()


def outcomes(one: pd.Series[float], other: pd.Series[float], metric: Metric) -> pd.Series[int]:
    """For each row 1 if `one` is better by the metric, -1 if `other` is, 0 for a tie.

    Values that are equal after rounding to DECIMALS tie.
    """
    gaps = one.astype(float).round(DECIMALS) - other.astype(float).round(DECIMALS)
    return (metric.sign * gaps).apply(np.sign).astype(int)


def mean_with_bounds(name: str, values: pd.Series[float]) -> dict[str, float]:
    """`name`: the mean; `name from`, `name to`: its 95 % interval by bootstrap.

    The mean is NaN without values, the bounds also for one value.
    """
    low, high = mean_interval(values)
    return {name: values.mean(), f"{name} from": low, f"{name} to": high}


# ---------------------------------------------------------------- table 2


def table_2_weak_and_strong(drafts: pd.DataFrame, task: str, cases: int) -> pd.DataFrame:
    """Table 2 for a task: means of the weak and the strong system by each metric, and the change between them.

    A row for each of METRICS, with the paper's figures beside ours. Means are over the cases whose two drafts have the
    score; `cases` is how many the task has. A change is positive if the strong system is better. The column `the paper
    divides by` says which of the two changes the paper prints.
    """
    rows = pd.DataFrame([_compared(scores(drafts, task, metric.column), metric, cases) for metric in METRICS])
    paper = printed(PRINTED, f"table_2_{task}")
    divided = {
        row["metric"]: next(over for over in CHANGES if pd.notna(row[CHANGES[over]])) for _, row in paper.iterrows()
    }
    place = list(rows.columns).index("pairs")
    rows.insert(place, "the paper divides by", [divided.get(name, "not in the paper") for name in rows.metric])
    return beside(rows, paper, on=["metric"])


def _compared(both: pd.DataFrame, metric: Metric, cases: int) -> dict[str, Any]:
    """A row of table 2, without the paper's figures.

    `both`: columns `weak` and `strong`, as by `scores`; `cases`: how many the task has.
    """
    weak, strong = both.weak.astype(float), both.strong.astype(float)
    return {
        "metric": metric.name,
        "better": "less" if metric.sign < 0 else "more",
        **mean_with_bounds("weak", weak),
        **mean_with_bounds("strong", strong),
        **mean_with_bounds("strong - weak", strong - weak),
        CHANGES["strong"]: change(weak.mean(), strong.mean(), over=strong.mean(), sign=metric.sign),
        CHANGES["weak"]: change(weak.mean(), strong.mean(), over=weak.mean(), sign=metric.sign),
        "pairs": len(both),
        "left out": cases - len(both),
    }


def change(weak: float, strong: float, *, over: float, sign: int) -> float:
    """The change from `weak` to `strong` in percent of `over`, positive if strong is better; NaN if `over` is 0.

    `sign`: -1 if lower is better, else 1.
    """
    return sign * 100 * (strong - weak) / over if over else np.nan


# ---------------------------------------------------------------- tables 3 and 5


def table_3_kinds_of_edits(drafts: pd.DataFrame, edits: pd.DataFrame, cases: int) -> pd.DataFrame:
    """Table 3 (Order, Comp, Desc, Total): mean edits per related-work text of each category, by system.

    Means are over the cases whose two drafts have a distance; `cases` is how many the task has. The column `all`
    counts edits without a category as well. `edits`: a row per edit, with `draft` (the index of its draft's row) and
    `category`.
    """
    pairs = scores(drafts, "hard", DISTANCES[0].column)
    own = drafts[(drafts.task == "hard") & drafts.case_id.isin(pairs.index)]
    counted = _edits_by(edits, own, ["system"], "category").reindex(list(WEAK_AND_STRONG["hard"]), fill_value=0)
    means = counted.reindex(columns=[*CATEGORIES, "all"], fill_value=0) / (len(pairs) or np.nan)
    rows = means.rename_axis("system").reset_index().assign(texts=len(pairs), **{"left out": cases - len(pairs)})
    return beside(rows, printed(PRINTED, "table_3"), on=["system"])


def _edits_by(edits: pd.DataFrame, drafts: pd.DataFrame, keys: list[str], column: str) -> pd.DataFrame:
    """Numbers of edits of these drafts: a row per value of the columns `keys`, a column per value of `column`.

    The column `all` counts all edits, also those where `column` is missing. Values of `keys` whose drafts have no edit
    are rows, too. `edits`: a row per edit, in which `draft` is the index of its draft's row in `drafts`.
    """
    joined = edits.join(drafts[keys], on="draft", how="inner")
    counts = joined.astype({column: object}).groupby([*keys, column]).size().unstack(fill_value=0)
    every = drafts.groupby(keys).size().index
    return counts.assign(all=joined.groupby(keys).size()).reindex(every, fill_value=0)


def table_5_order_alone(drafts: pd.DataFrame) -> pd.DataFrame:
    """Table 5 (Rouge-1, Rouge-2, Bert-Score): texts that differ from their references only in the order of sentences.

    The first SHOWN pairs, then a row `all` with the means of all pairs and the number of those with ROUGE-1 100 and a
    distance above 0. The paper prints one pair, whose figures are beside `all`. Without pairs the table has no row.
    """
    own = drafts[drafts.task == "structure"].sort_values(["case_id", "system"], ignore_index=True)
    measured = own[[metric.column for metric in (*ROUGE, BERTSCORE, *DISTANCES)]].astype(float)
    known = own[["rouge1", "distance"]].notna().all(axis=1)
    seen = ((own.rouge1 == 100) & (own.distance > 0)).map({True: "yes", False: "no"}).where(known)
    rows = measured.set_axis([metric.name for metric in (*ROUGE, BERTSCORE, *DISTANCES)], axis=1)
    rows.insert(0, "pair", own.case_id)
    rows["ROUGE-1 is 100, distance above 0"] = seen
    if not len(own):
        return rows
    every = {
        **rows.mean(numeric_only=True),
        "pair": "all",
        rows.columns[-1]: f"{(seen == 'yes').sum():,} of {known.sum():,}",
    }
    return beside(
        pd.concat([rows[:SHOWN], pd.DataFrame([every])], ignore_index=True), printed(PRINTED, "table_5"), on=["pair"]
    )


# ---------------------------------------------------------------- without a reference


def section_4_2_preferences(drafts: pd.DataFrame, cases: int) -> pd.DataFrame:
    """Section 4.2: how often the chosen text is better than the rejected one; shares with Wilson intervals.

    A row for each distance (fewer edits are better), and one for the source's own score (higher is better). Pairs are
    those whose two texts have the value; `cases` is how many the task free has. The paper's figures are beside ours.
    """
    rows = [_preferred(scores(drafts, "free", metric.column), metric, cases) for metric in (*DISTANCES, SOURCE)]
    return beside(pd.DataFrame(rows), printed(PRINTED, "section_4_2"), on=["measure"])


def _preferred(both: pd.DataFrame, metric: Metric, cases: int) -> dict[str, Any]:
    """A row of section 4.2, without the paper's figures.

    `both`: columns `weak` (the rejected text) and `strong` (the chosen one), as by `scores`; `cases`: how many the
    task has.
    """
    found = outcomes(both.strong, both.weak, metric)
    wins, ties, losses = ((found == outcome).sum() for outcome in (1, 0, -1))
    return {
        "measure": metric.name,
        "chosen is better": wins,
        "tie": ties,
        "rejected is better": losses,
        **_share("chosen, % of all", wins, len(both)),
        **_share("chosen, % without ties", wins, wins + losses),
        "pairs": len(both),
        "left out": cases - len(both),
    }


def _share(name: str, part: int, whole: int) -> dict[str, float]:
    """`name`: part of whole in percent; `name from`, `name to`: its Wilson interval (95 %), in percent, too.

    The share is NaN if `whole` is 0.
    """
    low, high = share_interval(part, whole)
    return {name: 100 * (part / whole) if whole else np.nan, f"{name} from": 100 * low, f"{name} to": 100 * high}


def source_scores(drafts: pd.DataFrame) -> pd.DataFrame:
    """Mean difference of the source's own scores, chosen less rejected, by which of the two texts needs fewer edits.

    A row for each distance and outcome (chosen, tie, rejected), with the numbers of pairs and of those with both
    scores.
    """
    gaps = scores(drafts, "free", SOURCE.column).astype(float)
    names = {1: "chosen needs fewer edits", 0: "tie", -1: "rejected needs fewer edits"}
    rows = []
    for metric in DISTANCES:
        both = scores(drafts, "free", metric.column)
        found = outcomes(both.strong, both.weak, metric)
        for outcome, name in names.items():
            own = gaps[gaps.index.isin(found.index[found == outcome])]
            rows.append({
                "measure": metric.name,
                "pairs in which": name,
                "pairs": (found == outcome).sum(),
                "with scores": len(own),
                **mean_with_bounds("mean score difference", own.strong - own.weak),
            })  # fmt: skip
    return pd.DataFrame(rows)


# ---------------------------------------------------------------- edits


def edits_by_intention(drafts: pd.DataFrame, edits: pd.DataFrame) -> pd.DataFrame:
    """Mean edits of each intention per text with a distance, by task and system.

    The column `all` is the mean of all edits, `texts` how many texts there are.
    """
    own = drafts[drafts.distance.notna()]
    texts = own.groupby(["task", "system"]).size()
    counted = _edits_by(edits, own, ["task", "system"], "revision_intention")
    means = counted.reindex(columns=[*INTENTIONS, "all"], fill_value=0).div(texts, axis=0)
    return in_order(means.assign(texts=texts))


def edits_by_placement(drafts: pd.DataFrame, edits: pd.DataFrame) -> pd.DataFrame:
    """Numbers of edits by how they were found in the draft, and of applied ones, by task and system.

    Only of drafts with a distance; `texts` is how many these are.
    """
    own = drafts[drafts.distance.notna()]
    keys = ["task", "system"]
    placed = _edits_by(edits, own, keys, "placed").reindex(columns=[*PLACED_AS, "all"], fill_value=0)
    applied = _edits_by(edits[edits.applied.astype(bool)], own, keys, "placed")["all"]
    counts = placed.rename(columns={**PLACED_AS, "all": "edits"})
    counts = counts.assign(applied=applied, **{"not applied": counts.edits - applied}, texts=own.groupby(keys).size())
    return in_order(counts)


def reproduced(drafts: pd.DataFrame) -> pd.DataFrame:
    """Numbers of drafts that the edits turn into their reference: `exactly`, in `words` (but for white space), `no`.

    By task and system; drafts without a reference or without a distance are left out.
    """
    own = drafts[drafts.distance.notna() & drafts.reproduces.notna()]
    counts = own.groupby(["task", "system", "reproduces"]).size().unstack(fill_value=0)
    counts = counts.reindex(columns=["exactly", "words", "no"], fill_value=0)
    return in_order(counts.assign(texts=counts.sum(axis=1)))


def in_order(found: pd.DataFrame) -> pd.DataFrame:
    """The rows, indexed by task and system, in the order of TASKS and SYSTEMS, with the index as columns."""
    rows = found.rename_axis(index=["task", "system"], columns=None).reset_index()
    places = {name: at for at, name in enumerate((*TASKS, *SYSTEMS))}
    return rows.sort_values(["task", "system"], key=lambda names: names.map(places), ignore_index=True)


# ---------------------------------------------------------------- cases


def selection(
    cases: pd.DataFrame, candidates: pd.DataFrame, checked: pd.DataFrame, not_drawn: Iterable[str]
) -> pd.DataFrame:
    """By task how many texts the rules found, how many of these were drawn, accepted by the model and taken as cases.

    Also how many the model declined, was not asked about, or gave no usable answer to. The task structure, which has
    no rules, has only a number of cases, the rest is null. `not_drawn`: ids of the cases that the rules found and that
    were not drawn.
    """
    verdicts = pd.crosstab(checked.case_id.map(task_of), checked.checked.fillna("not asked"))
    drawn = candidates.task.value_counts()
    counts = pd.DataFrame(
        {
            "found": drawn.add(pd.Series(map(task_of, not_drawn), dtype=object).value_counts(), fill_value=0),
            "drawn": drawn,
            "accepted": verdicts.get("yes"),
            "declined": verdicts.get("no"),
            "not asked": verdicts.get("not asked"),
        },
        index=list(TASKS),
        dtype=float,
    ).fillna(0).astype("Int64")  # fmt: skip
    counts["no usable answer"] = counts.drawn - counts.accepted - counts.declined - counts["not asked"]
    counts.loc["structure"] = pd.NA
    counts["cases"] = cases.task.value_counts().reindex(counts.index, fill_value=0)
    return counts.rename_axis("task").reset_index()


def kinds(cases: pd.DataFrame, candidates: pd.DataFrame, checked: pd.DataFrame) -> pd.DataFrame:
    """By task and kind of writing, as the rules see it, how many texts were drawn, accepted and taken as cases.

    `of the same kind`: accepted texts for which the model names the same kind as the rules. `declined`: by the model.
    """
    keys = ["task", "kind"]
    verdicts = candidates.merge(checked, on="case_id", how="left")
    yes, no = verdicts.checked == "yes", verdicts.checked == "no"
    counts = pd.DataFrame({
        "drawn": verdicts.groupby(keys).size(),
        "accepted": verdicts[yes].groupby(keys).size(),
        "of the same kind": verdicts[yes & (verdicts.checked_kind == verdicts.kind)].groupby(keys).size(),
        "declined": verdicts[no].groupby(keys).size(),
        "cases": cases.groupby(keys).size(),
    })  # fmt: skip
    rows = counts.fillna(0).astype(int).rename_axis(keys).sort_index().reset_index()
    return rows.sort_values("task", key=lambda tasks: tasks.map(TASKS.index), kind="stable", ignore_index=True)


def task_of(case_id: str) -> str:
    """The task in a case id, which begins with it: <task>/…."""
    return case_id.split("/", 1)[0]


def in_words(counts: pd.Series[int]) -> str:
    """The counts as text, in the order of their names: `no reply 3, too long 1`."""
    return ", ".join(f"{name} {number:,}" for name, number in counts.sort_index().items())


def note_of_pairs(drafts: pd.DataFrame, task: str, cases: int) -> Sequence[str]:
    """Sentences: how many cases the comparison has, and how many lack a draft or a distance.

    `cases`: how many the task has. A number of 0 is not mentioned, but for the cases.
    """
    own = drafts[drafts.task == task]
    lacking = {name: cases - (own.system == name).sum() for name in WEAK_AND_STRONG[task]}
    return [
        f"Cases: {cases:,}, with both drafts {len(scores(drafts, task, 'draft_id')):,}.",
        *(f"Without a {name} draft: {number:,}." for name, number in lacking.items() if number > 0),
        *lack_of(own, DISTANCES[0], "the editor's reply could not be used"),
    ]


def lack_of(drafts: pd.DataFrame, metric: Metric, why: str) -> Sequence[str]:
    """[a sentence that counts the drafts without a score and says `why`]; [] if all have it."""
    number = drafts[metric.column].isna().sum()
    return [f"Drafts without {metric.name} ({why}): {number:,}."] if number else []


def lack_of_bertscore(drafts: pd.DataFrame) -> Sequence[str]:
    """[a sentence that counts the drafts without BERTScore by the reason]; [] if all have it."""
    reasons = drafts.bertscore_left_out[drafts.bertscore.isna()].fillna("no reason said").value_counts()
    return [f"Drafts without BERTScore: {in_words(reasons)}."] if len(reasons) else []


# ---------------------------------------------------------------- the expert study


def of_drafts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """The judgements whose two drafts are both in `drafts`, sorted by sheet_id, otherwise in their order."""
    known = judgements["first"].isin(drafts.draft_id) & judgements.second.isin(drafts.draft_id)
    return judgements[known].sort_values("sheet_id", kind="stable")


def shown_texts(judgements: pd.DataFrame) -> pd.DataFrame:
    """Two rows per sheet, one for each draft: sheet_id, draft_id, votes, and `outcome`: chosen, rejected or tie.

    Chosen is the text that more experts call better than the other; experts who prefer neither are not counted.
    """
    sides = judgements.melt(["sheet_id", "better"], ["first", "second"], value_name="draft_id")
    votes = (sides.better == sides.draft_id).groupby([sides.sheet_id, sides.draft_id])
    texts = votes.sum().rename("votes").reset_index()
    lead = 2 * texts.votes - texts.groupby("sheet_id").votes.transform("sum")
    return texts.assign(outcome=np.select([lead > 0, lead < 0], ["chosen", "rejected"], "tie"))


def metrics_of_chosen_texts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """By metric: mean scores of the texts experts chose and rejected, and how often the metric prefers the chosen one.

    Pairs are those whose two drafts have the score; pairs without a choice (a tie of experts) are left out. Empty
    without judgements.
    """
    texts = shown_texts(judgements).merge(drafts, on="draft_id")
    decided = texts[texts.outcome != "tie"]
    return pd.DataFrame([_chosen_against_rejected(decided, metric) for metric in METRICS] if len(judgements) else [])


def _chosen_against_rejected(decided: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    """The row of one metric in `metrics_of_chosen_texts`: the means, with 95 % bounds, of the chosen texts, the
    rejected ones and their difference; in how many pairs the metric prefers the chosen, neither, or the rejected text;
    the number of pairs, and of those left out because a score is missing.

    `decided`: rows of `shown_texts` that are no tie, with the columns of their drafts.
    """
    pairs = decided.pivot(index="sheet_id", columns="outcome", values=metric.column).astype(float)
    both = pairs.reindex(columns=["chosen", "rejected"]).dropna()
    found = outcomes(both.chosen, both.rejected, metric)
    return {
        "metric": metric.name,
        "better": "less" if metric.sign < 0 else "more",
        **mean_with_bounds("chosen", both.chosen),
        **mean_with_bounds("rejected", both.rejected),
        **mean_with_bounds("chosen - rejected", both.chosen - both.rejected),
        "prefers the chosen": (found == 1).sum(),
        "tie": (found == 0).sum(),
        "prefers the rejected": (found == -1).sum(),
        "pairs": len(both),
        "left out": len(pairs) - len(both),
    }


def systems_as_experts_see_them(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """By system how many of its texts were chosen, tied and rejected; mean (1 to 5) and number of each rating.

    A mean is NaN without ratings; a system without a judged text has no row.
    """
    system = drafts.set_index("draft_id").system
    texts, given = shown_texts(judgements), ratings(judgements)
    counts = pd.crosstab(texts.draft_id.map(system), texts.outcome).reindex(columns=list(EXPERT_OUTCOMES), fill_value=0)
    rows = counts.assign(texts=counts.sum(axis=1))
    by_system = given.groupby([given.property, given.draft_id.map(system)]).rating.agg(["mean", "size"])
    for name in RATED:
        own = by_system.reindex(pd.MultiIndex.from_product([[name], rows.index])).droplevel(0)
        rows[name], rows[f"{name} ratings"] = own["mean"], own["size"].fillna(0).astype(int)
    ordered = rows.reindex([name for name in SYSTEMS if name in rows.index])
    return ordered.rename_axis(index="system", columns=None).reset_index()


def ratings(judgements: pd.DataFrame) -> pd.DataFrame:
    """A row per rating: sheet_id, draft_id, property, rating (1 to 5); `property` is one of RATED.

    Judgements without ratings of a property have no row for it.
    """
    rows = [
        (row["sheet_id"], draft, name, rating)
        for row in judgements.to_dict("records")
        for name in RATED
        for draft, rating in zip((row["first"], row["second"]), row[name], strict=False)
    ]
    return pd.DataFrame(rows, columns=["sheet_id", "draft_id", "property", "rating"])


def agreement_of_experts(judgements: pd.DataFrame, drafts: pd.DataFrame) -> pd.DataFrame:
    """How often two judgements of one sheet, or two ratings of one text, are the same, and Krippendorff's alpha.

    A row for the better text (nominal alpha) and one for each of RATED (ordinal alpha); empty without judgements.
    Alpha is missing where it is not defined, and so is a share without two judgements to compare.
    """
    if not len(judgements):
        return pd.DataFrame()
    better = judgements.better.map(drafts.set_index("draft_id").system).fillna("neither")
    given = ratings(judgements)
    by_text = {name: given[given.property == name].groupby(["sheet_id", "draft_id"]).rating for name in RATED}
    units = {"better text": better.groupby(judgements.sheet_id), **by_text}
    return pd.DataFrame([
        _agreed(name, (list(unit) for _, unit in groups), ordinal=name in RATED) for name, groups in units.items()
    ])  # fmt: skip


def _agreed(name: str, units: Iterable[list[Any]], *, ordinal: bool) -> dict[str, Any]:
    """The row `name` of `agreement_of_experts`: the share of equal pairs in percent and Krippendorff's alpha.

    `units`: a list of labels for each thing that was judged; those with one label are ignored. `ordinal`: else alpha
    is nominal.
    """
    judged_twice = [unit for unit in units if len(unit) > 1]
    agreed = pairwise_share(judged_twice)
    return {
        "judgement": name,
        "judged by two or more": len(judged_twice),
        "judgements of these": sum(map(len, judged_twice)),
        "agreed, %": None if agreed is None else 100 * agreed,
        "Krippendorff's alpha": alpha(judged_twice, ordinal=ordinal).value,
    }
