"""How fast models are asked, and at what cost of processor time: longform, raw aiohttp, the OpenAI SDK, others.

    python benchmarks/llm.py [--seconds 6] [--hits 100000] [--million] [--json]
    python benchmarks/llm.py --others [--venvs DIR]     also curator and distilabel, installed in venvs of their own

All of it in one run against a server on another core that answers after 50 ms, each client in a process of its own on
one core; requests of 1.5 kB with a JSON schema, replies of 1 kB, every request another one:

    aiohttp    ClientSession.post and json.loads: what any client in Python pays
    sdk        AsyncOpenAI().chat.completions.create, as everybody calls it
    sdk-post   the SDK's fastest form: aiohttp as its transport, a reply that it does not look into
    longform   Models().client().ask() with key, limiter, price, budget, and every reply committed to the store

`ratio` is to the ideal, which is what is in flight by the latency; processor time is that of all threads. `others` is
what other processes took of the machine meanwhile, in cores: above a tenth of one the figures are too low.

Hits are the same requests asked again by a new process, replies read into a model; it stops where one of them reaches
the server. `peak_mb` is the largest resident memory of one `ask` after so many requests, with a server that answers
at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from longform.llm.ask.types import Endpoint, Request
    from longform.llm.models import Models

LATENCY = 0.05
IN_FLIGHT = (64, 256)
WARM_UP_SECONDS = 2.0
BUSY_CORES = 0.1
HITS_AT_ONCE = 10_000
KEY, MODEL = "sk-benchmark-q8Zt4LmXw2Rv7Hs", "bench-1"  # no reply may look as if it repeated it
SYSTEM = "You check whether an answer says nothing but what its passages say. " * 4
PASSAGES = "Casks are kept at twelve degrees, which is the temperature of a cellar in spring. " * 8

Send = Callable[[dict[str, Any]], Awaitable[str]]
Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6, help="measured of each client and number in flight")
    parser.add_argument("--hits", type=int, default=100_000, help="how many stored answers are asked for again")
    parser.add_argument("--sizes", default="10000,100000", help="after how many requests memory is looked at")
    parser.add_argument("--million", action="store_true", help="memory also after 1,000,000 requests")
    parser.add_argument("--others", action="store_true", help="also curator and distilabel")
    parser.add_argument("--venvs", type=Path, help="where these are installed, and kept; else they are removed")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(in_this_process(json.loads(given.measure))))
        return
    sizes = sorted({int(size) for size in given.sizes.split(",")} | ({1_000_000} if given.million else set()))
    with tempfile.TemporaryDirectory(prefix="longform-benchmark-") as folder:
        venvs = (given.venvs or Path(folder) / "venvs") if given.others else None
        found = {**compare(given.seconds, venvs, Path(folder)), **memory_and_hits(sizes, given.hits, Path(folder))}
    print(json.dumps(found, indent=1) if given.json else table(found))


# ---------------------------------------------------------------- side by side


def compare(seconds: float, venvs: Path | None, folder: Path) -> Found:
    others: dict[str, str] = {}
    skipped: dict[str, str] = {}
    if venvs:
        from benchmarks.llm_others import install

        others, skipped = install(venvs)
    runs: dict[str, Found] = {}
    with served(LATENCY) as url:
        for name, python in {**dict.fromkeys(WAYS, sys.executable), **others}.items():
            try:
                runs[name] = measured(name, python, {"url": url, "seconds": seconds, "folder": str(folder / name)})
            except ChildProcessError as error:
                if name in WAYS:
                    raise
                skipped[name] = str(error)
    ours, raw = runs["longform"]["in_flight"], runs["aiohttp"]["in_flight"]
    return {
        "latency_seconds": LATENCY,
        "ratio_at_64": ours["64"]["ratio"],
        "of_aiohttp": {n: round(ours[n]["per_second"] / raw[n]["per_second"], 3) for n in ours},
        "requests_per_second_at_256": ours["256"]["per_second"],
        "cpu_ms_at_256": ours["256"]["cpu_ms"],
        "clients": runs,
        "skipped": skipped,
    }


def memory_and_hits(sizes: list[int], hits: int, folder: Path) -> Found:
    store = str(folder / "hits.sqlite")
    with served(0) as url:
        grown = measured("memory", sys.executable, {"url": url, "store": store, "sizes": sizes, "requests": hits})
        before = counters(url)
        again = measured("hits", sys.executable, {"url": url, "store": store, "requests": hits})
        after = counters(url)
    if after != {"requests": before["distinct"], "distinct": before["distinct"]}:
        raise SystemExit(f"Something was asked for twice: {before}, and after the hits {after}")
    peaks = list(grown["peak_mb"].values())
    return {
        "hits_per_second": again["per_second"],
        "hit_cpu_us": again["cpu_us"],
        "hits": {"requests": hits, "others": again["others"]},
        "requests_per_second_without_latency": grown["per_second"],
        "peak_mb": grown["peak_mb"],
        "memory_ratio": round(peaks[-1] / peaks[0], 2),
        "machine": {"cores": len(cores()), "load_average": round(os.getloadavg()[0], 2)},
    }


@contextmanager
def served(latency: float) -> Iterator[str]:
    """The address of a server on the last of the cores."""
    script = str(Path(__file__).with_name("llm_server.py"))
    command = [sys.executable, script, "--latency", str(latency), "--core", str(cores()[-1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def counters(url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{url}/counters") as answer:
        shown: dict[str, int] = json.loads(answer.read())
    return shown


def measured(way: str, python: str, what: Found) -> Found:
    """What this way printed from a process of its own, and what other processes took meanwhile, in cores."""
    started, busy, own = time.perf_counter(), busy_seconds(), own_seconds()
    command = [python, __file__, "--measure", json.dumps({"way": way, **what})]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "BENCHMARK_KEY": KEY})
    if done.returncode:
        raise ChildProcessError(f"{way} failed: {done.stderr.strip()[-2_000:]}")
    passed = time.perf_counter() - started
    others = (busy_seconds() - busy - (own_seconds() - own)) / passed
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return {**found, "others": round(max(0.0, others), 2)}


def busy_seconds() -> float:
    import psutil

    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def own_seconds() -> float:
    """Processor time of this process, of those that ended and of the server."""
    import psutil

    alive = [child.cpu_times() for child in psutil.Process().children()]
    ended = psutil.Process().cpu_times()
    return float(sum(each.user + each.system for each in [*alive, ended]) + ended.children_user + ended.children_system)


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def table(found: Found) -> str:
    lines = [f"{'':12}" + "".join(f"{n:>8} in flight   ratio   CPU ms" for n in IN_FLIGHT) + "   peak MB   others"]
    for name, run in found["clients"].items():
        cells = [run["in_flight"][str(n)] for n in IN_FLIGHT]
        rates = "".join(f"{c['per_second']:>14,.0f}/s {c['ratio']:>9.2f} {c['cpu_ms']:>8.2f}" for c in cells)
        lines.append(f"{name:12}{rates} {run['peak_mb']:>8,.0f} {run['others']:>8.2f}")
    lines += [f"{name:12}not measured: {why}" for name, why in found["skipped"].items()]
    hits = found["hits"]
    lines += [
        "of aiohttp  " + ", ".join(f"{ratio:.2f} at {n}" for n, ratio in found["of_aiohttp"].items()),
        f"hits        {found['hits_per_second']:,.0f}/s, {found['hit_cpu_us']:.0f} us of processor time each "
        f"({hits['requests']:,} asked again)",
        f"no latency  {found['requests_per_second_without_latency']:,.0f}/s",
        "memory      " + ", ".join(f"{mb:,.0f} MB after {int(n):,}" for n, mb in found["peak_mb"].items()),
        f"machine     {found['machine']['cores']} cores, load average {found['machine']['load_average']}",
    ]
    busy = [n for n, run in {**found["clients"], "hits": hits}.items() if run["others"] > BUSY_CORES]
    if busy:
        lines.append(f"The machine was busy while these were measured, run it again: {', '.join(busy)}")
    return "\n".join(lines)


# ---------------------------------------------------------------- one client, in its own process


def in_this_process(what: Found) -> Found:
    os.sched_setaffinity(0, {cores()[0]})
    way = what.pop("way")
    if way in MORE:
        return MORE[way](**what)
    url, seconds, folder = what["url"], what["seconds"], Path(what["folder"])
    folder.mkdir(exist_ok=True)
    runs = {str(n): measure(way, url, n, seconds, folder) for n in IN_FLIGHT}
    return {"in_flight": runs, "peak_mb": peak_mb()}


def measure(way: str, url: str, in_flight: int, seconds: float, folder: Path) -> Found:
    if way in WAYS:
        return WAYS[way](url, in_flight, seconds, folder)
    from benchmarks.llm_others import OTHERS

    return OTHERS[way](url, in_flight, seconds, folder)


class Meter:
    """Counts what comes after the warm-up, until the time is over; `over` says that it is."""

    def __init__(self, in_flight: int, seconds: float) -> None:
        self._ideal, self._seconds = in_flight / LATENCY, seconds
        self._starts = time.perf_counter() + min(WARM_UP_SECONDS, seconds / 3)
        self._clock: Clock | None = None
        self._came = 0
        self.found: Found = {}

    @property
    def over(self) -> bool:
        return bool(self.found)

    def came(self, number: int = 1) -> None:
        if self._clock is None:
            if time.perf_counter() >= self._starts:
                self._clock = Clock()
            return
        self._came += number
        if not self.found and self._clock.wall() >= self._seconds:
            self.found = rates(self._came, self._clock, self._ideal)


class Clock:
    """Wall and processor seconds of this process since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def wall(self) -> float:
        return time.perf_counter() - self._wall

    def processor(self) -> float:
        return time.process_time() - self._processor


