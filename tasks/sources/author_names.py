"""Authors of posts and papers as people name them: the id author/… for a profile's address, u/name and the like.

https://cooking.stackexchange.com/users/1084/ann    author/cooking.stackexchange.com/1084
u/some_name, https://www.reddit.com/user/some_name  author/9c0b5e71d2…, the hash of the name under the home's key
https://openreview.net/profile?id=~Ada_Aloft1       author/~ada_aloft1
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from longform.errors import UsageError
from longform.pseudonyms import Pseudonyms
from longform.settings import author_key
from tasks.sources.permalinks import SITES
from tasks.sources.reach import posts_of_authors
from tasks.sources.stackexchange.posts import host_of_today

_USER = re.compile(
    r"(?:https?://)?(?:www\.)?((?:[a-z0-9-]+\.)+[a-z]+)/(?:users|u)/([1-9][0-9]{0,17})(?:[/?#].*)?", re.IGNORECASE
)
_REDDITOR = re.compile(
    r"(?:(?:https?://)?(?:[a-z]{2,3}\.)?(?:[a-z]+\.)?reddit\.com)?/?(?:u|user)/([A-Za-z0-9_-]{2,24})(?:[/?#].*)?",
    re.IGNORECASE,
)
_NAMES_AUTHORS = re.compile(r"\bcc[ _-]?by|creativecommons\.org/licenses/by\b", re.IGNORECASE)
_PROFILE = re.compile(
    r"(?:https?://)?(?:www\.)?openreview\.net/profile\?(?:.*&)?id=([^&#\s]+)(?:[&#].*)?", re.IGNORECASE
)
_TILDE = re.compile(r"~\w[^\s/]{1,200}[0-9]")


def author_named(home: Path, text: str) -> str | None:
    """The id author/… of the author whose page or account the text names; None for any other text. UsageError for a
    page of the whole Stack Exchange network, and for a Reddit account that wrote no post of the home.
    """
    name = text.strip().strip("<>").rstrip(".,;")
    bare = re.sub(r"^author[/:]\s?", "", name, flags=re.IGNORECASE)
    if match := _PROFILE.fullmatch(name):
        bare = unquote(match[1])
    if _TILDE.fullmatch(bare):
        return f"author/{bare.lower()}"
    if match := _USER.fullmatch(bare):
        return _of_site(home, match[1].lower(), match[2], text)
    match = _REDDITOR.fullmatch(bare)
    return _of_reddit(home, match[1]) if match else None


def _of_site(home: Path, host: str, number: str, text: str) -> str | None:
    """The id of the user of a Stack Exchange site with this number. None for a host that is none of its sites and whose
    posts the home does not have; `text` is for the message.
    """
    if host == "stackexchange.com":
        raise UsageError(
            f'"{text}" is a page of the whole network: open it, and give the pages of the user on each site, '
            "https://<site>/users/<number>."
        )
    author = f"author/{host_of_today(host)}/{number}"
    return author if SITES.fullmatch(host) or posts_of_authors(home, [author]) else None


def _of_reddit(home: Path, name: str) -> str:
    """The id of the Reddit account with this name, written with its capitals. UsageError if the home has no post by it:
    which posts are taken down is known from the home's rows alone.
    """
    known = author_key() is not None or (home / "author.key").exists()
    author = f"author/{Pseudonyms(home).of(name)}" if known else ""
    if not posts_of_authors(home, [author]):
        raise UsageError(
            f"u/{name} wrote no Reddit post of {home}: write the name with its capitals, and give it after the dumps "
            "were read, or name the posts."
        )
    return author


def names_authors(licence: str | None) -> bool:
    """Whether a licence requires naming the authors: Creative Commons Attribution in all its forms.

    No for None.
    """
    return bool(licence and _NAMES_AUTHORS.search(licence))
