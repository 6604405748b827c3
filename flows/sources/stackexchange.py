"""Stack Exchange data dumps: fetched from an item of archive.org or a mirror; read as posts and threads."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from flows.sources import Defect, Terms
from longform.artifacts.rows import Rows
from longform.engine.stage import Builder
from longform.errors import HttpError, SourceError, UsageError
from longform.net.download import Downloader, Progress
from tasks.sources.admission import admit, admit_posts, listed_in
from tasks.sources.stackexchange.posts import host_of_today, open_dumps, read_posts
from tasks.sources.stackexchange.threads import join_threads, open_users, read_users

BASE_URL = "https://archive.org"
ITEM = "stackexchange"
TABLES = ("badges", "comments", "posthistory", "postlinks", "tags", "users", "votes")
_MD5 = re.compile(r"[0-9a-fA-F]{32}")
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")

AGREEMENT = (
    "Dumps from 2024-07 on are given out by Stack Exchange only to people who log in and agree that the file is for "
    "their own use, for projects that do not train a large language model, and that passing it on for that may end "
    "their access; whether that binds what CC BY-SA allows is disputed"
)

TERMS = Terms(
    what="questions and answers of a site, with votes, from its data dump",
    licence="CC BY-SA 2.5, 3.0 or 4.0 by date, in the row; adapted texts are shared alike. Dumps to 2024-04 lie on "
    "archive.org without further conditions; later ones come under a download agreement: decide on it before you "
    "use one (docs/data-policy.md)",
    attribution="Stack Exchange, the question's address, each author's name and profile",
)

DEFECTS = (
    Defect(
        "Some rows hold characters that XML 1.0 forbids, or break off; the characters are removed and "
        "counted, a row that cannot be parsed is rejected.",
        ("repaired", "unreadable row"),
    ),
    Defect(
        "Posts without any text stand in old dumps, and are rejected.",
        ("empty post",),
    ),
    Defect(
        "Answers outlive their questions, which were deleted.",
    ),
    Defect(
        "Whether a question is a duplicate stands in PostLinks.xml, in old texts only as a banner.",
        ("not a duplicate",),
    ),
)


class Fetch(BaseModel):
    base_url: str = Field(BASE_URL, description="archive.org, or a mirror with its paths /metadata and /download")
    item: str = Field(
        ITEM, pattern=r"^[A-Za-z0-9._-]+$", description="of archive.org; the default holds the dumps to 2024-04"
    )
    agreement: bool = Field(
        False, description="other items: true says that you decided on the agreement of dumps from 2024-07 on"
    )


def fetch(http: Downloader, what: list[str], folder: Path, config: Fetch, progress: Progress) -> list[Path]:
    """Fetch the dumps of sites, named by their hosts: beer.stackexchange.com, stackoverflow.com (its posts only)."""
    if config.item != ITEM and not config.agreement:
        raise UsageError(
            f"The item {config.item} may hold a dump from 2024-07 or later. {AGREEMENT}. "
            "If you have decided that your use is covered, add --set agreement=true."
        )
    base_url = config.base_url.rstrip("/")
    known = files_of(http, f"{base_url}/metadata/{config.item}")
    facts = {"item": config.item} | ({"download_agreement": "accepted"} if config.agreement else {})
    return [
        http.download(
            f"{base_url}/download/{config.item}/{name}",
            folder / name,
            size=int(size) if (size := str(known.get(name, {}).get("size", ""))).isdecimal() else None,
            md5=md5 if _MD5.fullmatch(md5 := str(known.get(name, {}).get("md5"))) else None,
            facts=facts,
            progress=progress,
        ).path
        for name in (archive_of(host, known) for host in what)
    ]


def files_of(http: Downloader, url: str) -> dict[str, Mapping[str, Any]]:
    """file name -> its entry (size, digests) in the list of files of an archive.org item, whose URL is `url`; empty if
    the list cannot be fetched or is none.
    """
    try:
        listed = http.get(url).json()
    except (HttpError, SourceError):
        return {}
    files = listed.get("files") if isinstance(listed, dict) else None
    return {
        entry["name"]: entry
        for entry in (files if isinstance(files, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }


def archive_of(host: str, known: Mapping[str, Any]) -> str:
    """The file name of the archive with a site's posts. `host`: the site's host, also with .7z behind it; `known`: the
    item's files by name. If `known` is empty, the usual name is returned. UsageError for a text that is no host, or if
    the item has no such archive.

    Archives keep a site's first host, e.g. beer for what is now alcohol.
    """
    host = host.lower().removesuffix(".7z")
    if not _HOST.fullmatch(host):
        raise UsageError(f'"{host}" is no host of a site: write e.g. beer.stackexchange.com.')
    if not known:
        return f"{host}-Posts.7z" if host == "stackoverflow.com" else f"{host}.7z"
    for name in (f"{host}-Posts.7z", f"{host}.7z"):
        if name in known:
            return name
    hosts = {host_of_today(name.removesuffix(".7z")): name for name in known if name.endswith(".7z")}
    if host in hosts:
        return hosts[host]
    near = difflib.get_close_matches(host, hosts, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"it lists {len(hosts)} archives."
    raise UsageError(f'The item lists no dump of "{host}"; {hint}')


class Read(BaseModel):
    site: str | list[str] | None = Field(
        None, description="host of each dump, e.g. beer.stackexchange.com, where its name does not tell"
    )
    retrieved_at: str | None = Field(None, description="when the dumps were fetched, where no side file says it")


def read(builder: Builder, paths: list[Path], config: Read) -> list[Rows]:
    """Posts of dumps (a .7z, a Posts.xml, or a folder of them), their users, and their threads: questions
    with answers.
    """
    digest = builder.digests
    dumps = [str(dump) for path in paths for dump in dumps_of(path)]
    opened = open_dumps(dumps, config.site, config.retrieved_at, digest)
    sites = {dump.group for dump in opened}
    posts = admit(builder, admit_posts, read_posts(builder, opened), sites)
    users = read_users(builder, open_users(opened, digest))
    return [posts, users, join_threads(builder, posts, users, **listed_in(builder.store.home, sites))]


def dumps_of(path: Path) -> list[Path]:
    """The dumps that a path stands for. For a folder with more than one .7z archive, not counting those of other
    tables than posts (names ending in one of TABLES), these archives, sorted; else only the path itself.
    """
    if not path.is_dir():
        return [path]
    archives = sorted(file for file in path.glob("*.7z") if not file.stem.lower().endswith(TABLES))
    archives = [file for file in archives if not file.is_symlink()]
    return archives if len(archives) > 1 else [path]
