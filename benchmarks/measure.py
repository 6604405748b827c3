"""`longform measure` against a server that answers after 50 ms: its drafts a second, beside the model layer's own rate.

    python benchmarks/measure.py [--drafts 5000] [--words 150] [--delay 50] [--concurrency 16] [--json]

`layer`: `client.ask` alone on the same requests, with a store of its own, and replies read into lists of edits.
`measure`: the whole run from the file to the summary of systems: reading, asking, placing, aligning, TER, ranking, in a
home of its own. `ratio`: how much of the layer's rate that is; both are of the same run. The server runs in a process
of its own and replies with the edits that were planted in each draft.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

SENTENCE = 15


def texts(number: int, words: int, seed: int) -> list[dict[str, Any]]:
    """Records of drafts of two systems, with the edits that make each its reference."""
    chance = random.Random(seed)
    pool = ["".join(chance.choices("abdefgiklmnoprstuvw", k=chance.randrange(3, 10))) for _ in range(6_000)]

    def sentence() -> str:
        return " ".join(chance.choices(pool, k=SENTENCE)).capitalize() + "."

    found = []
    for case in range(number // 2):
        reference = [sentence() for _ in range(max(3, words // SENTENCE))]
        for system, changes in (("a", 1), ("b", 3)):
            draft, edits = list(reference), []
            for at in chance.sample(range(len(draft)), changes):
                draft[at] = sentence()
                edits.append(edit(draft[at], reference[at]))
            text = {"draft": " ".join(draft), "reference": " ".join(reference)}
            found.append({"id": f"q{case}", "system": system, **text, "edits": edits})
    return found


def edit(original: str, revised: str) -> dict[str, Any]:
    told = {"action_name": "rewrite", "revision_description": "Says it as the reference does."}
    told |= {"revision_level": "sentence", "revision_intention": "meaning"}
    return {**told, "original_snippet": original, "revised_snippet": revised, "preceding_snippet": None}


def server(records: list[dict[str, Any]], delay: float, here: Connection) -> None:
    """Answer chat completions with the edits of the draft in the prompt, after `delay` seconds; send the port."""
    from aiohttp import web

    replies = {record["draft"]: json.dumps({"edits": record["edits"]}) for record in records}

    async def chat(request: web.Request) -> web.Response:
        content = json.loads(await request.read())["messages"][-1]["content"]
        at = content.index("\n", content.index("<<<text")) + 1
        text = replies[content[at : content.index("\n", at)]]  # a draft has one line
        await asyncio.sleep(delay)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1_000}
        return web.json_response({"model": "m", "choices": [choice], "usage": usage})

    async def run() -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", chat)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        here.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def layer(records: list[dict[str, Any]], config: Any, folder: Path) -> float:
    """Seconds of `client.ask` alone on the requests of these drafts."""
    from flows.measuring.measuring import Asked, editors_of
    from flows.revision_distance import prompts
    from longform.llm.models import Models
    from tasks.revision_distance.own.measuring import Editor, requests_of

    (model,), loaded = editors_of(Asked(folder), config), prompts(config)
    editor = Editor(model, loaded["edit_to_reference"], loaded["edit_freely"])
    own = [
        {"draft_id": str(at), "draft": each["draft"], "references": [each["reference"]], "request": None}
        for at, each in enumerate(records)
    ]
    began = time.perf_counter()
    with Models(folder / "responses.sqlite") as models:
        asked = models.client(model).ask(pair for draft in own for pair in requests_of(draft, editor))
        number = sum(1 for _ in asked)
    assert number == len(records)
    return time.perf_counter() - began


def whole(file: Path, config: Any, home: Path) -> tuple[float, Any]:
    """(seconds of the whole run, what was measured)."""
    from flows.builds.console import Lines
    from flows.measuring import measuring
    from longform.llm.retry import Retry

    asked = measuring.Asked(file)
    began = time.perf_counter()
    given = measuring.kept(asked, home)
    found = measuring.measure(asked, config, home, given, progress=Lines(), retry=Retry())
    return time.perf_counter() - began, found


def measure(number: int, words: int, delay: float, concurrency: int) -> dict[str, Any]:
    from flows.config.endpoints import EndpointConfig
    from flows.measuring.measuring import MeasureConfig

    records = texts(number, words, 1)
    here, there = multiprocessing.Pipe()
    serving = multiprocessing.get_context("spawn").Process(target=server, args=(records, delay / 1_000, there))
    serving.start()
    try:
        url = f"http://127.0.0.1:{here.recv()}/v1"
        endpoint = EndpointConfig(base_url=url, model="m", capabilities=["json_schema"], concurrency=concurrency)
        config = MeasureConfig(model="mine", endpoints={"mine": endpoint}, limit=None)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "drafts.jsonl"
            file.write_text(
                "".join(json.dumps({k: v for k, v in each.items() if k != "edits"}) + "\n" for each in records)
            )
            alone = layer(records, config, Path(folder))
            seconds, found = whole(file, config, Path(folder) / "home")
    finally:
        serving.kill()
    (ranking,) = found.summary.rankings.values()
    means = dict(zip(ranking.systems.system, ranking.systems.corrected, strict=True))
    assert means == {"a": 1, "b": 3}, means
    return {
        "drafts": number,
        "layer": round(number / alone, 1),
        "measure": round(number / seconds, 1),
        "ratio": round(alone / seconds, 3),
        "concurrency": concurrency,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drafts", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--delay", type=float, default=50)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.drafts, options.words, options.delay, options.concurrency)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{found['drafts']:,} drafts, {found['concurrency']} at a time")
    print(f"    model layer {found['layer']:>8} a second")
    print(f"    measure     {found['measure']:>8} a second, {found['ratio']} of it")


if __name__ == "__main__":
    main()
