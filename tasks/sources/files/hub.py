"""Files of a dataset repository on the Hugging Face hub, at one commit.

    GET <hub>/api/datasets/<owner>/<name>/tree/<commit>?recursive=true
        [{"type": "directory", "path": "data", "oid": "<git tree>"},
         {"type": "file", "path": "README.md", "size": 512, "oid": "<git blob>"},
         {"type": "file", "path": "data/train-00000.parquet", "size": 91, "oid": "<git blob of the pointer>",
          "lfs": {"oid": "<sha256 of the content>", "size": 91, "pointerSize": 128}}]
    GET <hub>/datasets/<owner>/<name>/resolve/<commit>/<path>     the content, mostly behind a redirect

The next page of a listing is at the address in the header Link, rel="next". A branch such as main names other files
tomorrow: some repositories changed their content and their licence under one name, so only the hash of a commit is
accepted. Large files are checked against their SHA-256, small ones against their git hash. Large files come from
another host by a signed link; that host must never see the token.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urljoin

import requests

from longform.addresses import origin, shown
from longform.artifacts.rows import Source
from longform.errors import HttpError, SourceError, UsageError
from longform.net.download import Downloader, Progress, side_file
from longform.settings import api_key
from tasks.sources.files.inputs import read_notes

HUB = "https://huggingface.co"
TOKEN = "HF_TOKEN"
MOST_PAGES = 1_000

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. `path`: within the repository; `size`: bytes of its content. `sha256`: of its content;
    None for a small file. `git`: the hash of its git blob, which for a large file is that of a pointer to the content.
    """

    path: str
    size: int
    sha256: str | None
    git: str


def fetch_hub(
    http: Downloader,
    repo: str,
    revision: str,
    paths: Sequence[str],
    folder: Path,
    progress: Progress | None = None,
    *,
    base_url: str = HUB,
) -> list[Path]:
    """Download the files of a dataset repository at this commit whose paths match one of `paths` (with * and ?, which
    also match /), into `folder/<commit>` under their paths in the repository. Return where they are, sorted by path in
    the repository. Each is complete, and its hash is checked.

    Files that are there already are not downloaded again. UsageError if `revision` is no full hash of a commit, `repo`
    not owner/name, or a file that is there another than the hub's; SourceError if a pattern matches no file or a hash
    differs; HttpError if the hub refuses; Incomplete if it does not answer in the end.
    """
    check_commit(repo, revision, base_url)
    files = chosen(list_hub(http, repo, revision, base_url=base_url), paths, f"{repo} at {revision}")
    return [_fetched(http, repo, revision, file, folder / revision, progress, base_url) for file in files]


def check_commit(repo: str, revision: str | None, base_url: str = HUB) -> None:
    """UsageError unless `revision` has the form of a full hash of a commit (40 hex digits, in lower case) and `repo`
    the form owner/name. The hub is not asked; `base_url` is for the message.
    """
    if not _REPO.fullmatch(repo):
        raise UsageError(f'"{repo}" names no dataset repository: write owner/name, e.g. allenai/WildChat-1M.')
    if not _COMMIT.fullmatch(revision or ""):
        problem = f'revision "{revision}" is no commit' if revision else "no revision is set"
        raise UsageError(
            f"{repo}: {problem}, and what a branch holds changes: set revision to the 40 hex digits of a commit from "
            f"{base_url}/datasets/{repo}/commits/main."
        )


def pinned(sources: Sequence[Source], *, repository: str | None, revision: str | None) -> list[Source]:
    """The sources, each with the added facts `repository` and `revision`: those that a fetch wrote beside the source's
    file (<name>.fetch.json), else these arguments, which may be None. UsageError if the argument `revision` is no full
    hash of a commit.
    """
    if revision is not None and not _COMMIT.fullmatch(revision):
        raise UsageError(f'revision "{revision}" is no commit: give its 40 hex digits, or leave it out.')
    given, found = {"repository": repository, "revision": revision}, []
    for source in sources:
        known = read_notes(side_file(Path(source.path))).get("facts")
        facts = {name: known.get(name, fact) if isinstance(known, dict) else fact for name, fact in given.items()}
        found.append(replace(source, facts=(*source.facts, *facts.items())))
    return found


def origin_of(source: Source) -> dict[str, str | None]:
    """Where a source with the facts `repository` and `revision` comes from, as columns of its rows: {"revision":
    commit or None, "url": page of the repository at this commit, None unless both facts are known}.
    """
    facts = dict(source.facts)
    repository, revision = facts.get("repository"), facts.get("revision")
    url = f"{HUB}/datasets/{repository}/tree/{revision}" if repository and revision else None
    return {"revision": revision, "url": url}


# ---------------------------------------------------------------- listing


