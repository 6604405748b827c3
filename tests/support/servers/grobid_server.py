"""A stand-in for a GROBID server: its addresses, status codes and bodies, with outcomes that a test scripts.

    with grobid("0.8.2") as server:
        server.on(FULLTEXT, BUSY, BUSY, tei(content))      # the last one repeats
        parser = connect(server.url)

`isalive`, `version` and `health` answer as the version does: up to 0.8 health is empty, from 0.9 on it counts engines
and `isalive` is 503 until the models are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from http_server import Answer, Asked, Server, document, serve

FULLTEXT = "/api/processFulltextDocument"
ALIVE, VERSION, HEALTH = "/api/isalive", "/api/version", "/api/health"

BUSY = Answer(503, b"<html><head><title>Error 503 Service Unavailable</title></head></html>")
NO_CONTENT = Answer(204)
BAD_REQUEST = Answer(400, b"")
RESET = Answer(200, b"<TEI", length=5_000, drop_after=4)
NOT_READY = Answer(503, b"false", {"Content-Type": "text/plain"})


def tei(content: bytes) -> Answer:
    return Answer(200, content, {"Content-Type": "application/xml; charset=UTF-8"})


def failed(code: str, message: str = "PDF to XML conversion failed on pdf file /opt/grobid/tmp/origin7.pdf") -> Answer:
    return Answer(500, f"[{code}] {message}".encode(), {"Content-Type": "text/plain"})


@contextmanager
def grobid(version: str = "0.8.2", engines: int = 10) -> Iterator[Server]:
    with serve() as server:
        server.on(ALIVE, Answer(200, b"true", {"Content-Type": "text/plain"}))
        server.on(VERSION, document({"version": version, "revision": "a91ee48"}))
        newer = version >= "0.9"
        server.on(HEALTH, document({"ready": True, "pool": {"maxActive": engines}}) if newer else Answer(200))
        yield server


def form_of(asked: Asked) -> dict[str, bytes]:
    """The parts of a multipart form, by name."""
    boundary = asked.headers["content-type"].partition("boundary=")[2].encode()
    found = {}
    for part in asked.body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)
        assert name
        found[name[1].decode()] = content[:-2]
    return found
