"""An endpoint that answers everything with the same chat completion after a fixed time, for benchmarks/llm.py.

    python benchmarks/llm_server.py [--latency 0.05] [--core 1]

Prints its port, then serves until it is ended. GET /counters tells what came: requests, distinct (by the hash of
their bodies). HTTP/1.1 on bare asyncio, about 20 microseconds of processor time a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from typing import cast

TEXT = json.dumps(
    {
        "claims": [f"Claim {n} of the answer, said in one sentence of usual length." for n in range(8)],
        "verdict": "supported",
        "reason": "Every claim stands in the passages that were given, in nearly the same words.",
    }
)
COMPLETION = {
    "id": "chatcmpl-0123456789abcdef",
    "object": "chat.completion",
    "created": 1_790_000_000,
    "model": "bench-1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": TEXT, "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "usage": {
        "prompt_tokens": 380,
        "completion_tokens": 160,
        "total_tokens": 540,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
    "system_fingerprint": "fp_bench",
}


def reply(document: object) -> bytes:
    content = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return f"{head}x-request-id: req_0123456789abcdef\r\n\r\n".encode() + content


ANSWER = reply(COMPLETION)


class Counters:
    def __init__(self) -> None:
        self.requests = 0
        self.bodies: set[int] = set()

    def count(self, body: bytes) -> None:
        self.requests += 1
        self.bodies.add(hash(body))

    def shown(self) -> dict[str, int]:
        return {"requests": self.requests, "distinct": len(self.bodies)}


class Connection(asyncio.Protocol):
    """One request at a time; the next may come before the last is answered, but not in parts of one read."""

    def __init__(self, counters: Counters, latency: float) -> None:
        self._counters, self._latency = counters, latency
        self._loop = asyncio.get_running_loop()
        self._came = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (end := self._came.find(b"\r\n\r\n") + 4) > 3:
            head = self._came[:end]
            whole = end + content_length(head)
            if len(self._came) < whole:
                return
            body, self._came = self._came[end:whole], self._came[whole:]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET /counters "):
            self._transport.write(reply(self._counters.shown()))
            return
        self._counters.count(body)
        if self._latency:
            self._loop.call_later(self._latency, self._transport.write, ANSWER)
        else:
            self._transport.write(ANSWER)


def content_length(head: bytes) -> int:
    _, _, after = head.lower().partition(b"\r\ncontent-length:")
    return int(after.partition(b"\r\n")[0] or 0)


async def serve(latency: float) -> None:
    counters = Counters()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(counters, latency), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--core", type=int, help="the processor to run on")
    given = parser.parse_args()
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    asyncio.run(serve(given.latency))


if __name__ == "__main__":
    main()
