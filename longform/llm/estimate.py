"""What a stage's requests will cost, before any is sent. The requests must be known; for stages whose inputs are not
built yet, see longform/engine/bounds.py.

Requests with a stored reply cost nothing. Tokens of the other requests are estimated from the best of these:

    stored replies of the same stage (a pilot), if there are ten: a line fitted through tokens against bytes
    the store's latest answers of the same task and model: mean tokens per byte and per reply
    neither: tokens of prompts counted offline; of replies only the token limit is known
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from types import MappingProxyType
from typing import NamedTuple

from longform.llm.ask.tokens import count, upper_bound
from longform.llm.ask.types import Endpoint, Request
from longform.llm.client import PendingRequest, stored_result
from longform.llm.price import FIGURES, NANO, Figures, cost_nano, price_of
from longform.llm.read.repeated import Repeats
from longform.llm.responses.records import REPLY, Record, Usage
from longform.llm.responses.store import ResponseStore
from longform.llm.send.bodies import Bodies, chat_key, embedding_key, embedding_sent, fields_of, read_json
from longform.llm.send.usage import most_output

AT_ONCE = 64
ENOUGH = 10
CHECKED = 500
COUNTED_FIRST, COUNTED_THEN = 256, 64
TOKENS_A_MESSAGE = 4
LEAST_CACHED, CACHED_STEP = 1024, 128  # tokens of a prefix that providers cache
LIMIT_LOW, LIMIT_GUESS = 1 / 32, 1 / 4
FORM_TOKENS = 4
COUNT_ERROR, USAGE_ERROR, PILOT_ERROR = 0.15, 0.10, 0.02
NORMAL_P90 = 1.2816
USD = [name for name in FIGURES if name.startswith("usd")]


class Estimator:
    """Adds up the requests of one stage to one endpoint, for an estimate of their cost. Without a `store`, or for the
    offline model, no reply counts as stored. `wants`: whether stored failures of a kind are asked again. Call
    `close` at the end.
    """

    def __init__(
        self, endpoint: Endpoint, store: ResponseStore | None, wants: Callable[[str], bool] = lambda kind: False
    ) -> None:
        self.endpoint, self._wants = endpoint, wants
        self._store = None if endpoint.offline else store
        self._bodies, self._repeats = Bodies(endpoint), Repeats()
        self._waiting: list[_Question] = []
        self._tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._seen = sqlite3.connect("", isolation_level=None)  # of its own, in memory until it is large
        self._seen.execute("CREATE TABLE seen(key BLOB PRIMARY KEY) WITHOUT ROWID")
        self._seen.execute("PRAGMA journal_mode=OFF")

    def close(self) -> None:
        self._seen.close()

    def add(self, request: Request) -> None:
        """Count one request with all its samples. Samples that were counted before are skipped (not for the offline
        model, of which only calls are counted).
        """
        if self.endpoint.offline:
            self._tallies[request.task].sums["calls"] += request.samples
            return
        sent = [self._bodies.sent(request, sample) for sample in range(request.samples)]
        keys = [chat_key(self.endpoint, body, sample) for sample, body in enumerate(sent)]
        together = request.samples > 1 and "n" in self.endpoint.capabilities
        texts = [content for _, content in request.messages]
        bound = upper_bound(sent[0])
        samples = {key: (sample, body) for sample, (key, body) in enumerate(zip(keys, sent, strict=True))}
        size, limit = len(sent[0]), request.max_tokens
        self._wait(_Question(request.task, size, keys, limit, together, texts, bound, request, samples))

    def embed(self, texts: Iterable[str]) -> None:
        """Count texts to be embedded, in calls of at most AT_ONCE texts. Texts that were counted before are skipped; a
        call is counted only if it has a text that is neither stored nor was counted before.
        """
        sums = self._tallies["embeddings"].sums
        waiting = iter(dict.fromkeys(texts))
        while chunk := list(islice(waiting, AT_ONCE)):
            missing = sums["replies"]
            for text in chunk:
                sent = embedding_sent(self.endpoint, text)
                keys = [embedding_key(self.endpoint, sent)]
                self._wait(_Question("embeddings", len(sent), keys, 0, False, [text], upper_bound(sent)))
            self._flush()
            sums["trips"] += sums["replies"] > missing

    def estimate(self) -> Figures:
        """The figures of all requests and texts added so far, summed over the tasks."""
        self._flush()
        found = Figures()
        for task, tally in self._tallies.items():
            usage = self._store.usage(self.endpoint.name, self.endpoint.model, task) if self._store else None
            found += _estimate(self.endpoint, task, tally, usage)
        return found

    def _wait(self, question: _Question) -> None:
        """Put a question aside; as soon as AT_ONCE are there, they are counted (see `_flush`)."""
        self._waiting.append(question)
        if len(self._waiting) >= AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        """Look up the questions put aside in the store, and add each to the tally of its task, without the samples
        that were counted before.
        """
        questions, self._waiting = self._waiting, []
        fresh = [question._replace(keys=self._new(question.keys)) for question in questions]
        keys = [key for question in fresh for key in question.keys]
        found = self._store.replies(keys) if self._store and keys else {}
        for question in (question for question in fresh if question.keys):
            stored, later = self._looked_up(question, found)
            tally, further = self._tallies[question.task], {each.first_key for each in later}
            if keys := [key for key in question.keys if key not in further]:
                tally.add(question._replace(keys=keys), stored)
            for each in later:
                tally.add(each, [])

    def _looked_up(self, question: _Question, found: dict[str, Record]) -> tuple[list[Record], list[_Question]]:
        """(stored replies to samples of the question of which nothing is to be asked, those samples as questions of
        which the first reply is stored, but not that to the next attempt). All others are to be asked.
        """
        stored: list[Record] = []
        later: list[_Question] = []
        for key in question.keys:
            record = found.get(key)
            if record is None:
                continue
            if question.request is None:
                stored += [record] if isinstance(read_json(record.body).get("embedding"), list) else []
                continue
            sample, body = question.samples[key]
            pending = PendingRequest(question.request, sample, body, key)
            result = stored_result(pending, record, self.endpoint, self._get)
            if result is None and pending.step != "first":
                later.append(_attempt(question, pending, self.endpoint))
            elif result is not None and not self._repeats.is_wanted_again(question.request, result, self._wants):
                stored.append(record)
        return stored, later

    def _get(self, keys: Sequence[str]) -> dict[str, Record]:
        """The stored records under these keys; none without a store."""
        return self._store.replies(keys) if self._store else {}

    def _new(self, keys: Sequence[str]) -> list[str]:
        """Those keys that were not passed to this method before."""
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        return [key for key in keys if self._seen.execute(insert, (bytes.fromhex(key),)).rowcount]


class _Question(NamedTuple):
    """A request, or a text to embed, as it is counted. `bytes` is the length of its body; `keys` has one key a sample;
    `limit` is the token limit of a reply (0: of a text to embed); `together`: one call asks for all samples; `texts`
    are the contents of its messages; `tokens_at_most` is the upper bound of prompt tokens. `samples`: key -> (number
    of the sample, its body). `first_key`: of the first attempt, where this is a later one.
    """

    task: str
    bytes: int
    keys: list[str]
    limit: int
    together: bool
    texts: list[str]
    tokens_at_most: int
    request: Request | None = None
    samples: Mapping[str, tuple[int, str]] = MappingProxyType({})
    first_key: str = ""


def _attempt(question: _Question, pending: PendingRequest, endpoint: Endpoint) -> _Question:
    """The attempt at which the pending request is, a sample of the question, as a question of its own."""
    sent = pending.sent
    messages = json.loads(sent)[fields_of(endpoint)[0]]
    return question._replace(
        bytes=len(sent),
        keys=pending.keys[-1:],
        limit=pending.limit,
        together=False,
        texts=[message["content"] for message in messages],
        tokens_at_most=upper_bound(sent),
        first_key=pending.key,
    )


@dataclass(slots=True)
class _Line:
    """A straight line fitted to points (x, y) by least squares; only sums of the points are kept."""

    n: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    yy: float = 0.0

    def add(self, x: float, y: float) -> None:
        self.n += 1
        self.x, self.y = self.x + x, self.y + y
        self.xx, self.xy, self.yy = self.xx + x * x, self.xy + x * y, self.yy + y * y

    def sum_at(self, number: float, total_x: float) -> tuple[float, float]:
        """(sum, error): the predicted sum of y for `number` further points whose x add up to `total_x`, not below 0;
        and by how much that may be off: at least 2 standard errors. Points of nearly the same x give a level line.
        """
        mean_x, mean_y = self.x / self.n, self.y / self.n
        spread = self.xx - self.n * mean_x**2
        sloped = spread > 1e-6 * self.xx
        slope = (self.xy - self.n * mean_x * mean_y) / spread if sloped else 0.0
        left = max(0.0, self.yy - self.n * mean_y**2 - slope**2 * spread) / max(1, self.n - 2)
        away = total_x / number - mean_x
        error = math.sqrt(left * (1 / self.n + 1 / number + (away**2 / spread if sloped else 0.0)))
        return max(0.0, number * (mean_y + slope * away)), (2 + 8 / self.n) * number * error


@dataclass(slots=True)
class _Tally:
    """Sums over the requests of one task. All names below but `least`, `before`, `inputs` and `outputs` are
    keys of `sums`.

    Of requests without a stored reply: `calls`, `replies` (one a sample), `trips` (calls for texts to embed, many
    texts each), `bytes` and `tokens_at_most` of the calls, `reply_bytes` (of the requests, one for each reply) and
    `limit` of the replies, and `least`, a low guess at the tokens of the replies. `counted_bytes` and `counted_tokens`
    are of those calls whose tokens were counted offline, `counted_shared` the tokens of these that begin as the prompt
    before does, whose texts are `before`.

    Of stored replies: `cached` (their number), `stored_bytes`, `stored_input`, `stored_cached` (bytes and tokens of
    their requests), `stored_output`, `stored_reasoning`, `milliseconds` and `timed` (how many have a time), and the
    lines `inputs` and `outputs` of tokens against bytes; how many are `cut_off`, were `checked` for their form, and are
    `invalid`.
    """

    sums: Counter[str] = field(default_factory=Counter)
    least: float = 0.0
    before: list[str] = field(default_factory=list)
    inputs: _Line = field(default_factory=_Line)
    outputs: _Line = field(default_factory=_Line)

    def add(self, question: _Question, records: list[Record]) -> None:
        """Count a question. `records` are the stored records under its keys; the samples of other keys are to be
        asked.

        Tokens are counted offline for the first COUNTED_FIRST calls, then at every COUNTED_THEN-th. Tokens of stored
        replies are used only if the question has all its replies and no failure is stored.
        """
        missing = len(question.keys) - len(records)
        self.sums["cached"] += len(records)
        if missing:
            calls = 1 if question.together else missing
            if self.sums["calls"] < COUNTED_FIRST or not self.sums["calls"] % COUNTED_THEN:
                frames = TOKENS_A_MESSAGE * len(question.texts) if question.limit else 0
                tokens = sum(map(count, question.texts)) + frames
                shared = shared_tokens(self.before, question.texts) + (calls - 1) * cached_at_most(tokens)
                self.sums.update(
                    counted_bytes=calls * question.bytes, counted_tokens=calls * tokens, counted_shared=shared
                )
            self.before = question.texts
            self.sums.update(
                calls=calls,
                replies=missing,
                bytes=calls * question.bytes,
                reply_bytes=missing * question.bytes,
                tokens_at_most=calls * question.tokens_at_most,
                limit=missing * question.limit,
            )
            self.least += missing * _least(question)
        elif all(record.state == REPLY for record in records):
            self._learn(question, records)

    def _learn(self, question: _Question, records: list[Record]) -> None:
        """Add the tokens, times and faults of a question whose replies are all stored. Whether replies are in the form
        asked for is checked for about the first CHECKED replies.
        """
        calls = 1 if question.together else len(records)
        sent = sum(record.input_tokens or 0 for record in records)
        times = [record.milliseconds for record in records if record.milliseconds]
        self.sums.update(
            stored_bytes=calls * question.bytes,
            stored_input=sent,
            stored_cached=sum(record.cached_tokens or 0 for record in records),
            stored_output=sum(record.output_tokens or 0 for record in records),
            stored_reasoning=sum(record.reasoning_tokens or 0 for record in records),
            milliseconds=sum(times),
            timed=len(times),
        )
        if sent and question.limit:
            self.inputs.add(question.bytes, sent / calls)
            self.outputs.add(question.bytes, sum(record.output_tokens or 0 for record in records) / len(records))
            self.sums["cut_off"] += sum(record.finish == "length" for record in records)
            if question.request and self.sums["checked"] < CHECKED:
                invalid = sum(_invalid(question.request, record) for record in records)
                self.sums.update(checked=len(records), invalid=invalid)


def shared_tokens(before: Sequence[str], texts: Sequence[str]) -> int:
    """About how many tokens a provider has in its cache of a prompt with these texts, if it had the one with the texts
    `before` last: of what is equal from the beginning on.
    """
    equal = 0
    for one, other in zip(before, texts, strict=False):
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
        equal += count(one[:same])
        if one != other:
            break
    return cached_at_most(equal)


def cached_at_most(tokens: int) -> int:
    """How many of so many equal tokens providers cache: whole steps, from LEAST_CACHED on."""
    return tokens // CACHED_STEP * CACHED_STEP if tokens >= LEAST_CACHED else 0


class _Tokens(NamedTuple):
    """Estimated tokens of the requests without a stored reply. `input`: of the prompts, which may be off by the share
    `error` of itself; `output`: of the replies, likely between `low` and `high`. `measured`: estimated from stored
    replies. `reasoning`: the share of the output that is reasoning; None: unknown.
    """

    input: float
    error: float
    low: float
    output: float
    high: float
    measured: bool
    reasoning: float | None


def _estimate(endpoint: Endpoint, task: str, tally: _Tally, usage: Usage | None) -> Figures:
    """The figures of one task's tally. Only the numbers of calls and of stored replies, without tokens and cost, where
    no call is left to make or for the offline model. `usage`: of the store's latest answers, None if there are none.
    """
    sums = tally.sums
    calls = sums["trips"] or sums["calls"]
    if not calls or endpoint.offline:
        return Figures(calls=calls, calls_about=calls, cached=sums["cached"])
    most = most_output(endpoint, sums["limit"], sums["replies"])
    tokens, share = _tokens(tally, usage, most), _cached_share(endpoint, sums)
    return Figures(
        calls=calls,
        calls_about=calls,
        cached=sums["cached"],
        input_tokens=round(tokens.input),
        input_tokens_at_most=sums["tokens_at_most"],
        output_low=math.floor(tokens.low),
        output_tokens=round(tokens.output),
        output_high=math.ceil(tokens.high),
        output_tokens_at_most=most,
        cached_tokens=round(tokens.input * share),
        reasoning_tokens=None if tokens.reasoning is None else round(tokens.output * tokens.reasoning),
        **_usd(endpoint, sums, tokens, share, most),
        seconds=_seconds(endpoint, sums, tokens, usage),
        measured=tokens.measured,
    )


def _cached_share(endpoint: Endpoint, sums: Counter[str]) -> float:
    """The share of prompt tokens that the provider will have cached: as in stored replies; without these, and if cached
    tokens have a price of their own, as the prompts begin alike.
    """
    price = price_of(endpoint)
    if sums["stored_input"]:
        return sums["stored_cached"] / sums["stored_input"]
    known = price is not None and price.cached_input is not None and sums["counted_tokens"]
    return sums["counted_shared"] / sums["counted_tokens"] if known else 0.0


def _tokens(tally: _Tally, usage: Usage | None, most: int) -> _Tokens:
    """The tokens by the first of these that is possible: a line through the stored replies of the stage, if there are
    ENOUGH; the averages `usage`; the tokens counted offline, and of replies a quarter of their limit.

    For texts to embed, tokens per byte of the stage's stored vectors come first; no line is fitted, because the tokens
    of a whole call are in the record of its first text.

    `most`: the most tokens that the replies may be billed with.
    """
    sums = tally.sums
    if sums["limit"] == 0 and sums["stored_input"]:
        return _Tokens(sums["stored_input"] / sums["stored_bytes"] * sums["bytes"], PILOT_ERROR, 0, 0, 0, True, 0.0)
    if tally.inputs.n >= ENOUGH:
        return _piloted(tally, most)
    if usage is not None and usage.input_tokens_per_byte > 0:
        return _used(sums, usage, most)
    counted = sums["counted_tokens"] * sums["bytes"] / sums["counted_bytes"]
    return _Tokens(counted, COUNT_ERROR, tally.least, LIMIT_GUESS * sums["limit"], most, False, None if most else 0.0)


def _piloted(tally: _Tally, most: int) -> _Tokens:
    """The tokens estimated from the stored replies of the same stage. The share of replies that were cut off is asked
    again with twice the limit; the share that was not in the form asked for is sent back once for repair.
    """
    sums = tally.sums
    sent, sent_error = tally.inputs.sum_at(sums["calls"], sums["bytes"])
    received, received_error = tally.outputs.sum_at(sums["replies"], sums["reply_bytes"])
    received = min(received, most)
    again = sums["cut_off"] / tally.outputs.n
    repaired = sums["invalid"] / sums["checked"] if sums["checked"] else 0.0
    sent = sent * (1 + again + repaired) + repaired * received
    received *= 1 + repaired
    longer = again * sums["limit"]
    error = max(PILOT_ERROR * received, received_error)
    low, high = max(0.0, received - error) + longer, received + error + 2 * longer
    sent_share = max(PILOT_ERROR, sent_error / sent) if sent else PILOT_ERROR
    thought = sums["stored_reasoning"] / max(1, sums["stored_output"])
    return _Tokens(sent, sent_share, low, received + 1.5 * longer, high, True, thought)


def _used(sums: Counter[str], usage: Usage, most: int) -> _Tokens:
    """The tokens estimated from the store's latest answers of the same task and model, whatever their prompt was."""
    received = min(usage.output_tokens * sums["replies"], most)
    deviation = max(0.0, usage.output_tokens_p90 - usage.output_tokens) / NORMAL_P90
    error = 2 * deviation * math.sqrt(1 / max(1, usage.answers) + 1 / sums["replies"]) * sums["replies"]
    error = max(error, USAGE_ERROR * received)
    sent = usage.input_tokens_per_byte * sums["bytes"]
    low, high = max(0.0, received - error), min(most, received + error)
    return _Tokens(sent, USAGE_ERROR, low, received, high, True, usage.reasoning)


