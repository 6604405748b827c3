"""One version of each paper: cases of two versions (preprint and camera-ready, two submissions) would count twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from longform.artifacts.rows import AllRows, Rejected
from longform.engine.stage import AtMost, StageContext, stage
from schemas.revision_distance import HARD

OTHER_VERSION = "another version of the paper is kept"


@stage(HARD, revision=1, at_most=AtMost(keeps=True))
def keep_one_version(context: StageContext, hard: AllRows, duplicates: AllRows) -> Iterator[pa.RecordBatch | Rejected]:
    """The cases of the one version of each paper that is kept: of those that have cases, that with the smallest id. A
    Rejected, with the id of the kept version, for each case of another one. `duplicates`: rows of DUPLICATES; doubtful
    pairs count as two papers.
    """
    kept = kept_versions(duplicates.as_dicts("first_id", "second_id", "group_id"), _papers(hard))
    for batch in hard.batches():
        papers = batch["paper_id"].to_pylist()
        other = [kept.get(paper, paper) != paper for paper in papers]
        for case_id, paper, is_other in zip(batch["case_id"].to_pylist(), papers, other, strict=True):
            if is_other:
                yield Rejected(case_id, "filtered", OTHER_VERSION, detail=kept[paper])
        yield batch.filter(pa.array([not one for one in other]))


def _papers(hard: AllRows) -> set[str]:
    """The ids of the papers that have cases."""
    return {row["paper_id"] for row in hard.as_dicts("paper_id")}


def kept_versions(duplicates: Iterable[Mapping[str, str | None]], papers: set[str]) -> dict[str, str]:
    """paper_id -> the id of the version that is kept, for all of `papers` that have another version: the smallest id
    of those in `papers`. `duplicates`: rows with first_id, second_id and group_id, which is null for doubtful pairs.
    """
    groups: dict[str, set[str]] = {}
    for row in duplicates:
        if row["group_id"] is not None:
            groups.setdefault(row["group_id"], set()).update(papers & {row["first_id"], row["second_id"]})
    return {paper: min(members) for members in groups.values() for paper in members}