def rates(number: int, clock: Clock, ideal: float) -> Found:
    per_second = number / clock.wall()
    cpu_ms = 1_000 * clock.processor() / number
    return {"per_second": round(per_second, 1), "ratio": round(per_second / ideal, 3), "cpu_ms": round(cpu_ms, 3)}


def peak_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)


def by_workers(
    client: Callable[[str, int], AbstractAsyncContextManager[Send]],
    url: str,
    in_flight: int,
    seconds: float,
    folder: Path,
) -> Found:
    return asyncio.run(_by_workers(client, url, in_flight, seconds))


async def _by_workers(
    client: Callable[[str, int], AbstractAsyncContextManager[Send]], url: str, in_flight: int, seconds: float
) -> Found:
    meter, numbers = Meter(in_flight, seconds), count()

    async def work(send: Send) -> None:
        while not meter.over:
            assert await send(body(next(numbers)))
            meter.came()

    async with client(url, in_flight) as send:
        await asyncio.gather(*(work(send) for _ in range(in_flight)))
    return meter.found


def body(number: int) -> dict[str, Any]:
    """About 1.5 kB, another one for each number."""
    return {
        "model": MODEL,
        "messages": [{"role": role, "content": content} for role, content in messages(number)],
        "max_completion_tokens": 512,
        "response_format": SCHEMA,
    }