def list_hub(http: Downloader, repo: str, revision: str, *, base_url: str = HUB) -> Iterator[HubFile]:
    """All files of the repository at this commit, listed page by page. SourceError if the listing has more than
    MOST_PAGES pages or another form, or goes on at another host; HttpError, with advice, if the hub refuses or knows no
    such commit.
    """
    url: str | None = f"{base_url}/api/datasets/{repo}/tree/{revision}?recursive=true"
    for _ in range(MOST_PAGES):
        if url is None:
            return
        with _explained(repo, revision, base_url):
            reply = http.get(url, credentials=_token())
        yield from _files(reply.json(), repo)
        url = _next(reply.headers, url)
    raise SourceError(f"The listing of {repo} at {revision} does not end within {MOST_PAGES} pages: try again later.")


def _files(entries: Any, repo: str) -> Iterator[HubFile]:
    """The files in one page of a listing, without its directories. SourceError if the page has another form."""
    try:
        yield from (hub_file(entry) for entry in entries if entry["type"] == "file")
    except (KeyError, TypeError, ValueError) as error:
        raise SourceError(
            f"{repo}: its listing is not what the hub's interface gives ({error}): is base_url a hub?"
        ) from None


def hub_file(entry: Mapping[str, Any]) -> HubFile:
    """The file that an entry of a listing describes. ValueError if its path could lead out of a folder, or is not of
    the plain form a/b/c, or if its size is no number; KeyError if a field is missing.
    """
    path = str(entry["path"])
    pieces = path.split("/")
    if path != str(PurePosixPath(path)) or ".." in pieces or not all(pieces) or re.search(r"[\\:\x00-\x1f]", path):
        raise ValueError(f"the path {path!r} is none of a file")
    lfs = entry.get("lfs")
    if not lfs:
        return HubFile(path, int(entry["size"]), None, str(entry["oid"]))
    return HubFile(path, int(lfs["size"]), str(lfs["oid"]).removeprefix("sha256:"), str(entry["oid"]))


def chosen(files: Iterator[HubFile], patterns: Sequence[str], subject: str) -> list[HubFile]:
    """The files whose paths match one of `patterns` (with * and ?, which also match /), sorted by path. SourceError,
    whose message begins with `subject`, if a pattern matches no file.
    """
    found = sorted(files, key=lambda file: file.path)
    for pattern in patterns:
        if not any(fnmatchcase(file.path, pattern) for file in found):
            there = ", ".join(file.path for file in found[:8]) or "nothing"
            raise SourceError(f"{subject} has no file {pattern}: it holds {there}{', …' if len(found) > 8 else ''}.")
    return [file for file in found if any(fnmatchcase(file.path, pattern) for pattern in patterns)]


def _next(headers: Mapping[str, str], url: str) -> str | None:
    """The address of the next page of a listing, from the headers of the page at `url`; None after the last page.
    SourceError if it is at another host, which would be sent the token.
    """
    links = {link.get("rel"): link["url"] for link in requests.utils.parse_header_links(headers.get("Link", ""))}
    if "next" not in links:
        return None
    following = urljoin(url, links["next"])
    if origin(following) != origin(url):
        raise SourceError(f"The listing at {shown(url)} goes on at another host, {shown(following)}: not followed.")
    return following


# ---------------------------------------------------------------- content


def _fetched(
    http: Downloader, repo: str, revision: str, file: HubFile, folder: Path, progress: Progress | None, base_url: str
) -> Path:
    """Download the file of the repository below `folder`, unless it is there, check its hash, and return its place.
    SourceError if the git hash of a small file differs, which is then deleted; for a large one the download checks the
    SHA-256.
    """
    place = folder / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    with _explained(repo, revision, base_url):
        http.download(
            f"{base_url}/datasets/{repo}/resolve/{revision}/{quote(file.path)}",
            place,
            size=file.size,
            sha256=file.sha256,
            credentials=_token(),
            facts={"repository": repo, "revision": revision},
            progress=progress,
        )
    if file.sha256 is None and git_hash(place) != file.git:
        place.unlink()
        raise SourceError(f"{file.path} of {repo} arrived with another git hash than {file.git}: fetch it again.")
    return place


def git_hash(path: Path) -> str:
    """The SHA-1, in hex digits, that git gives to the file's content as a blob."""
    start = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: start).hexdigest()


def _token() -> dict[str, str] | None:
    """The Authorization header with the user's hub token, or None where no token is set."""
    token = api_key(TOKEN)
    return {"Authorization": f"Bearer {token}"} if token else None


@contextmanager
def _explained(repo: str, revision: str, base_url: str) -> Iterator[None]:
    """A context in which an HttpError with status 401, 403 or 404 gets a message that says what to do. Other errors
    pass unchanged.
    """
    page = f"{base_url}/datasets/{repo}"
    refused = (
        f"The hub refuses {repo} (%s): it may be gated, private or misspelt; accept its terms at {page} and set "
        f"{TOKEN} to a token of yours."
    )
    unknown = f"The hub knows no commit {revision} of {repo}: look at {page}/commits/main."
    try:
        yield
    except HttpError as error:
        advice = {401: refused % 401, 403: refused % 403, 404: unknown}.get(error.status)
        if advice is None:
            raise
        raise HttpError(advice, status=error.status, body=error.body) from error
