"""Fetching sources by name, and what the commands `fetch` and `read` need of a source: its
module, terms and settings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from flows.config import configuration
from flows.sources import SOURCES, Terms
from longform.addresses import shown
from longform.errors import UsageError
from longform.files import read_json, sha256_of
from longform.hints import hint
from longform.net.download import Downloader, Fetched, Progress, side_file

Act = Literal["fetch", "read"]
ALL = "all"
ADDRESSES = {"base_url", "base_url_v1", "token_url"}


def module_of(source: str, act: Act | None = None) -> ModuleType:
    """The module flows.sources.<source>. UsageError for an unknown source, or if the module has no function `act`."""
    if source not in SOURCES:
        raise UsageError(f'There is no source "{source}"; {hint(source, SOURCES, "there are")}')
    module = import_module(f"flows.sources.{source}")
    if act is not None and not hasattr(module, act):
        done = "fetched" if act == "fetch" else "read"
        raise UsageError(f"{source} cannot be {done} by itself; `longform sources` shows what can.")
    return module


def listed() -> list[dict[str, Any]]:
    """A dict for each source whose module is installed: its name as `source`, the fields of `terms_of`, and `fetch`
    and `read`, whether it can be fetched and read by itself.
    """
    modules = {source: module_of(source) for source in SOURCES if find_spec(f"flows.sources.{source}")}
    return [
        {"source": source, **terms_of(module.TERMS), **{act: hasattr(module, act) for act in ("fetch", "read")}}
        for source, module in modules.items()
    ]


def terms_of(terms: Terms) -> dict[str, str | None]:
    """The fields of the terms as a dict: what, licence, attribution, decide."""
    return {name: getattr(terms, name) for name in ("what", "licence", "attribution", "decide")}


def settings_of(source: str, act: Act) -> list[dict[str, Any]]:
    """The settings that `longform fetch` (or `read`, by `act`) takes for a source, a dict each: name, default (None
    for a required setting), meaning. UsageError as by `module_of`.
    """
    model: type[BaseModel] = getattr(module_of(source, act), act.capitalize())
    return [
        {"name": name, "default": None if field.is_required() else field.default, "meaning": field.description or ""}
        for name, field in model.model_fields.items()
    ]


def config_of(source: str, act: Act, settings: list[str]) -> Any:
    """The checked settings of a source, an instance of its model `Fetch` or `Read` (by `act`), from texts `KEY=VALUE`.

    UsageError for an unknown name, even if the model itself allows extra ones, for a value that does not fit, for an
    address (a setting in ADDRESSES) with a user, password, query or fragment, and as by `module_of`.
    """
    model: type[BaseModel] = getattr(module_of(source, act), act.capitalize())
    strict = type(
        model.__name__, (model,), {"model_config": ConfigDict(extra="forbid"), "__module__": model.__module__}
    )
    config = configuration.read(source, strict, None, settings, listing=f"longform {act} {source}")
    for name in ADDRESSES & type(config).model_fields.keys():
        if (url := getattr(config, name)) and {"@", "?", "#"} & set(url):  # it is shown, and written beside files
            raise UsageError(
                f"{name} = {shown(url)} holds more than an address: give it without user, password and query, "
                "keys stand in the environment."
            )
    return config


def check_terms(source: str, accepted: bool, command_to_agree: str) -> None:
    """Raise UsageError with the terms of a source if a person must agree to them first and `accepted` is False.
    `command_to_agree`: how to run the fetch with agreement, for the message.
    """
    terms: Terms = module_of(source).TERMS
    if terms.decide and not accepted:
        raise UsageError(
            f"{source} asks for a decision before it is fetched. {terms.decide.rstrip('.')}.\n"
            f"Licence: {terms.licence}.\nIf you agree, run: {command_to_agree}"
        )


def fetch(
    source: str, what: list[str], config: Any, folder: Path, *, accepted: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Fetch files of a source into `folder`. `what` names them; ["all"] stands for the source's default. `accepted`: a
    person agreed to its terms, which is noted beside the files if the source asks for that.

    Returns a dict for each file, each file once: path, bytes, sha256, and `new`, whether this call fetched it.
    UsageError if the source is unknown or cannot be fetched by itself; errors of the source's `fetch` pass through.
    """
    module = module_of(source, "fetch")
    http = RecordingDownloader(module.TERMS, accepted=accepted)
    started = time.time()
    try:
        paths = module.fetch(http, [] if what == [ALL] else what, folder, config, progress)
        return [_described(Path(path), http.fetched.get(Path(path)), started) for path in dict.fromkeys(paths)]
    finally:
        http.close()


class RecordingDownloader(Downloader):
    """A downloader that keeps its results in `fetched` (path -> result), also those of files that were there already.
    If a person had to agree to the source's terms and did (`accepted`), this is noted in the file `<name>.fetch.json`
    beside each file that is newly downloaded.
    """

    def __init__(self, terms: Terms, *, accepted: bool) -> None:
        super().__init__()
        self.agreement = {"terms_accepted": "true"} if accepted and terms.decide else {}
        self.fetched: dict[Path, Fetched] = {}

    def download(self, url: Any, place: Path, *, facts: Mapping[str, str] | None = None, **options: Any) -> Fetched:
        done = super().download(url, place, facts={**(facts or {}), **self.agreement}, **options)
        self.fetched[place] = done
        return done


def _described(path: Path, fetched: Fetched | None, started: float) -> dict[str, Any]:
    """A file's path, bytes, sha256 and whether it is new, by `fetched`. If that is None, the file is looked at: it is
    new if it was changed since `started` (Unix time); its sha256 is that of the notes beside it if these have its
    size, else it is computed.
    """
    if fetched:
        return {"path": str(path), "bytes": fetched.bytes, "sha256": fetched.sha256, "new": fetched.new}
    stat = path.stat()
    side = read_json(side_file(path)) or {}
    sha256 = side["sha256"] if side.get("bytes") == stat.st_size else sha256_of(path)
    return {"path": str(path), "bytes": stat.st_size, "sha256": sha256, "new": stat.st_mtime >= started}
