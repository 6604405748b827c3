"""Semantic Scholar's Datasets API: two releases, the difference between them, and links to files that expire.

    GET /release/    /release/latest    /release/{id}                 no key
    GET /release/{id}/dataset/{name}    /diffs/{from}/to/{to}/{name}  header x-api-key
    GET /files/…?X-Amz-Date=…&X-Amz-Expires=…&X-Amz-Signature=…       403 once the link has expired

Files are packed JSON lines in shards. The newer release holds the records of the folder; the older one lacks the last
paper, and has one more that the difference deletes.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from longform.standin.sources.calls import Answer, Call, Refused, as_file, as_json, as_text, plain_key

DATASETS = ("abstracts", "citations", "papers", "s2orc", "s2orc_v2")
OLDER, NEWER = "2025-01-07", "2025-01-14"
SHARDS = 2
REMOVED = 999_999_001
SECRET = b"of the stand-in"
README = "Records written for rehearsals; no paper, name or number is anybody's."
_KEYS = ("corpusid", "citingcorpusid")
EXPIRED = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"

Record = dict[str, Any]


def read_records(folders: Sequence[Path]) -> dict[str, list[Record]]:
    """Dataset -> its records, from `<name>.jsonl` in the first of these folders that has it."""
    found = {}
    for name in DATASETS:
        files = [folder / f"{name}.jsonl" for folder in folders if (folder / f"{name}.jsonl").is_file()]
        lines = files[0].read_bytes().splitlines() if files else []
        found[name] = [record for line in lines if (record := _record(line))]
    return found


def _record(line: bytes) -> Record | None:
    """The JSON object in a line; None if it holds none, as where a sample is broken on purpose."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def paper_of(record: Record) -> str:
    """The corpus id of the paper that a record belongs to."""
    return str(next((record[name] for name in _KEYS if record.get(name) is not None), ""))