def messages(number: int) -> tuple[tuple[str, str], ...]:
    return (("system", SYSTEM), ("user", f"Passages of question {number}: {PASSAGES}"))


SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "Checked",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "claims": {"type": "array", "items": {"type": "string"}},
                "verdict": {"type": "string", "enum": ["supported", "unsupported"]},
                "reason": {"type": "string"},
            },
            "required": ["claims", "verdict", "reason"],
            "additionalProperties": False,
        },
    },
}


# ---------------------------------------------------------------- the clients


@asynccontextmanager
async def raw_aiohttp(url: str, in_flight: int) -> Any:
    import aiohttp

    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def send(body: dict[str, Any]) -> str:
            async with session.post(f"{url}/v1/chat/completions", data=json.dumps(body).encode()) as response:
                return text_of(await response.read())

        yield send


@asynccontextmanager
async def sdk(url: str, in_flight: int) -> Any:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:

        async def send(body: dict[str, Any]) -> str:
            completion = await client.chat.completions.create(**body)
            return str(completion.choices[0].message.content)

        yield send


@asynccontextmanager
async def sdk_post(url: str, in_flight: int) -> Any:
    import httpx2
    from openai import AsyncOpenAI, DefaultAioHttpClient

    http = DefaultAioHttpClient()
    async with AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0, http_client=http) as client:

        async def send(body: dict[str, Any]) -> str:
            response = await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
            return text_of(response.content)

        yield send


