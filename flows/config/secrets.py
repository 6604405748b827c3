"""What no configuration may hold: keys, users and passwords. They stand in environment variables, since a configuration
is written to runs/, to Prefect and into messages. What is refused here is not repeated in the message.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

_STARTS = r"sk-|gsk_|xai-|hf_|r8_|pplx-|nvapi-|csk-|fw_|tgp_|ghp_|github_pat_|AIza|AKIA|eyJ|Bearer |Basic "
_KNOWN = re.compile(rf"(?<![A-Za-z0-9])(?:{_STARTS})[\w.+/=-]{{8,}}")
_NAMED = re.compile(r"key|token|secret|passw|pwd|signature|credential|auth|jwt|bearer|session", re.IGNORECASE)
_SHORT_NAMES = frozenset({"code", "sig", "sas", "pass", "user", "username"})
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_ADDRESS = re.compile(r'"(?:\w+:/*)?[\w.-]*(?::\d{1,5})?(?:/[\w./-]*)?"|[^"]*')
_ASSIGNED = re.compile(r"([\w-]+)[\"']?\s*[=:]")
_WORDS = re.compile(r"[A-Za-z][a-z]*|[0-9]+")
_RUN = re.compile(r"[A-Za-z0-9]{20,}")
_SECRET_PARAMETERS = frozenset({
    "access_token", "api_key", "apikey", "auth", "authorization", "bearer", "credentials", "default_headers",
    "extra_headers", "extra_query", "headers", "key", "password", "secret", "token", "x_api_key",
})  # fmt: skip


def looks_like_key(text: str) -> bool:
    """Whether the text has what begins as providers' keys do, or is one long row of letters and digits at random."""
    return bool(_KNOWN.search(text)) or any(map(_is_random, _RUN.findall(text)))


def address_without_secrets(address: str) -> str:
    """The http or https URL unchanged. ValueError if it is none, or has a user, a password, or a key in its path, its
    query (which may hold a version, e.g. `?api-version=2024-10-21`) or behind it.
    """
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query, keep_blank_values=True) + parse_qsl(parts.fragment, keep_blank_values=True)
        valid = bool(parts.hostname) and (parts.port or True) and address.isprintable() and "\\" not in address
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("an address has a host, e.g. http://127.0.0.1:8000/v1")
    if "@" in parts.netloc:
        raise ValueError("an address holds no user and no password: the key belongs into a variable, see key_env")
    secret_names = any(_NAMED.search(name) or name.lower() in _SHORT_NAMES for name, _ in query)
    values = [*(value for _, value in query), *unquote(parts.path).split("/"), unquote(parts.fragment)]
    if secret_names or any(looks_like_key(value) and not _is_id(value) for value in values):
        raise ValueError("an address holds no key: it belongs into a variable, see key_env")
    return address


def variable_name(name: str) -> str:
    """The name of an environment variable unchanged; ValueError if it cannot be one, or looks like a key itself."""
    if not _VARIABLE.fullmatch(name) or looks_like_key(name):
        raise ValueError(
            "key_env is the name of an environment variable, e.g. MY_KEY: put the key into one, and its name here"
        )
    return name


def model_name(name: str) -> str:
    """The name of a model or an endpoint unchanged; ValueError if it looks like a key: rows, cards and stored answers
    name both.
    """
    if looks_like_key(name) and not _is_id(name):
        raise ValueError("a name of a model or an endpoint is no key: the key belongs into a variable, see key_env")
    return name


def parameters_without_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of requests unchanged; ValueError if one has a name or value of a secret, or is for headers."""
    for name, value in parameters.items():
        if name.lower().replace("-", "_") in _SECRET_PARAMETERS:
            raise ValueError(f"{name} is no parameter of a request: the key belongs into a variable, see key_env")
        if _KNOWN.search(json.dumps(value, default=str)):
            raise ValueError(f"{name} holds what looks like a key: it belongs into a variable, see key_env")
    return parameters


def may_hold_secret(path: list[str], value: Any) -> bool:
    """Whether the value of the setting at this path is not to be shown: it is more than a plain address, has what looks
    like a key, or is or has something with the name of a secret.
    """
    text = json.dumps(value, default=str, ensure_ascii=False)
    if any(name.endswith("url") for name in path) and not _PLAIN_ADDRESS.fullmatch(text):
        return True
    named = [*path, *(name for name in _ASSIGNED.findall(text))]
    secret = any(_NAMED.search(name) and not name.endswith("tokens") for name in named)
    return secret or "@" in text or looks_like_key(text)


def _is_random(run: str) -> bool:
    """Whether letters and digits change from one to the other often: no word, no version, no date."""
    pieces = _WORDS.findall(run)
    return sum(piece.isdigit() for piece in pieces) >= 3 and len(run) < 4 * len(pieces)


def _is_id(text: str) -> bool:
    """Whether the text is an account's or project's id, as some addresses have: 32 hex digits, also as a UUID."""
    return re.fullmatch(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", text) is not None
