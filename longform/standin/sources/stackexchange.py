"""An item of archive.org with dumps of Stack Exchange's sites: its list of files, and the archives.

    GET /metadata/{item}            {"files": [{"name": "beer.stackexchange.com.7z", "size": "…", "md5": "…"}, …]}
    GET /download/{item}/{name}     in ranges

Each folder with a Posts.xml is a site of the folder's name, packed with the other tables beside it; a .7z is served as
it is.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_file, as_json, as_text, plain_key


class StackExchange:
    """The item, over the sites in these folders: `<host>/Posts.xml` or `<host>.7z` in one of them."""

    prefix = "/stackexchange"
    limited = frozenset(("GET /download/{item}/{name}",))
    key: Callable[[Call], str] = staticmethod(plain_key)

    def __init__(self, folders: Sequence[Path]) -> None:
        sites = [posts.parent for folder in folders for posts in sorted(folder.glob("*.*/Posts.xml"))]
        self._places = {f"{site.name}.7z": site for site in sites}
        self._places |= {path.name: path for folder in folders for path in sorted(folder.glob("*.7z"))}
        self._archives: dict[str, bytes] = {}

    def routes(self) -> Mapping[str, Answer]:
        """What archive.org answers."""
        return {"GET /metadata/{item}": self._listed, "GET /download/{item}/{name}": self._archive}

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status."""
        reply = as_text("", status, "text/html")
        if seconds is not None:
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def usage(self, url: str) -> list[str]:
        """How a site's dump is fetched."""
        return [f"longform fetch stackexchange {name.removesuffix('.7z')} --base-url {url}" for name in self._places]

    def _listed(self, call: Call) -> web.Response:
        """The files of the item, with size and MD5; any item holds the same."""
        files = [
            {"name": name, "size": str(len(made)), "md5": hashlib.md5(made, usedforsecurity=False).hexdigest()}
            for name in self._places
            for made in [self._packed(name)]
        ]
        return as_json({"files": files, "files_count": len(files), "item": {"identifier": call.match["item"]}})

    def _archive(self, call: Call) -> web.Response:
        """An archive. Refused (404) if there is none."""
        if call.match["name"] not in self._places:
            raise Refused(self.error(404, None))
        return as_file(self._packed(call.match["name"]), "application/x-7z-compressed")

    def _packed(self, name: str) -> bytes:
        """The archive of this name; a folder is packed when it is first asked for."""
        if name not in self._archives:
            place = self._places[name]
            self._archives[name] = place.read_bytes() if place.is_file() else _seven_zip(sorted(place.glob("*.xml")))
        return self._archives[name]


def _seven_zip(tables: list[Path]) -> bytes:
    """A .7z with these files at its root."""
    import py7zr

    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w") as archive:
        for table in tables:
            archive.write(table, table.name)
    return file.getvalue()
