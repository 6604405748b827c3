"""Systems ranked by the corrected distance, over the same cases for all, with what speaks against a system's numbers.

A frame of drafts has a row for each draft: case_id, system, distance (the paper's count), corrected, normalised, valid,
silent, wholesale, not_placed, no_ops, duplicates, lost_edits; missing where the editor's reply could not be used, and
`valid` also without a reference. A system whose edits are of no use too often is not ranked, and a case counts only
where each ranked system has a corrected distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tasks.metrics.intervals import mean_interval
from tasks.revision_distance.faults import CEILINGS, TOLD
from tasks.revision_distance.tables.differences import differences, doubts

AVERAGED = {"edits": "distance", "without effect": "no_ops", "twice": "duplicates", "residual": "residual"}

TRUST_NOTE = (
    "Valid: the edits give the words of the reference. Coverage: the share of the alignment's edits that they bring "
    "about. Means are per draft with a list. Silent: no edit has an effect, although nothing says that none is needed; "
    "unplaced: most edits have no place in the draft; wholesale: the "
    "edits replace so much that they count as the alignment's; padded: more than half have no effect, or stand there "
    "twice; lost edits could not be read."
)


LEAST_SHARE = 0.1  # of the cases of the system with most, which a ranked system has
NO_COMMON_CASE = (
    "no case has a draft of every system: drafts of one case have one id, or one reference; leave out systems that "
    "share no case"
)


class Ranking(NamedTuple):
    """`systems`: a row for each system, best first, those that are not ranked last; `pairs`: a row for each two ranked
    systems; `cases`: how many cases the ranking is over; `unranked`: system -> why it is not ranked.
    """

    systems: pd.DataFrame
    pairs: pd.DataFrame
    cases: int
    unranked: dict[str, str]


def ranking(drafts: pd.DataFrame, ceilings: Mapping[str, float] = CEILINGS) -> Ranking:
    """The systems ranked by their mean corrected distance, the least first; equal means share a rank.

    `ceilings`: fault (a key of TOLD) -> the share of a system's drafts, 0 to 1, above which it is not ranked. A column
    `stand_in` of the frame counts where there is no corrected distance, so that a system gains nothing by the drafts of
    which no list can be used. A system with a distance in fewer than LEAST_SHARE of the cases of another is not ranked,
    as all others would be ranked over these few.
    """
    counted = _stands_in(drafts)
    unranked = {
        str(name): why for name, own in drafts.groupby("system", sort=False) if (why := why_unranked(own, ceilings))
    }
    names = [name for name in map(str, drafts.system.unique()) if name not in unranked]
    unranked |= too_few(counted, names)
    names = [name for name in names if name not in unranked]
    common = common_cases(counted, names)
    if not common:
        unranked |= dict.fromkeys(names, NO_COMMON_CASE)
        names = []
    means = {name: _of_cases(counted, name, common).corrected.mean() for name in names}
    ordered = sorted(names, key=lambda name: (np.nan_to_num(means[name], nan=np.inf), name))
    ranks = _ranks([means[name] for name in ordered])
    rows = [
        _system(drafts, name, _of_cases(counted, name, common), rank, None)
        for name, rank in zip(ordered, ranks, strict=True)
    ] + [_system(drafts, name, None, None, why) for name, why in sorted(unranked.items())]
    scores = {name: _of_cases(counted, name, common) for name in ordered}
    return Ranking(pd.DataFrame(rows), differences(scores), len(common), unranked)


def _stands_in(drafts: pd.DataFrame) -> pd.DataFrame:
    """The drafts with `stand_in` where there is no corrected distance, and no count of the baseline."""
    if "stand_in" not in drafts:
        return drafts
    names = [name for name in ("corrected", "aligned") if name in drafts]
    return drafts.assign(**{name: drafts[name].fillna(drafts.stand_in) for name in names})


def too_few(drafts: pd.DataFrame, systems: Sequence[str]) -> dict[str, str]:
    """System -> why it is not ranked, of each with a corrected distance in fewer than LEAST_SHARE of the cases that the
    system with most has.
    """
    cases = drafts[drafts.corrected.notna() & drafts.system.isin(systems)].groupby("system").case_id.nunique()
    most = int(cases.max()) if len(cases) else 0
    return {
        str(name): f"it has drafts of {number:,} case{'s' * (number != 1)}, another system of {most:,}: over so few "
        "none can be ranked"
        for name, number in cases.items()
        if number < LEAST_SHARE * most
    }


def faults(own: pd.DataFrame) -> pd.DataFrame:
    """For each draft whether it has each fault (a key of TOLD); missing where that cannot be said."""
    usable = own.corrected.notna()
    junk = own.no_ops.fillna(0) + own.duplicates.fillna(0)
    found = {
        "unusable": ~usable,
        "silent": own.silent,
        "unplaced": (2 * own.not_placed.fillna(0) > own.distance.fillna(0) - junk).where(usable),
        "wholesale": own.wholesale,
        "padded": (2 * junk > own.distance.fillna(0)).where(usable),
        "invalid": own.valid.map({True: False, False: True}),
    }
    return pd.DataFrame({name: pd.Series(column, own.index).astype(object) for name, column in found.items()})


def why_unranked(own: pd.DataFrame, ceilings: Mapping[str, float]) -> str | None:
    """Why a system with these drafts is not ranked, e.g. `3 of 4 drafts …: 75 %, ceiling 10 %`; None if it is."""
    found = faults(own)
    if own.corrected.isna().all():
        return f"{len(own):,} of {len(own):,} drafts {TOLD['unusable']}"
    for name, ceiling in ceilings.items():
        known = found[name].dropna()
        number = int(known.astype(bool).sum())
        enough = number > 1 or number == len(known)  # one draft of several says nothing of the others
        if enough and number and number / len(known) > ceiling:
            return (
                f"{number:,} of {len(known):,} drafts {TOLD[name]} ({number / len(known):.0%}, ceiling {ceiling:.0%})"
            )
    return None


def common_cases(drafts: pd.DataFrame, systems: Sequence[str]) -> list[Any]:
    """The cases of which each of these systems has a corrected distance, in the order of the drafts."""
    usable = drafts[drafts.system.isin(systems) & drafts.corrected.notna()]
    times = usable.groupby("case_id", sort=False).system.nunique()
    return [case for case, number in times.items() if number == len(systems)]


def _system(
    drafts: pd.DataFrame, name: str, common: pd.DataFrame | None, rank: int | None, why: str | None
) -> dict[str, Any]:
    """A system's row: its means over its drafts of the common cases (None: over all), beside them those over all its
    drafts and over the valid ones, and its faults.
    """
    own = drafts[drafts.system == name]
    over = own if common is None else common
    row: dict[str, Any] = {"rank": rank, "system": name, "cases": len(over)}
    low, high = mean_interval(over.corrected.dropna().astype(float))
    row |= {"corrected": over.corrected.astype(float).mean(), "corrected from": low, "corrected to": high}
    row |= {
        "per 100 words": over.normalised.astype(float).mean(),
        "paper's distance": over.distance.astype(float).mean(),
    }
    valid = own[own.valid.map({True: True}).notna()]
    row |= {"drafts": len(own), "corrected, all": own.corrected.astype(float).mean()}
    row |= {
        "valid drafts": len(valid) if own.valid.notna().any() else None,
        "corrected, valid": valid.corrected.astype(float).mean(),
    }
    found = faults(own)
    row |= {fault: int(found[fault].dropna().astype(bool).sum()) for fault in TOLD}
    return {**row, "why not ranked": why}


def _of_cases(drafts: pd.DataFrame, name: str, cases: Sequence[Any]) -> pd.DataFrame:
    """The drafts of a system in the order of these cases, indexed by them; of several the first."""
    own = drafts[drafts.system == name].drop_duplicates("case_id").set_index("case_id")
    return own.loc[list(cases)]


def _ranks(means: Sequence[float]) -> list[int]:
    """1 for the first of means in ascending order; equal ones share a rank."""
    found = [1] if means else []
    for number, (one, other) in enumerate(pairwise(means), start=2):
        found.append(found[-1] if np.isclose(one, other, rtol=0, atol=1e-9) else number)
    return found


def trust(drafts: pd.DataFrame, keys: Sequence[str] = ("system",)) -> pd.DataFrame:
    """By `keys`, how far the lists of edits can be trusted: drafts, those with a list, valid ones among those with a
    reference, mean coverage, means per draft of edits and of what the corrected distance leaves out or adds, lists of
    each fault, and lists that lost edits.
    """
    rows = []
    for key, own in drafts.groupby(list(keys), sort=False):
        usable = own[own.corrected.notna()]
        known, found = usable.valid.dropna().astype(bool), faults(own)
        row: dict[str, Any] = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True))
        row |= {"drafts": len(own), "with edits": len(usable), "with a reference": len(known)}
        row |= {"valid": int(known.sum()), "valid %": 100 * known.mean() if len(known) else np.nan}
        row |= {"coverage %": 100 * usable.coverage.astype(float).mean()}
        for name, column in AVERAGED.items():
            row[name] = usable[column].astype(float).mean()
        row |= {
            fault: int(found[fault].dropna().astype(bool).sum())
            for fault in ("silent", "unplaced", "wholesale", "padded")
        }
        rows.append({**row, "with lost edits": int((usable.lost_edits.fillna(0) > 0).sum())})
    return pd.DataFrame(rows)


def few_cases(found: Ranking, drafts: pd.DataFrame) -> list[str]:
    """A sentence for each ranked system that has less than half of all cases, and so takes them from the others."""
    usable = drafts[drafts.corrected.notna() & ~drafts.system.astype(str).isin(found.unranked)]
    own = usable.groupby("system", sort=False).case_id.nunique()
    total = usable.case_id.nunique()
    return [
        f"{name} has drafts of {number:,} of the {total:,} cases only: without it the others are ranked over more."
        for name, number in own.items()
        if 2 * number < total and found.cases
    ]


def _stood_in(found: Ranking, drafts: pd.DataFrame) -> list[str]:
    """A sentence on the drafts of ranked systems that count without a list, if there are any."""
    if "stand_in" not in drafts:
        return []
    counted = drafts[
        drafts.corrected.isna() & drafts.stand_in.notna() & ~drafts.system.astype(str).isin(found.unranked)
    ]
    if not len(counted):
        return []
    told = ", ".join(f"{number:,} of {name}" for name, number in counted.groupby("system", sort=False).size().items())
    return [f"Drafts without a usable list count as the lexical baseline counts their edits ({told})."]


def ranking_notes(found: Ranking, drafts: pd.DataFrame) -> tuple[str, str]:
    """(what is to be read below the table of systems, below the table of pairs)."""
    signatures = sorted(map(str, drafts.signature.dropna().unique()))
    sentences = [
        "Corrected distance: edits with an effect, each once, what replaces most of a draft counted as an alignment of "
        "sentences counts it, and the edits that are left to the reference. Less is better.",
        f"Ranked over the {found.cases:,} cases of which every ranked system has one; intervals (95 %) by bootstrap.",
        *few_cases(found, drafts),
        *_stood_in(found, drafts),
        *(f"{name} is not ranked: {why}." for name, why in found.unranked.items()),
        *([f"Signature: {'; '.join(signatures)}."] if signatures else []),
    ]
    of_pairs = [
        "Less corrected distance, over the same cases; intervals (95 %) by paired bootstrap, effect size: Cohen's d of "
        "the differences. Clear: the interval does not hold 0. By the baseline and by TER, which ask no editor: "
        "whether the better one needs clearly less.",
        *doubts(found.pairs),
    ]
    return " ".join(sentences), " ".join(of_pairs)