class SemanticScholar:
    """The API over these records. `link_seconds`: how long a link to a file is good."""

    prefix = "/s2"
    limited = frozenset(("GET /release/{id}/dataset/{name}", "GET /diffs/{first}/to/{last}/{name}"))
    key: Callable[[Call], str] = staticmethod(plain_key)

    def __init__(
        self, records: Mapping[str, list[Record]], link_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._link_seconds, self._clock = link_seconds, clock
        self._files: dict[str, bytes] = {}
        for name, newer in records.items():
            last = max((paper_of(record) for record in newer), default="")
            added = [record for record in newer if paper_of(record) == last]
            older = [record for record in newer if paper_of(record) != last]
            gone = [{**older[0], "corpusid": REMOVED}] if older and "corpusid" in older[0] else []
            self._put(f"{NEWER}/{name}", _shards(newer))
            self._put(f"{OLDER}/{name}", _shards([*older, *gone]))
            self._put(f"{OLDER}-to-{NEWER}/{name}/update", _shards(added)[:1])
            self._put(f"{OLDER}-to-{NEWER}/{name}/delete", [[{"corpusid": one["corpusid"]} for one in gone]])

    def _put(self, folder: str, shards: list[list[Record]]) -> None:
        """Keep the records as files of this folder; an empty shard is no file."""
        for number, shard in enumerate(shards):
            if shard:
                lines = b"".join(orjson.dumps(record) + b"\n" for record in shard)
                self._files[f"staging/{folder}/{number:05d}.jsonl.gz"] = gzip.compress(lines, mtime=0)

    def routes(self) -> Mapping[str, Answer]:
        """What the API and its storage answer."""
        return {
            "GET /release": lambda call: as_json([OLDER, NEWER]),
            "GET /release/{id}": self._release,
            "GET /release/{id}/dataset/{name}": self._dataset,
            "GET /diffs/{first}/to/{last}/{name}": self._difference,
            "GET /files/{path:.+}": self._file,
        }

    def error(self, status: int, seconds: float | None) -> web.Response:
        """The error with this status."""
        reply = as_json({"message": "Forbidden" if status == 403 else "Too Many Requests", "code": str(status)}, status)
        if seconds is not None:
            reply.headers["Retry-After"] = f"{seconds:g}"
        return reply

    def usage(self, url: str) -> list[str]:
        """How a release is fetched; any key does."""
        return [f"S2_API_KEY=standin longform fetch s2orc s2orc_v2 papers abstracts --base-url {url}"]

    def _release(self, call: Call) -> web.Response:
        """A release with its datasets. Refused (404) if there is none."""
        release = self._id(call.match["id"])
        datasets = [{"name": name, "description": name, "README": README} for name in DATASETS]
        return as_json({"release_id": release, "README": README, "datasets": datasets})

    def _dataset(self, call: Call) -> web.Response:
        """The links to a dataset's files. Refused (403) without a key, (404) if there is none."""
        self._check_key(call)
        release, name = self._id(call.match["id"]), self._name(call)
        links = self._links(call.origin, f"{release}/{name}")
        return as_json({"name": name, "description": name, "README": README, "files": links})

    def _difference(self, call: Call) -> web.Response:
        """The steps from one release to another: one, or none if they are the same. Refused as `_dataset`."""
        self._check_key(call)
        first, last, name = self._id(call.match["first"]), self._id(call.match["last"]), self._name(call)
        step = {
            "from_release": OLDER,
            "to_release": NEWER,
            "update_files": self._links(call.origin, f"{OLDER}-to-{NEWER}/{name}/update"),
            "delete_files": self._links(call.origin, f"{OLDER}-to-{NEWER}/{name}/delete"),
        }
        steps = [step] if first < last else []
        return as_json({"dataset": name, "start_release": first, "end_release": last, "diffs": steps})

    def _file(self, call: Call) -> web.Response:
        """A file. Refused (403) if the link's signature is wrong or it has expired, (404) if there is none."""
        path, until = call.match["path"], call.query.get("X-Amz-Expires", "")
        signed = hmac.compare_digest(call.query.get("X-Amz-Signature", ""), _signature(path, until))
        if not signed or self._clock() > float(until):
            raise Refused(as_text(EXPIRED, 403, "application/xml"))
        if path not in self._files:
            raise Refused(as_text("", 404))
        return as_file(self._files[path], "application/gzip")

    def _links(self, origin: str, folder: str) -> list[str]:
        """Signed links to the files of a folder, good for `link_seconds`."""
        until = f"{self._clock() + self._link_seconds:.3f}"
        return [
            f"{origin}{self.prefix}/files/{path}?X-Amz-Expires={until}&X-Amz-Signature={_signature(path, until)}"
            for path in self._files
            if path.startswith(f"staging/{folder}/")
        ]

    def _id(self, name: str) -> str:
        """The id of a release, also of `latest`. Refused (404) if there is none."""
        release = NEWER if name == "latest" else name
        if release not in (OLDER, NEWER):
            raise Refused(as_json({"error": "Release not found"}, 404))
        return release

    def _name(self, call: Call) -> str:
        """The dataset that the call names. Refused (404) if there is none."""
        if call.match["name"] not in DATASETS:
            raise Refused(as_json({"error": "Dataset not found"}, 404))
        return call.match["name"]

    def _check_key(self, call: Call) -> None:
        """Refused (403) if the call has no key."""
        if not call.headers.get("x-api-key"):
            raise Refused(self.error(403, None))


def _shards(records: list[Record]) -> list[list[Record]]:
    """The records, in their order, in SHARDS lists of about the same length."""
    size = -(-len(records) // SHARDS) or 1
    return [records[start : start + size] for start in range(0, len(records), size)]


def _signature(path: str, until: str) -> str:
    """The signature of a link to this path that is good until then."""
    return hmac.new(SECRET, f"{path} {until}".encode(), hashlib.sha256).hexdigest()
