"""What an endpoint's refusal means: send again, never send this request again, or stop sending.

    again   429, 408, 409, 425, 498, 499, 5xx, lost connection, time-out
    never   too long (413, or a 400, 403, 422, 429, 451 or 500 that says so), or held back by a filter
    stop    key (401, 403), money (402, or a code or words for it), unknown model or path (404), not implemented (501,
            505), a parameter that the endpoint does not take (400, 422), anything else
    unsure  400 or 422 without a word on what is wrong: as never, unless the first requests all end so (then stop)

Servers' error bodies differ: {"error": {...}}, {"error": "..."}, {"object": "error", ...}, {"detail": [...]}, a list
of these, plain text, a proxy's page, and any of them with status 200. Error codes count more than words, and only the
first words are read, because some servers repeat the question after them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.client import responses
from typing import Any, Literal, NamedTuple

from longform.lines import beginning, one_line
from longform.llm.ask.types import Endpoint
from longform.llm.send.bodies import read_json
from longform.llm.send.secrets import NO_KEYS, Cleaner

AGAIN = frozenset({0, 408, 409, 425, 429, 498, 499})
NEVER_THERE = frozenset({501, 505})
CHARACTERS_READ = 400
QUOTED_CHARACTERS = 20
SECRET = re.compile(r"(?:sk-|Bearer )[\w.-]{8,200}")
LOADING = re.compile(
    rb"loading (?:the )?model|model .{0,60}is (?:currently |still )?(?:loading|starting)", re.IGNORECASE
)
TITLE = re.compile(r"<title[^>]{0,100}>([^<]{1,200})", re.IGNORECASE)
MESSAGE_CHARACTERS = 300
OVERLOADED = {529: "Overloaded"}


def _any(*forms: str) -> re.Pattern[str]:
    """A pattern that finds any of these forms, in any case."""
    return re.compile("|".join(forms), re.IGNORECASE)


QUOTA = _any(
    r"insufficient_?(?:quota|credit|balance|fund)|quota_?exceeded|exceeded_?current_?quota",
    r"billing|payment_?required|budget_?exceeded|exceeded_?budget|arrearage",
)
QUOTA_WORDS = _any(
    r"insufficient (?:balance|credit|fund)|credit balance is too low|check your billing|billing (?:hard )?limit",
    r"budget has been exceeded|exceeded ?budget|over budget|crossed budget|spending limit",
)
FILTER = _any(r"content_?(?:filter|policy)|policy_?violation|safety|moderation|flagged|guardrail|invalid_prompt")
FILTER_WORDS = _any(
    r"content (?:management|filter|policy)|contentpolicy|usage polic|was flagged|requires moderation",
    r"inappropriate content|safety system",
)
TOO_LONG = _any(
    r"(?:context|prompt)[_ ](?:length|size|window)|string_above_max_length|request_too_large|request too large",
    r"maximum context|longer than the (?:model|maximum)|too large (?:to process|for model)|max_new_tokens. must be <",
    r"exceeds? (?:the )?(?:model|context|maximum|available context)|max_tokens must be at least 1, got -|n_ctx",
)
TOO_LONG_PERHAPS = _any(r"too long|too many tokens|must have less than \d+ tokens")
NEVER_FITS = re.compile(r"limit:? (\d+),.{0,60}?requested:? ~?(\d+)", re.IGNORECASE)
LIMIT_TOO_HIGH = re.compile(
    r"max_(?:completion_)?tokens.{0,60}(?:too large|at most|less than|exceed|valid range|maximum value)", re.IGNORECASE
)
MODEL = _any(
    r"model_not_found|model_decommissioned|(?:invalid|unknown|unsupported)_?model|invalid model|not a valid model",
    r"(?:model|deployment)\b.{0,80}(?:not found|not exist|decommissioned|not available|no longer available)",
)
SETTING = _any(r"(?:unsupported|unknown|invalid)_(?:parameter|value)|extra_forbidden")
REFUSED = _any(
    r"unsupported|not support|n't support|unrecogni[sz]ed|unknown|unexpected|unavailable|invalid|incompatible",
    r"not (?:allowed|permitted|available|enabled)|extra(?: inputs| fields|_forbidden)",
    r"only (?:one|support)|must (?:be|equal)",
)
SCHEMA = _any(r"response_format|json[_ ]schema|\bguided|grammar|structured output")
LOGPROBS = re.compile(r"logprobs")
MANY_CHOICES = _any(r"['\"`]n['\"`]|\bn (?:>|must)|completion choice|multiple (?:choices|completions)")
LIMIT = re.compile(r"max_(?:completion_|output_)?tokens")
OTHERS = _any(
    r"['\"`](?:seed|stop|temperature|top_[pk]|user)['\"`]|: (?:seed|temperature|top_p)\b|reasoning_effort",
    r"(?:presence|frequency)_penalty|stream mode|enable the stream",
)
SPEAKS_TLS = _any(r"HTTP request (?:was )?(?:sent )?to (?:an )?(?:HTTPS|TLS|SSL)", r"speaking plain HTTP to an SSL")
A_PAGE = "a page"
ANSWERS = ("choices", "data", "output")
NO_API = tuple(f"200 with {what}" for what in (A_PAGE, "an empty body", "a body that is no JSON", "JSON that is no"))
LONG_HINT = "look why the server sends more than it was asked for"
NO_API_HINT = "look whether base_url is that of a model's API"
CACHE_KEY = re.compile(r"prompt_cache_key")
FIELDS = (SCHEMA, LOGPROBS, MANY_CHOICES, LIMIT, CACHE_KEY, OTHERS)
CAPABILITIES = {"json_schema": SCHEMA, "logprobs": LOGPROBS, "n": MANY_CHOICES, "prompt_cache_key": CACHE_KEY}

Then = Literal["again", "never", "stop", "unsure"]


class Fault(NamedTuple):
    """A refusal, or a reply that never came. `then`: what to do: send "again", "never" send this request again, "stop"
    sending to the endpoint, or "unsure": as never, but stop if the first requests all end so. `kind`: the kind of
    Failure if the request gets no answer. `message` contains no keys. `status` is 0 where no reply came.
    """

    then: Then
    kind: Literal["request", "filter", "oversized", "unanswered"]
    message: str
    status: int = 0


class ErrorDetails(NamedTuple):
    """What an error body says: its codes, the parameter it is about, and the first CHARACTERS_READ characters of its
    message. Each is empty if missing.
    """

    code: str
    parameter: str
    words: str


def fault_of(status: int, body: bytes, cleaner: Cleaner = NO_KEYS) -> Fault:
    """What a status other than 200 means. `status` is 0 where no reply came; then `body` is the reason in words. The
    message is the status and what the error body says, else what the status means, on one line of at most 300
    characters, without keys.
    """
    details = _details_of(cleaner.body(body))
    held = FILTER.search(details.code) or (400 <= status < 500 and FILTER_WORDS.search(details.words))
    parts = [details.code, details.parameter if details.parameter not in details.words else "", details.words]
    message = _with_status(status, " ".join(filter(None, parts)))
    return Fault(_then(status, details), "filter" if held else "request", scrub(message, cleaner), status)


def status_within(body: bytes) -> int:
    """The status of the error in the body of a reply with status 200: the one it names (400 to 599), else 402 for
    money, 400 where the request is too long or held back by a filter, 500 for any other error. 200 where the body
    contains no error.
    """
    document = _document(body)
    error = document.get("error") or (document if document.get("object") == "error" else None)
    if not error:
        return 200
    code = str(error.get("code", error.get("status"))) if isinstance(error, dict) else ""
    if code.isdecimal() and 400 <= int(code[:9]) < 600:
        return int(code)
    details = _details_of(body)
    if QUOTA.search(details.code):
        return 402
    return 400 if any(_of_the_request(details)) else 500


def is_busy(status: int, body: bytes) -> bool:
    """Whether the server seems only busy: a 429, unless it is for lack of money or this request alone exceeds the rate
    limit; or a 503 that says the model is still loading.
    """
    if status == 503:
        return bool(LOADING.search(body[:CHARACTERS_READ]))
    if status != 429:
        return False
    details = _details_of(body)
    return not (QUOTA.search(details.code) or QUOTA_WORDS.search(details.words) or _never_fits(details.words))


def unusable(body: bytes) -> str:
    """A short message about the body of a reply with status 200 that is no answer; the body itself where it is the
    wire's own message.
    """
    start = body[:100].lstrip()
    if start.startswith(b"200 with "):
        return scrub(body.decode("utf-8", "replace"))
    return f"200 with {_no_answer(start, body)}"


def _no_answer(start: bytes, body: bytes) -> str:
    """What a body is that is no answer. `start`: its first bytes."""
    if not start:
        return "an empty body"
    if start.startswith(b"data:"):
        return "a stream of events, which was not asked for"
    if start.startswith(b"<"):
        return scrub(_excerpt(body))
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        more = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data"
        if start[:1] not in b"{[":
            return "a body that is no JSON"
        return "more than one JSON document" if more else "JSON that breaks off, or is broken"
    if not isinstance(document, dict):
        return "JSON that is no object"
    name = next((name for name in ANSWERS if name in document), None)
    return f"a list `{name}` that is empty or cannot be read" if name else "JSON that is no answer of a model"


def hint(fault: Fault) -> str:
    """What to look at after a reply with status 200 that no model can have sent, or that was too large; empty for any
    other fault.
    """
    if fault.status == 200 and fault.message.startswith("200 with more than "):
        return LONG_HINT
    return NO_API_HINT if fault.status == 200 and fault.message.startswith(NO_API) else ""


def _with_status(status: int, words: str) -> str:
    """A status and the words of its error. Where there are none, or the page of a proxy, what the status means."""
    if not status:
        return words
    meaning = OVERLOADED.get(status) or responses.get(status, "")
    if words and not words.startswith(A_PAGE):
        return f"{status} {words}"
    title = words.partition('"')[2].removeprefix(str(status)).strip(' "')
    page = A_PAGE if title.casefold() in ("", meaning.casefold()) else words
    return f"{status} {meaning}".rstrip() + (f", {page}" if words else "" if meaning else " without a word on why")


def scrub(text: str, cleaner: Cleaner = NO_KEYS) -> str:
    """The text on one line, cut at 300 characters, with "[key]" for keys and for what looks like one."""
    line = one_line(cleaner.text(text[: 100 * MESSAGE_CHARACTERS]))
    return beginning(SECRET.sub("[key]", cleaner.text(line)), MESSAGE_CHARACTERS)


def without_question(message: str, sent: str) -> str:
    """The server's message, in which each passage of QUOTED_CHARACTERS or more that is in the question is replaced by
    "[...]": texts of a question do not belong in logs. `sent` is the body of the request; white space in its texts
    counts as one blank.
    """
    document = read_json(sent.encode("utf-8", "surrogatepass"))
    asked_for = document.get("messages") or document.get("input") or ""
    messages = [each for each in asked_for if isinstance(each, dict)] if isinstance(asked_for, list) else []
    asked = " ".join(" ".join([str(each.get("content")) for each in messages] or [str(asked_for)]).split())
    kept, at = "", 0
    while at < len(message):
        end = at + QUOTED_CHARACTERS
        if end > len(message) or message[at:end] not in asked:
            kept, at = kept + message[at], at + 1
            continue
        while end < len(message) and message[at : end + 1] in asked:
            end += 1
        kept, at = f"{kept}[...]", end
    return kept


def remedy(fault: Fault, endpoint: Endpoint) -> str:
    """What to change after a refusal that stops everything, in a few words: of the account, the key, the model, the
    address or the endpoint's settings.
    """
    message = fault.message
    if fault.status == 402 or QUOTA.search(message) or QUOTA_WORDS.search(message):
        return "add credit to its account, or raise the limit there"
    if SPEAKS_TLS.search(message):
        return "begin base_url with https://, as that port speaks TLS"
    if fault.status in (401, 403):
        also = ", and whether its account may use this model" if fault.status == 403 else ""
        return f"check the key {endpoint.key_env}{also}" if endpoint.key_env else "set key_env, as it wants a key"
    if fault.status == 404 or MODEL.search(message):
        return "check the model's name and base_url"
    if 300 <= fault.status < 400:
        return "check base_url, and whether it begins with https://"
    if fault.status in (405, 415, 501, 505):
        return "check base_url"
    return _advice(message, endpoint) or "check the key, the account, the model's name and the parameters"


def _advice(message: str, endpoint: Endpoint) -> str:
    """What to change in the endpoint's settings (`take X out of its parameters`), if the server's message names one of
    them; else empty, also for a token limit that is too high.
    """
    if LIMIT_TOO_HIGH.search(message):
        return ""
    named = [name for name, _ in endpoint.parameters if re.search(rf"\b{re.escape(name)}\b", message)]
    if named:
        return f"take {named[0]} out of its parameters"
    for capability, words in CAPABILITIES.items():
        if words.search(message) and (capability in endpoint.capabilities or capability == "logprobs"):
            return f'take "{capability}" out of its capabilities'
    if LIMIT.search(message) and endpoint.api == "chat":
        other = "max_tokens" if endpoint.limit_field == "max_completion_tokens" else "max_completion_tokens"
        return f'set limit_field = "{other}"'
    return ""


def _then(status: int, details: ErrorDetails) -> Then:
    """What to do after an error with this status and details: "again", "never", "stop" or "unsure", as in `Fault`."""
    if status == 429:
        if QUOTA.search(details.code) or QUOTA_WORDS.search(details.words):
            return "stop"
        return "never" if _never_fits(details.words) else "again"
    if status == 500 and details.code and TOO_LONG.search(f"{details.code} {details.words}"):
        return "never"
    if status in AGAIN or (status >= 500 and status not in NEVER_THERE):
        return "again"
    if status == 413 or (status in (403, 451) and any(_of_the_request(details))):
        return "never"
    return _of_a_bad_request(details) if status in (400, 422) else "stop"


def _of_a_bad_request(details: ErrorDetails) -> Then:
    """What to do after a 400 or 422 with these details: "stop" for money, model or a parameter that the endpoint does
    not take, "never" if the request is too long or was held back by a filter, else "unsure", also for too high a token
    limit.
    """
    if QUOTA.search(details.code) or QUOTA_WORDS.search(details.words) or SPEAKS_TLS.search(details.words):
        return "stop"
    if any(_of_the_request(details)) or TOO_LONG_PERHAPS.search(details.words):
        return "never"
    if LIMIT_TOO_HIGH.search(details.words):
        return "unsure"
    about_settings = details.parameter and not details.parameter.startswith(("messages", "input", "prompt"))
    if about_settings or SETTING.search(details.code) or MODEL.search(f"{details.code} {details.words}"):
        return "stop"
    refused = REFUSED.search(details.words) and any(field.search(details.words) for field in FIELDS)
    return "stop" if refused else "unsure"


def _of_the_request(details: ErrorDetails) -> Iterator[bool]:
    """Two truth values, by the error's codes and words: whether a filter held the request back, and whether it is too
    long.
    """
    yield bool(FILTER.search(details.code) or FILTER_WORDS.search(details.words))
    yield bool(TOO_LONG.search(f"{details.code} {details.words}"))


def _never_fits(words: str) -> bool:
    """Whether the message says that this request alone exceeds the rate limit of a minute: it asks for more than the
    limit, or is called too large.
    """
    fits = NEVER_FITS.search(words)
    return int(fits[2]) > int(fits[1]) if fits else "request too large" in words.lower()


def _details_of(body: bytes) -> ErrorDetails:
    """The details in an error body, in any of the forms that servers use; the words of a body in no such form are its
    beginning, or the title of a page.
    """
    document = _document(body)
    error = document.get("error") or document
    if not isinstance(error, dict):
        return ErrorDetails("", "", str(error)[:CHARACTERS_READ])
    inner = error.get("innererror") or error.get("inner_error")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    code = " ".join(each for each in codes if isinstance(each, str) and not each.isdecimal())
    parameter = error.get("param")
    words = error.get("message") or error.get("detail") or document.get("detail")
    words = words.get("detail") or words if isinstance(words, dict) else words
    if isinstance(words, list) and words and isinstance(words[0], dict):
        where = [str(step) for step in words[0].get("loc") or () if step != "body"]
        return ErrorDetails(
            str(words[0].get("type", "")), ".".join(where), str(words[0].get("msg", ""))[:CHARACTERS_READ]
        )
    words = words if isinstance(words, str) and words else repr(words) if words else _excerpt(body)
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        words = f"{words}: {metadata['raw']}"
    return ErrorDetails(code, parameter if isinstance(parameter, str) else "", words[:CHARACTERS_READ])


def _document(body: bytes) -> dict[str, Any]:
    """The JSON object in the body, the first of a list, or the first event of a stream; an empty dict if there is
    none.
    """
    if body.lstrip().startswith(b"data:"):
        body = body.lstrip()[5:].partition(b"\n")[0]
    if not body.lstrip().startswith(b"["):
        return read_json(body)
    try:
        first = next(iter(json.loads(body)), None)
    except (ValueError, RecursionError):
        return {}
    return first if isinstance(first, dict) else {}


def _excerpt(body: bytes) -> str:
    """The first 10 * CHARACTERS_READ bytes of the body as text; for a body that begins with `<` A_PAGE, with its title
    if it has one there.
    """
    text = body[: 10 * CHARACTERS_READ].decode("utf-8", "replace")
    title = TITLE.search(text) if text.lstrip().startswith("<") else None
    titled = f'{A_PAGE} titled "{one_line(title[1])}"' if title else A_PAGE
    return titled if text.lstrip().startswith("<") else text
