"""Related questions of all sites (`neighbours_across_sites`): three generated sites against a brute-force search, what
their rows say of posts of other sites, takedowns, and every engine.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from axioms_builds import Silent, build_axioms
from standin_server import serve
from two_sites import contents

from flows.axioms import AxiomsConfig
from flows.axioms import trace as trace_pair
from flows.builds.building import Options, build
from flows.cli.shared.verification import check
from longform.artifacts.store import Store
from longform.artifacts.takedowns import add
from longform.artifacts.versions import Version, artifact, versions
from longform.engine.runners import Processes
from longform.engine.thread_tasks import Threads
from tasks.retrieval.counts import STOP_WORDS
from tasks.sources.permalinks import record_of

TEA, ALE, CUP = "tea.stackexchange.com", "ale.stackexchange.com", "cup.stackexchange.com"
SITES = (TEA, ALE, CUP)
LICENCES = {TEA: "CC BY-SA 2.5", ALE: "CC BY-SA 3.0", CUP: "CC BY-SA 4.0"}
WORDS = [f"{a}{b}" for a in ("ket", "bar", "yea", "mal", "foa", "lid", "roa") for b in ("tle", "rel", "st", "ty", "my")]
K, BOUND = 10, 0.8


def words(draw: random.Random, number: int) -> str:
    return " ".join(draw.choice(WORDS) + draw.choice(["", "s", "ed"]) for _ in range(number))


def write_site(folder: Path, site: str, questions: int, plain: tuple[str, ...] = ()) -> None:
    """Questions of drawn words, each with two answers by users of the site; `plain`: bodies of the first ones."""
    draw, rows = random.Random(site), []
    day = "2015-01-{:02}T00:00:00.000"
    for number in range(questions):
        own = 10 * (number + 1)
        body = plain[number] if number < len(plain) else words(draw, 14)
        common = f'CreationDate="{day.format(1 + number % 28)}" ContentLicense="{LICENCES[site]}"'
        rows.append(
            f'<row Id="{own}" PostTypeId="1" Score="2" OwnerUserId="1" Title="{body[:50]} {number}" Tags="&lt;tea&gt;" '
            f'Body="&lt;p&gt;{body}&lt;/p&gt;" {common} />'
        )
        for place in (1, 2):
            rows.append(
                f'<row Id="{own + place}" PostTypeId="2" ParentId="{own}" Score="{9 - 4 * place}" '
                f'OwnerUserId="{place + 1}" Body="&lt;p&gt;{words(draw, 40)} {site} {own}&lt;/p&gt;" {common} />'
            )
    users = [f'<row Id="{number}" DisplayName="{site[:3]} user {number}" />' for number in (1, 2, 3)]
    folder.mkdir(parents=True)
    for name, found in (("Posts", rows), ("Users", users)):
        lines = "".join(f"  {row}\n" for row in found)
        text = f'<?xml version="1.0" encoding="utf-8"?>\n<{name.lower()}>\n{lines}</{name.lower()}>\n'
        (folder / f"{name}.xml").write_text(text)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("dumps")
    draw = random.Random("shared")
    bodies = [words(draw, 14) for _ in range(6)]
    for place, site in enumerate(SITES):  # some questions of one site are asked at the others: equal, and nearly so
        plain = tuple(f"{body} {words(random.Random(f'{body}{site}'), place)}".strip() for body in bodies)
        write_site(folder / site, site, 70, plain)
    dumps = [str(folder / site) for site in SITES]
    return {"dump": dumps, "site": list(SITES), "test_share": 0.3, "neighbours_across_sites": True}


@pytest.fixture(scope="module")
def home(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    build_axioms(home, **settings)
    return home


@pytest.fixture(scope="module")
def version(home: Path) -> Version:
    return versions(home, "axioms")[0]


def stage(home: Path, version: Version, name: str) -> pd.DataFrame:
    store = Store(home)
    paths = [store.rows_path(part) for part in artifact(store, version, name).parts]
    return pd.concat([pd.read_parquet(path) for path in paths], ignore_index=True)


def pairs(version: Version) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(path) for path in version.tables()["pairs"]], ignore_index=True)


def agrees_with_all_cosines(related: pd.DataFrame, candidates: pd.DataFrame, cosines: np.ndarray) -> int:
    """Asserts that the neighbours are the nearest; returns how many of them are of another site."""
    ids = candidates.candidate_id.tolist()
    place_of = {key: place for place, key in enumerate(ids)}
    split, group = candidates.split.to_numpy(), candidates["group"].to_numpy()
    foreign = 0
    for row in related.itertuples():
        own = place_of[row.question_id]
        usable = (split == split[own]) & (group != group[own]) & (cosines[own] > 1e-5) & (cosines[own] < BOUND)
        best = sorted(np.flatnonzero(usable), key=lambda place: (-round(cosines[own, place], 5), place))[:K]
        assert list(row.similarities) == pytest.approx([cosines[own, place] for place in best], abs=3e-5)
        found = [place_of[key] for key in row.neighbours]
        assert len(set(found)) == len(best)
        assert usable[found].all()
        assert [cosines[own, place] for place in found] == pytest.approx(list(row.similarities), abs=3e-5)
        for negative in row.negatives:
            near = place_of[negative["question_id"]]
            assert near in found
            assert negative["answer_id"] in {answer["answer_id"] for answer in candidates.answers[near]}
        foreign += sum(key.split("/")[0] != row.question_id.split("/")[0] for key in row.neighbours)
    return foreign


def test_neighbours_are_the_nearest_of_all_sites_on_the_side(home: Path, version: Version) -> None:
    candidates = stage(home, version, "list_candidates")
    from sklearn.feature_extraction.text import TfidfVectorizer

    made = TfidfVectorizer(token_pattern=r"\w+", stop_words=list(STOP_WORDS), sublinear_tf=True).fit_transform(
        candidates["head"]
    )
    related = stage(home, version, "find_related_across_sites")
    assert set(related.question_id) == set(stage(home, version, "select_questions").question_id)
    assert agrees_with_all_cosines(related, candidates, (made @ made.T).toarray()) > 1_000


def test_rejected_answers_of_other_sites_are_credited_to_their_authors_there(home: Path, version: Version) -> None:
    posts = stage(home, version, "scrub_posts").set_index("post_id")
    negatives = pairs(version)
    negatives = negatives[negatives.axiom == 1]
    sites = negatives.rejected_id.str.split("/").str[0]
    for site in SITES:
        assert (sites[negatives.site == site] == site).any()
        assert (sites[negatives.site == site] != site).any()
    for row in negatives.itertuples():
        site, number = row.rejected_id.split("/")
        user = int(number) % 10 + 1
        assert row.rejected == posts.text[row.rejected_id]
        assert row.rejected_url == f"https://{site}/a/{number}"
        assert row.rejected_licence == LICENCES[site]
        assert row.rejected_author == f"{site[:3]} user {user}"
        assert row.rejected_author_url == f"https://{site}/users/{user}"
        assert row.related_question_id == f"{site}/{int(number) // 10 * 10}"
        assert row.rejected_id.split("/")[0] == row.related_question_id.split("/")[0]
        assert row.preferred_id.split("/")[0] == row.site
    shown = {*negatives.rejected_id, *negatives.preferred_id, *negatives.question_id}
    assert shown <= set(pd.read_parquet(version.folder / "attribution.parquet").post_id)


def test_no_text_stands_on_both_sides(version: Version) -> None:
    rows = pairs(version)
    sides = [
        {*part.question, *part.preferred, *part.rejected, *(text for texts in part.evidence for text in texts)}
        for _, part in rows[rows.split != "overlap"].groupby("split")
    ]
    assert len(sides) == 2
    assert not sides[0] & sides[1]


def test_the_version_is_sound_and_its_pairs_can_be_traced(home: Path, version: Version) -> None:
    assert list(check(Store(home), version)) == []
    rows = pairs(version)
    foreign = rows[(rows.axiom == 1) & (rows.rejected_id.str.split("/").str[0] != rows.site)].iloc[0]
    lines = dict(trace_pair(Store(home), version, foreign.pair_id)["lines"])
    assert lines["built by"].startswith("assemble_pairs_across_sites ")
    assert "find_related_across_sites " in lines["built by"]
    assert all(site in lines["built by"] for site in SITES)


def test_an_answer_taken_down_leaves_the_pairs_of_other_sites(
    home: Path, version: Version, settings: dict[str, Any], tmp_path: Path
) -> None:
    rows = pairs(version)
    foreign = rows[(rows.axiom == 1) & (rows.site == TEA) & rows.rejected_id.str.startswith(ALE)]
    gone = foreign.rejected_id.value_counts().index[0]
    add(tmp_path, [(record_of(gone), "2026-11-24", "asked")])
    after, _, _ = build_axioms(tmp_path, **settings)
    assert after is not None
    left = pairs(after)
    assert gone not in {*left.rejected_id, *left.preferred_id}
    assert foreign[foreign.rejected_id == gone].rejected.iloc[0] not in set(left.rejected)
    assert list(check(Store(tmp_path), after)) == []


def test_by_default_the_neighbours_are_of_the_site(settings: dict[str, Any], tmp_path: Path) -> None:
    alone, _, _ = build_axioms(tmp_path, **{**settings, "neighbours_across_sites": False})
    assert alone is not None
    rows = pairs(alone)
    negatives = rows[rows.axiom == 1]
    assert len(negatives) > 1_000
    assert (negatives.rejected_id.str.split("/").str[0] == negatives.site).all()


def test_vectors_of_an_endpoint_find_the_nearest_of_all_sites(settings: dict[str, Any], tmp_path: Path) -> None:
    with serve() as server:
        mine = {"mine": {"base_url": server.url, "model": "m"}}
        built, _, _ = build_axioms(tmp_path, **settings, embedding="mine", endpoints=mine)
        assert built is not None
        candidates = stage(tmp_path, built, "list_candidates")
        vectors = np.array(vectors_of(server.url, candidates["head"].tolist()))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    related = stage(tmp_path, built, "find_related_across_sites")
    assert agrees_with_all_cosines(related, candidates, vectors @ vectors.T) > 100


def vectors_of(url: str, texts: list[str]) -> list[list[float]]:
    import httpx

    found = []
    for start in range(0, len(texts), 50):
        reply = httpx.post(f"{url}/embeddings", json={"model": "m", "input": texts[start : start + 50]}).json()
        found += [entry["embedding"] for entry in sorted(reply["data"], key=lambda entry: entry["index"])]
    return found


@pytest.mark.check
@pytest.mark.parametrize("runner", [Processes, partial(Processes, small_bytes=0)])
def test_processes_make_the_same_bytes(runner: Any, home: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    build(
        "axioms",
        AxiomsConfig(**settings),
        Options(tmp_path, "v1"),
        tasks=Threads(),
        progress=Silent(),
        runner=runner(),
    )
    assert contents(tmp_path) == contents(home)
