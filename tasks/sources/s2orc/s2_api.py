"""The Datasets API of Semantic Scholar: releases, their files, and the differences between releases.

    GET /release/latest                         {"release_id": "2025-01-07", "README": "...", "datasets": [...]}
    GET /release/2025-01-07/dataset/s2orc       {"name": "s2orc", "README": "...", "files": ["https://host/x.gz?sig=.."]}
    GET /diffs/2025-01-07/to/latest/s2orc       {"dataset", "start_release", "end_release", "diffs": [{
                                                 "from_release", "to_release", "update_files": [], "delete_files": []}]}

The last two want the header x-api-key. Files are on another host, under links that are signed for some days: what
identifies a file is the path of its link, not what follows the question mark, which changes with every call. A link
that the host answers with 403 has expired and is asked for again. The key goes to the API only. One request a second.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from longform.errors import HttpError, SourceError, UsageError
from longform.files import write_json
from longform.net.download import Downloader, Progress
from tasks.sources.s2orc.s2_records import string
from tasks.sources.s2orc.s2_releases import MANIFEST

BASE_URL = "https://api.semanticscholar.org/datasets/v1"
DATASETS = ("s2orc", "s2orc_v2", "papers", "abstracts", "citations")
KEY_HEADER = "x-api-key"
KEY_PAGE = "https://www.semanticscholar.org/product/api"
PER_SECOND = 1.0

_RELEASE = re.compile(r"\d{4}-\d{2}-\d{2}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")

FilesWanted = int | list[int] | None


def checked_datasets(names: Sequence[str]) -> list[str]:
    """The dataset names, each once, in order. Raises UsageError for a name that is not in DATASETS."""
    for name in names:
        if name not in DATASETS:
            raise UsageError(f'Semantic Scholar has no dataset "{name}" that is read here: name {", ".join(DATASETS)}.')
    return list(dict.fromkeys(names))


@dataclass(slots=True)
class Listing:
    """The files of a dataset that are downloaded into one folder, `<step>/<dataset>/<side>`.

    `step`: a release, or `<from>-to-<to>` for a difference; `side`: update or delete, empty for a release. `links`:
    path of a link -> the signed link, in order. `noted` goes into the manifest of the step, `facts` into the
    .fetch.json of every file.
    """

    dataset: str
    step: str
    links: dict[str, str]
    noted: dict[str, Any]
    facts: dict[str, str]
    side: str = ""


class DatasetsApi:
    """A client of the Datasets API: sends the key (None: no key), and at most `per_second` requests a second.

    `release` gives the id of a release, `files` the links of its files, `differences` those between two releases.
    """

    def __init__(
        self, http: Downloader, base_url: str = BASE_URL, *, key: str | None, per_second: float = PER_SECOND
    ) -> None:
        self.http, self.base_url, self.key = http, base_url.rstrip("/"), key
        http.keep_rate(self.base_url, per_second)

    def release(self, name: str) -> str:
        """The id (a date) of the release `name`; for `latest`, the id of the newest release.

        Raises UsageError if `name` is neither `latest` nor a date, or the API refuses the key; SourceError if there is
        no such release, or the reply names no date.
        """
        if name != "latest" and not _RELEASE.fullmatch(name):
            raise UsageError(f'release "{name}" is none: write latest, or a date as 2025-01-07.')
        return _release_id(self._get(f"release/{name}").get("release_id"))

    def files(self, release: str, dataset: str) -> list[Listing]:
        """A list of one Listing, which has all files of a dataset in a release. Its links are valid for some days.

        Raises UsageError if the API wants a key or refuses it; SourceError if it has no such release or dataset, or
        its reply has no list of files (an empty list is none).
        """
        found = self._get(f"release/{release}/dataset/{dataset}")
        links, readme = _by_path(found.get("files"), f"{dataset} of {release}"), string(found.get("README")) or ""
        if not links:
            raise SourceError(f"Semantic Scholar lists no files of {dataset} of {release}: try again later.")
        noted = {"README": readme, "files": list(links)}
        facts = {"release": release, "dataset": dataset, "readme": readme}
        return [Listing(dataset, release, links, noted, facts)]

    def differences(self, since: str, until: str, dataset: str) -> list[Listing]:
        """For each step from one release to the next two listings: files to put in (update), and files to delete.

        Raises UsageError if the API wants a key or refuses it; SourceError if it has no such releases or dataset, a
        step has no list of files, or the steps do not lead from `since` to `until`: without one of them deletions would
        be lost.
        """
        steps = self._get(f"diffs/{since}/to/{until}/{dataset}").get("diffs")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise SourceError(f"Semantic Scholar lists no differences of {dataset} since {since}: try again later.")
        listed = [_side(step, side, dataset) for step in steps for side in ("update", "delete")]
        begins = [step["from_release"] for step in steps] + [until]
        if begins != [since, *(step["to_release"] for step in steps)]:
            raise SourceError(
                f"The differences of {dataset} that Semantic Scholar lists do not lead from {since} to {until}, but by "
                f"{begins}: fetch the whole release {until} instead."
            )
        return listed

    def _get(self, path: str) -> dict[str, Any]:
        """The JSON object that the API returns for a path.

        Raises UsageError if the API wants a key or refuses it (401, 403), SourceError if there is no such path (404)
        or the reply is no JSON object; any other HttpError is passed on.
        """
        credentials = {KEY_HEADER: self.key} if self.key else None
        try:
            found = self.http.get(f"{self.base_url}/{path}", credentials=credentials).json()
        except HttpError as error:
            if error.status in (401, 403):
                problem = "refuses the key in S2_API_KEY" if self.key else "wants a key, and S2_API_KEY is not set"
                advice = f"ask for one at {KEY_PAGE}, and set S2_API_KEY to it"
                raise UsageError(f"Semantic Scholar {problem}: {advice}.") from None
            if error.status == 404:
                there = f"see {self.base_url}/release/ for what there is"
                raise SourceError(f"Semantic Scholar has no {path}: {there}.") from None
            raise
        if not isinstance(found, dict):
            raise SourceError(f"{self.base_url}/{path} answers with no JSON object: is base_url the Datasets API?")
        return found


def _side(step: dict[str, Any], side: str, dataset: str) -> Listing:
    """The Listing of the files to put in (`side`: update) or to delete (delete) in one step between releases.

    `step`: an item of `diffs` in the API's reply. Raises SourceError if it names no two releases, or no list of files.
    """
    since, until = _release_id(step.get("from_release")), _release_id(step.get("to_release"))
    links = _by_path(step.get(f"{side}_files"), f"{dataset} from {since} to {until}")
    facts = {"release": until, "dataset": dataset, "readme": "", "from": since, "change": side}
    return Listing(dataset, f"{since}-to-{until}", links, {side: list(links)}, facts, side)


def _release_id(value: Any) -> str:
    """The value, if it is the id of a release: a date such as 2025-01-07. Raises SourceError if not."""
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise SourceError(
            f"Semantic Scholar names a release {value!r}, which is no date: is base_url the Datasets API?"
        )
    return value


def _by_path(links: Any, subject: str) -> dict[str, str]:
    """Path of a link -> the signed link. Raises SourceError if `links` is no list of strings.

    `subject`: which files the links are of, for the message.
    """
    if not isinstance(links, list) or not all(isinstance(link, str) for link in links):
        raise SourceError(f"Semantic Scholar lists no files of {subject}: try again later.")
    return {urlsplit(link).path: link for link in links}


# ---------------------------------------------------------------- fetching


def fetch_release(
    api: DatasetsApi,
    names: Sequence[str],
    folder: Path,
    release: str,
    files_wanted: FilesWanted,
    progress: Progress | None,
) -> list[Path]:
    """Download the files of the datasets `names` into <folder>/<release>/<dataset>/; returns their paths.

    `files_wanted`: how many files of each dataset, or the positions (from 0) of those wanted; None: all. Raises
    UsageError if these name no file, and what `DatasetsApi` raises. The manifest of the release notes all files of
    these datasets, also those that are not wanted.
    """
    release = api.release(release)
    return _fetched(api.http, lambda name: api.files(release, name), names, folder, files_wanted, progress)


def fetch_differences(
    api: DatasetsApi,
    names: Sequence[str],
    folder: Path,
    since: str,
    until: str,
    files_wanted: FilesWanted,
    progress: Progress | None,
) -> list[Path]:
    """Download the differences between the releases `since` and `until`; returns the paths of the files.

    They go to <folder>/<from>-to-<to>/<dataset>/update and delete, and are noted in a manifest for each step. Raises
    UsageError if `since` is no date or not before `until`, `until` neither a date nor `latest`, or `files_wanted` is
    not None, as only whole differences can be fetched; and what `DatasetsApi` raises.
    """
    if not _RELEASE.fullmatch(since):
        raise UsageError(f'since "{since}" is no release: write a date as 2025-01-07.')
    if files_wanted is not None:
        raise UsageError("shards cannot be chosen with since: a difference without some of its files is none.")
    until = api.release(until)
    if since >= until:
        raise UsageError(
            f"since {since} is not older than the release {until}, so there are no differences to fetch: what you have "
            "is the newest, or name an older release that you have."
        )
    return _fetched(api.http, lambda name: api.differences(since, until, name), names, folder, None, progress)


def _fetched(
    http: Downloader,
    listings: Callable[[str], list[Listing]],
    names: Sequence[str],
    folder: Path,
    files_wanted: FilesWanted,
    progress: Progress | None,
) -> list[Path]:
    """Download the files of all listings of the datasets `names`; returns their paths.

    All datasets are listed, and the files that are wanted of them chosen, before the first download. All files of a
    listing are noted in the manifest of its step first. `listings`: returns the listings of a dataset;
    `files_wanted`: how many files of each listing, or the positions (from 0) of those wanted; None: all. Raises
    UsageError if these name no file.
    """
    found: list[Path] = []
    listed_by_name = {name: listings(name) for name in names}
    for name, listed in listed_by_name.items():
        for listing in listed:
            _picked(list(listing.links), files_wanted, name)
    for name, listed in listed_by_name.items():
        for listing in listed:
            _note(folder / listing.step, listing)
        for number, listing in enumerate(listed):
            files = file_names(list(listing.links))
            place = folder / listing.step / name / listing.side
            for path in _picked(list(listing.links), files_wanted, name):
                link = _link_of(listing, path, partial(listings, name), number)
                found.append(http.download(link, place / files[path], facts=listing.facts, progress=progress).path)
    return found


def _note(folder: Path, listing: Listing) -> None:
    """Add a listing to the manifest of its step, which is in `folder`: paths of files, never their signed links."""
    file = folder / MANIFEST
    held: dict[str, Any] = json.loads(file.read_bytes()) if file.exists() else {"release": folder.name, "datasets": {}}
    held["datasets"].setdefault(listing.dataset, {}).update(listing.noted)
    write_json(file, held)


def _link_of(listing: Listing, path: str, relist: Callable[[], list[Listing]], index: int) -> Callable[[], str]:
    """A function that returns the signed link of the file with this `path`.

    At its first call that is the link in `listing`. Each later call means that the link has expired: it lists the
    dataset anew, puts the new links into `listing`, and raises SourceError if the file is no longer listed. `relist`
    lists the dataset; `index` is the position of `listing` in what it returns.
    """
    asked = count()

    def link() -> str:
        if next(asked):
            listing.links = relist()[index].links
        if path not in listing.links:
            raise SourceError(f"Semantic Scholar lists {path} no longer: fetch the release again.")
        return listing.links[path]

    return link


def _picked(paths: list[str], files_wanted: FilesWanted, dataset: str) -> list[str]:
    """The paths that `files_wanted` selects: the first so many, or those at these positions (from 0); None: all.
    Raises UsageError for no path at all, and for more paths or a position than there are.
    """
    if files_wanted is None:
        return paths
    places = list(range(files_wanted)) if isinstance(files_wanted, int) else files_wanted
    if not places or min(places) < 0 or max(places) >= len(paths):
        raise UsageError(
            f"shards = {files_wanted} does not fit {dataset}, which has {len(paths)} of them: give how many, from 1 to "
            f"{len(paths)}, or their numbers, from 0 to {len(paths) - 1}."
        )
    return [paths[place] for place in places]


def file_names(paths: Sequence[str]) -> dict[str, str]:
    """For each path of a link a file name: its last part, with characters replaced that a file system may not take.

    Leading dots, dashes and underscores are dropped; "file" if nothing is left. A name that several paths share gets
    the path's position in front.
    """
    plain = {path: _UNSAFE.sub("_", posixpath.basename(unquote(path))).lstrip("._-") or "file" for path in paths}
    uses = Counter(plain.values())
    return {
        path: f"{number:05d}-{name}" if uses[name] > 1 else name for number, (path, name) in enumerate(plain.items())
    }
