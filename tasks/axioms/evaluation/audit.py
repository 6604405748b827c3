"""The audit `contaminated`: no text of the split train is one with a text of an evaluation set of the same version.

It says again what `decontaminate` did, by other ways: n-grams are hashes of joined words, near-duplicates come from an
exact join of both sides, and it reads the published files alone. Files of evaluation texts of one's own are not among
these. Memory: the hashes of the evaluation texts, and of four times as many texts of train.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np

from longform.artifacts.rows import read_parquet
from tasks.publishing.audits import Files, Finding
from tasks.publishing.leaks import NEARLY, TEST, TRAIN
from tasks.text.copies.contamination import COMMON, RUN, SHORTEST, plain_words
from tasks.text.copies.duplicates import near_duplicates
from tasks.text.copies.shingles import shingle_hashes

CONTAMINATED = "contaminated"
FEWEST = 20_000  # training texts that are joined at a time, at least

OF_RANKING = """
    SELECT set, question_id, question_id, true, question FROM {0}
    UNION ALL SELECT set, one.answer_id, one.answer_id, false, one.text
    FROM (SELECT set, unnest(answers) AS one FROM {0}) WHERE NOT one.negative
"""
OF_COMPARISONS = """
    SELECT set, question, question, true, question FROM {0}
    UNION ALL SELECT set, question, comparison_id, false, unnest([preferred.text, rejected.text]) FROM {0}
    UNION ALL SELECT set, question, comparison_id, false, unnest(preferred.evidence || rejected.evidence) FROM {0}
"""
OF_RESEARCH = "SELECT DISTINCT 'research', question, question, true, question FROM {0}"
OF_PAIRS = """
    SELECT DISTINCT source, question_id, question_id, true, question FROM {0}
    UNION SELECT source, preferred_id, preferred_id, false, preferred FROM {0} WHERE preferred_model IS NULL
    UNION SELECT source, rejected_id, rejected_id, false, rejected FROM {0} WHERE rejected_model IS NULL
    UNION SELECT source, split_part(id, '#', 1), id, false, text
    FROM (SELECT source, unnest(evidence_ids) AS id, unnest(evidence) AS text FROM {0})
"""
OF_TRAIN = """
    SELECT question_id, true, question FROM {0} UNION SELECT preferred_id, false, preferred FROM {0}
    UNION SELECT rejected_id, false, rejected FROM {0}
    UNION SELECT unnest(evidence_ids), false, unnest(evidence) FROM {0} ORDER BY 1, 3
"""


def contaminated(files: Files) -> Iterator[Finding]:
    """The finding for each text of train that shares RUN words in a row, which are not common, with an evaluation text,
    shares NEARLY all of its word 3-grams with one, or is a short question of an evaluation set.
    """
    train = files.get("pairs", {}).get(TRAIN, ())
    if not train:
        return
    evaluated = _Evaluated(_rows(_of_evaluation(files)))
    texts = _rows(OF_TRAIN.format(read_parquet(train)))
    while some := list(islice(texts, max(FEWEST, 4 * len(evaluated.shingles)))):
        words = [plain_words(text) for _, _, text in some]
        near = evaluated.near(words)
        for place, (key, asks, text) in enumerate(some):
            what = near.get(place) or evaluated.shares(words[place]) or (asks and evaluated.asks(words[place], text))
            if what:
                yield Finding(CONTAMINATED, "pairs", TRAIN, key, what)


def _of_evaluation(files: Files) -> str:
    """SQL of all evaluation texts in published files: set, post, id, whether it asks, text."""
    found = {"ranking": OF_RANKING, "comparisons": OF_COMPARISONS, "research": OF_RESEARCH, "pairs": OF_PAIRS}
    of_test = ((query, files.get(config, {}).get(TEST, ())) for config, query in found.items())
    queries = [query.format(read_parquet(paths)) for query, paths in of_test if paths]
    return " UNION ALL ".join(f"({query})" for query in queries) or "SELECT '', '', '', false, '' LIMIT 0"


class _Evaluated:
    """The evaluation texts, from rows of (set, post, id, whether it asks, text)."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        runs, of_runs = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)]
        self.shingles, self.names, self._short = list[np.ndarray](), list[str](), dict[str, str]()
        posts, families = dict[tuple[str, str], int](), dict[str, int]()
        for family, post, key, asks, text in rows:
            words = plain_words(text)
            number = posts.setdefault((family, post), len(posts))
            families.setdefault(family, len(families))
            if len(words) >= RUN:
                self.shingles.append(shingle_hashes(" ".join(words)))
                self.names.append(f"{key} of {family}")
                runs.append(shingle_hashes(" ".join(words), RUN))
                of_runs.append(np.full(runs[-1].size, number))
            if asks:
                self._short |= dict.fromkeys(_short(words, text), f"{key} of {family}")
        self._posts = [f"{post} of {family}" for family, post in posts]
        sets = np.array([families[family] for family, _ in posts], np.int64)
        self._runs, self._owners = _uncommon(np.concatenate(runs), np.concatenate(of_runs), sets)

    def shares(self, words: Sequence[str]) -> str | None:
        """What has a run of words in common."""
        if len(words) < RUN or not self._runs.size:
            return None
        runs = shingle_hashes(" ".join(words), RUN)
        places = np.minimum(np.searchsorted(self._runs, runs), self._runs.size - 1)
        hit = places[self._runs[places] == runs]
        return f"shares {RUN} words with {self._posts[self._owners[hit[0]]]}" if hit.size else None

    def asks(self, words: Sequence[str], text: str) -> str | None:
        """Which short question, or title, has the same words."""
        hit = next((self._short[short] for short in _short(words, text) if short in self._short), None)
        return None if hit is None else f"is the question {hit}"

    def near(self, texts: Sequence[Sequence[str]]) -> dict[int, str]:
        """position of a text -> of which evaluation text it is a near-duplicate."""
        own = [place for place, words in enumerate(texts) if len(words) >= RUN]
        both = [*self.shingles, *(shingle_hashes(" ".join(texts[place])) for place in own)]
        size, found = len(self.shingles), dict[int, str]()
        for one, other in near_duplicates(both, NEARLY):
            if one < size <= other:
                found.setdefault(own[other - size], f"nearly the words of {self.names[one]}")
        return found


def _uncommon(runs: np.ndarray, posts: np.ndarray, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the runs that no set has in more than COMMON posts, sorted, each once; the first post of each). `sets`: of each
    post its set.
    """
    import pandas as pd

    frame = pd.DataFrame({"run": runs, "post": posts}).drop_duplicates()
    counts = frame.assign(set=sets[frame.post]).groupby(["run", "set"]).size()
    common = counts[counts > COMMON].index.get_level_values("run")
    first = frame[~frame.run.isin(common)].groupby("run").post.min()
    return first.index.to_numpy(np.uint64), first.to_numpy(np.int64)


def _short(words: Sequence[str], text: str) -> list[str]:
    """What a question counts as the same by: its words if it is short, and those of its title."""
    return [" ".join(own) for own in (words, plain_words(text.split("\n", 1)[0])) if SHORTEST <= len(own) < RUN]


def _rows(query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a query, read as they are asked for; what memory does not hold is spilled to disk."""
    with (
        TemporaryDirectory() as spill,
        duckdb.connect(config={"memory_limit": "1GB", "threads": 2, "temp_directory": spill}) as database,
    ):
        found = database.execute(query)
        while some := found.fetchmany(1_000):
            yield from some