def text_of(content: bytes) -> str:
    return str(json.loads(content)["choices"][0]["message"]["content"])


def longform(url: str, in_flight: int, seconds: float, folder: Path) -> Found:
    meter = Meter(in_flight, seconds)
    with models(folder / f"{in_flight}.sqlite") as opened:
        answers = opened.client(endpoint(url, in_flight), stage="benchmark").ask(enumerate(requests()))
        for _, answer in answers:
            check(answer)
            meter.came()
            if meter.over:
                break
        answers.close()  # type: ignore[attr-defined]
    return meter.found


def models(store: Path | str) -> Models:
    from longform.llm.models import Models

    return Models(store, max_cost=1_000_000.0, run="benchmark", dataset="benchmark")


def endpoint(url: str, in_flight: int) -> Endpoint:
    from longform.llm.ask.types import Endpoint, Price

    return Endpoint(
        name="bench",
        model=MODEL,
        base_url=f"{url}/v1",
        key_env="BENCHMARK_KEY",
        concurrency=in_flight,
        capabilities=frozenset({"json_schema"}),
        price=Price(1.0, 4.0),
    )


def requests() -> Iterator[Request]:
    """The same questions as `body` asks, without end."""
    from typing import Literal

    from pydantic import BaseModel

    from longform.llm.ask.types import Request

    class Checked(BaseModel):
        claims: list[str]
        verdict: Literal["supported", "unsupported"]
        reason: str

    for number in count():
        yield Request(messages(number), task="benchmark", max_tokens=512, reply=Checked, form="json")


def check(answer: Any) -> None:
    if answer.value is None or answer.value.verdict != "supported":
        raise SystemExit(f"no answer but {answer}")


WAYS: dict[str, Callable[..., Found]] = {
    "aiohttp": partial(by_workers, raw_aiohttp),
    "sdk": partial(by_workers, sdk),
    "sdk-post": partial(by_workers, sdk_post),
    "longform": longform,
}


# ---------------------------------------------------------------- memory and hits


def memory(url: str, store: str, sizes: list[int], requests: int) -> Found:
    """Peaks of one `ask` over all of them; at the end the first `requests` are stored."""
    most, peaks = max(*sizes, requests), {}
    clock = Clock()
    with models(store) as opened:
        asked = islice(globals()["requests"](), most)
        for number, (_, answer) in enumerate(opened.client(endpoint(url, IN_FLIGHT[0])).ask(enumerate(asked)), 1):
            check(answer)
            if number in sizes:
                peaks[str(number)] = peak_mb()
    return {"peak_mb": peaks, "per_second": round(most / clock.wall(), 1)}


def hits(url: str, store: str, requests: int) -> Found:
    """In chunks, so that making the questions is not measured."""
    asked, wall, processor = islice(globals()["requests"](), requests), 0.0, 0.0
    with models(store) as opened:
        client = opened.client(endpoint(url, IN_FLIGHT[0]))
        while chunk := list(islice(asked, HITS_AT_ONCE)):
            clock = Clock()
            for _, answer in client.ask(enumerate(chunk)):
                check(answer)
            wall, processor = wall + clock.wall(), processor + clock.processor()
    return {"per_second": round(requests / wall, 1), "cpu_us": round(1e6 * processor / requests, 1)}


MORE: dict[str, Callable[..., Found]] = {"memory": memory, "hits": hits}


if __name__ == "__main__":
    main()
