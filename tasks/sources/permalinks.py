"""Links and ids of records: the addresses of posts and authors, and the id of the record that a link means."""

from __future__ import annotations

import re
from itertools import dropwhile
from urllib.parse import parse_qs, unquote, urlsplit

from longform.addresses import page_of
from longform.errors import UsageError
from tasks.sources.paper_names import canonical, paper_named, papers_in_address

FORMS = (
    "an id (cooking.stackexchange.com/4711, reddit/t3_1abcd, s2/13756489, openreview/<note>, acl/2020.acl-main.1, "
    "doi:10.1000/xyz, arXiv:2101.00001, filename/paper.pdf, a file's SHA-256, own/<id of a text of yours>, "
    "author/<name or id>, u/<Reddit "
    "name>), or the address of a user's page of Stack Exchange, Reddit or OpenReview, of a Stack Exchange post, a "
    "Reddit submission or comment, an OpenReview forum, an ACL Anthology page, arXiv, DOI, "
    "or CorpusID:<number>; of any other page its address with https://, and of other pages of those sites "
    "web/<address without https://>"
)
_HOST = re.compile(r"(?:[a-z0-9-]+\.)+[a-z0-9-]+")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_BASE36 = re.compile(r"[0-9a-z]{1,13}")
_NOTE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ACL = re.compile(r"[A-Z][0-9]{2}-[0-9]{4,5}|[0-9]{4}\.[a-z0-9_]+-[a-z0-9_]+\.[0-9]+", re.IGNORECASE)
_ACL_ENDING = re.compile(r"(?:v[0-9]+)?(?:\.(?:pdf|bib|xml|endf))?\Z")
_GROUP = re.compile(
    r"\A(openreview|reddit|s2|acl|file|filename|title|author|web|msmarco|expertqa|webgpt|wildchat|ultrafeedback"
    r"|commitpackft|own)[/:]\s?",
    re.IGNORECASE,
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LABEL = re.compile(r"[^\x00-\x1f]{1,255}")
_PRINTABLE = re.compile(r"[!-~]{1,400}")
SITES = re.compile(
    r"(?:.+\.)?(?:(?:stackexchange|stackoverflow|superuser|serverfault|askubuntu|stackapps|reddit)\.com|mathoverflow\.net"
    r"|redd\.it|openreview\.net|semanticscholar\.org|aclanthology\.(?:org|info)|aclweb\.org)"
)
_UPSTREAM = {
    "reddit": re.compile(r"t[13]_[0-9a-z]{1,13}"),
    "s2": _NUMBER,
    "openreview": _NOTE,
    "acl": _ACL,
    **dict.fromkeys(("file", "title"), re.compile(r"[0-9a-f]{16}")),
    "sha256": _SHA256,
    "filename": _LABEL,
    "author": _LABEL,
    "own": _LABEL,
    "msmarco": re.compile(r"[pq][0-9]+"),
    "expertqa": re.compile(r"[0-9a-f]{20}"),
    **dict.fromkeys(("webgpt", "wildchat", "ultrafeedback", "commitpackft"), _PRINTABLE),
}


def permalink(post_id: str, kind: str) -> str:
    """The short link, which never changes, of the Stack Exchange post `<host>/<number>`: https://host/q/4711 if `kind`
    is "question", else https://host/a/4712.
    """
    host, number = post_id.split("/", 1)
    return f"https://{host}/{'q' if kind == 'question' else 'a'}/{number}"


def profile(host: str, author_id: str | None) -> str | None:
    """The address of the page of the author with this upstream id on a Stack Exchange site; None without an id, as for
    a deleted user.
    """
    return None if author_id is None else f"https://{host}/users/{author_id}"


def record_of(text: str) -> str:
    """The id of the record that the text means. The text is an id, with or without #<passage>, a source's own name
    (CorpusID:7, t3_1abcd) or a link; of a web page that is none of these, web/<address> is the id. UsageError if it
    names no record, or not certainly one: a page of a source's site that is no record's, a comment on a Stack Exchange
    post, a Reddit link that redirects.
    """
    name = _GROUP.sub(lambda match: f"{match[1].lower()}/", text.strip(), count=1)
    found = _of_paper(name) or _of_id(name.split("#", 1)[0]) or _of_name(name) or _of_address(name)
    found = found or _of_address(name.strip("<>").rstrip(".,;/")) or _of_page(name.strip("<>"))
    if found is None:
        raise UsageError(f'"{text}" names no record: give {FORMS}.')
    return found


def ids_with_former(record: str) -> list[str]:
    """The ids under which the record with this id may have been read: this one, first, and for a post of a renamed
    Stack Exchange site those with the site's former hosts.
    """
    from tasks.sources.stackexchange.posts import RENAMED

    first, _, rest = record.partition(".")
    renamed = rest.partition("/")[0].endswith("stackexchange.com")
    return [record, *(f"{old}.{rest}" for old, new in RENAMED.items() if renamed and new == first)]


def ids_of_address(url: str) -> list[str]:
    """The ids that a takedown of what an address shows may have: first that of the web page (web/<address>), then that
    of the record that it shows, and those of the paper that its DOI or arXiv id names; each only if there is one.
    """
    try:
        record = _of_address(url)
    except UsageError:
        record = None
    return list(dict.fromkeys(name for name in (page_of(url), record, *papers_in_address(url)) if name))


def _of_page(text: str) -> str | None:
    """The id web/<address> of a web page. None if the text is no address of a page, and for the sites whose pages show
    records (Stack Exchange, Reddit, OpenReview, Semantic Scholar, ACL Anthology), where another id may be meant.
    """
    page = page_of(text)
    return None if page is None or SITES.fullmatch(re.split(r"[/?:]", page, maxsplit=2)[1]) else page


def _of_paper(text: str) -> str | None:
    """The id of a paper, file or author for a DOI, an arXiv id, their addresses, a SHA-256, filename/<name> and
    author/<name>; None for any other text. What arXiv has a DOI for is arxiv/<id>.
    """
    group, _, rest = text.partition("/")
    if group == "filename":
        return text if _LABEL.fullmatch(rest) else None
    if group == "author":
        return canonical(text) if _LABEL.fullmatch(rest) and rest.split() else None
    if match := _SHA256.fullmatch(text.lower().removeprefix("sha256/").removeprefix("sha256:")):
        return f"sha256/{match[0]}"
    return paper_named(text)


def _of_id(text: str) -> str | None:
    """The id as records have it, with the present host of a Stack Exchange site, or with the address of a web page in
    its usual form; None if the text is no id. <any host>/<number> counts as a post of Stack Exchange.
    """
    group, _, rest = text.partition("/")
    if group == "web":
        return page_of(f"https://{re.sub(r'^https?:/+', '', rest)}")
    if group in ("reddit", "file", "title"):
        text, rest = text.lower(), rest.lower()
    if group in _UPSTREAM:
        return canonical(text) if _UPSTREAM[group].fullmatch(rest) else None
    return f"{_host(group)}/{rest}" if _HOST.fullmatch(group.lower()) and _NUMBER.fullmatch(rest) else None


def _of_name(text: str) -> str | None:
    """The id for a source's own name of a record, which has no group: s2/7 for CorpusID:7, reddit/t3_1abcd for
    t3_1abcd; None for any other text.
    """
    if match := re.fullmatch(r"corpus_?id[:\s]\s?([0-9]+)", text, re.IGNORECASE):
        return _of_id(f"s2/{match[1]}")
    return _of_id(f"reddit/{text}") if re.fullmatch(r"t[13]_[0-9a-z]+", text, re.IGNORECASE) else None


def _of_address(text: str) -> str | None:
    """The id of the record that a link shows, with or without https://; None if the text is no link, or shows no
    record. A link to any other host counts as one of Stack Exchange, if its path has that form (/q/7). UsageError for a
    comment on a Stack Exchange post, and for a Reddit link that redirects.
    """
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        host = (url.hostname or "").removeprefix("www.")
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        return None
    path = [unquote(piece) for piece in url.path.split("/") if piece]
    if host in ("doi.org", "dx.doi.org") or f".{host}".endswith(".arxiv.org"):
        return paper_named(f"https://{host}/{'/'.join(path)}")
    if host == "redd.it" or host == "reddit.com" or host.endswith(".reddit.com"):
        return _of_reddit(host, path, text)
    if host in ("openreview.net", "api.openreview.net", "api2.openreview.net"):
        query = parse_qs(url.query)  # forum?id=N, pdf?id=N, attachment?id=N; with noteId the reply it names
        return _of_id(f"openreview/{(query.get('noteId') or query.get('id') or [''])[0].rstrip('/')}")
    if f".{host}".endswith(".semanticscholar.org"):
        return next(filter(None, map(_of_name, path)), None)
    if host in ("aclanthology.org", "aclanthology.info", "aclweb.org"):
        names = (_ACL_ENDING.sub("", piece) for piece in path)
        return next((canonical(f"acl/{name}") for name in names if _ACL.fullmatch(name)), None)
    return _of_stackexchange(host, path, url.fragment, text)


def _of_stackexchange(host: str, path: list[str], fragment: str, text: str) -> str | None:
    """The id of the post that a link of a Stack Exchange site shows, else None; the host is not checked. Forms of
    `path` and `fragment`: /questions/Q, /questions/Q/title/A#A, /questions/Q/title#A, /q/Q, /a/A, /posts/N; a share
    link adds the number of a user. The answer A counts before its question Q. UsageError, which names `text`, for a
    link to a comment.
    """
    if fragment.startswith("comment"):
        raise UsageError(f'"{text}" names a comment, which is no record here: give the address of its post.')
    if len(path) < 2 or not _NUMBER.fullmatch(path[1]):
        return None
    kind, number = path[0].lower(), path[1]
    if kind == "questions":
        answer = re.fullmatch(r"(?:answer[-_]?)?([1-9][0-9]{0,17})", fragment)
        number = answer[1] if answer else path[3] if len(path) > 3 and _NUMBER.fullmatch(path[3]) else number
    elif kind not in ("q", "a", "posts"):
        return None
    return f"{_host(host)}/{number}"


def _host(host: str) -> str:
    """The present host of the Stack Exchange site that has or had this host, in lower case and without www.; any other
    host stays as it is.
    """
    from tasks.sources.stackexchange.posts import host_of_today

    host = host.lower().removeprefix("www.")
    if match := re.fullmatch(r"meta\.([a-z]+)\.stackexchange\.com", host):
        host = f"{match[1]}.meta.stackexchange.com"
    return host_of_today(host)


def _of_reddit(host: str, path: list[str], text: str) -> str | None:
    """The id of the comment C or submission S that a link of Reddit shows, else None. Forms: /comments/S/title/C,
    /comments/S/comment/C, /comments/S, redd.it/S, reddit.com/gallery/S. UsageError, which names `text`, for share links
    (/s/) and links to i.redd.it and v.redd.it, as these redirect.
    """
    if host == "redd.it" and len(path) == 1:
        path = ["comments", *path]
    if "s" in path[2:3] or host in ("i.redd.it", "v.redd.it"):
        raise UsageError(f'"{text}" is a link that leads on: open it, and give the address it ends at.')
    ids = [piece.lower() for piece in [*dropwhile(lambda piece: piece not in ("comments", "gallery"), path)][1:]]
    if not ids or not all(_BASE36.fullmatch(piece) for piece in (ids[0], *ids[2:3])):
        return None
    return f"reddit/t1_{ids[2]}" if len(ids) > 2 else f"reddit/t3_{ids[0]}"