def _least(question: _Question) -> float:
    """A low guess at a reply's tokens: 1/32 of the limit; for a structured reply, which may be one word, 4 or the
    limit if that is less; 0 for a text to embed.
    """
    in_form = question.request is not None and question.request.reply is not None
    return min(FORM_TOKENS, question.limit) if in_form else LIMIT_LOW * question.limit


def _invalid(request: Request, record: Record) -> bool:
    """Whether a stored reply cannot be read in the form asked for; False where it is cut off, empty or no completion,
    or no form was asked for.
    """
    from longform.llm.read.structured import read_reply
    from longform.llm.send.bodies import read_completion

    completion = read_completion(record.body) if request.reply and record.finish != "length" else None
    if completion is None or request.reply is None or not completion.text.strip():
        return False
    return isinstance(read_reply(completion.text, request.reply, "json" if request.form == "json" else "tags"), str)


def _usd(
    endpoint: Endpoint, sums: Counter[str], tokens: _Tokens, share: float, output_at_most: int
) -> dict[str, float | None]:
    """Each field of Figures that begins with `usd`, in US dollars; all None where the price is unknown. `share` is that
    of cached prompt tokens, which are cheaper; the high figures and the bounds assume none. `output_at_most`: tokens.
    The figures of a batch are at its price only if the endpoint has the capability `batch`.
    """
    price = price_of(endpoint)
    least, most = tokens.input * (1 - tokens.error), tokens.input * (1 + tokens.error)
    asked: dict[str, tuple[float, float, float]] = {
        "usd_low": (least, share, tokens.low),
        "usd": (tokens.input, share, tokens.output),
        "usd_high": (most, 0.0, tokens.high),
        "usd_at_most": (sums["tokens_at_most"], 0.0, output_at_most),
    }
    if price is None:
        return dict.fromkeys(USD)
    figures: dict[str, float | None] = {}
    for name in USD:
        sent, cached, received = asked[name.replace("_batch", "")]
        batch = "batch" in name and "batch" in endpoint.capabilities
        figures[name] = cost_nano(price, round(sent), round(sent * cached), round(received), batch=batch) / NANO
    return figures


def _seconds(endpoint: Endpoint, sums: Counter[str], tokens: _Tokens, usage: Usage | None) -> float | None:
    """Seconds that the calls take: the longest of what requests a minute, tokens a minute, and the mean time of a
    stored reply at full concurrency need. None where none of the three is known.
    """
    calls = sums["trips"] or sums["calls"]
    latency = sums["milliseconds"] / sums["timed"] if sums["timed"] else usage.milliseconds if usage else 0.0
    least = [
        60 * calls / endpoint.rpm if endpoint.rpm else None,
        60 * (tokens.input + tokens.output) / endpoint.tpm if endpoint.tpm else None,
        calls * latency / 1000 / endpoint.concurrency if latency else None,
    ]
    return max((seconds for seconds in least if seconds is not None), default=None)
