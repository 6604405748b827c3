"""What a home holds, for the pages: datasets, their versions, and one version that was checked before it is shown.

A manifest is a file that anybody may have sent: names in it become folders and SQL, so none is used before it fits
`Manifest`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from flows.inspection.describe import named_splits
from flows.registry import DATASETS
from longform.artifacts import versions as published
from longform.artifacts.versions import Version
from longform.errors import StoreError, UsageError
from longform.files import read_json
from longform.hints import hint

TITLED = 2_000  # bytes of a plot, in which its title stands
FolderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")]
Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
FileName = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*){0,3}$")
]


class FileFacts(BaseModel):
    """What a manifest says of a file: bytes, SHA-256, and of a Parquet file the number of rows."""

    bytes: int
    sha256: str
    rows: int | None = None


class GateFacts(BaseModel):
    """What a manifest says of a gate, as `tasks.publishing.audits.gates_in` needs it."""

    model_config = ConfigDict(extra="forbid")

    gate: str
    of: str
    what: str
    found: int
    checked: int
    ceiling: float
    accepted: bool = False
    share: float = 0.0


class ServedFacts(BaseModel):
    """What a manifest says of the models that served a stage, as `tasks.publishing.served.served_in` needs it."""

    model_config = ConfigDict(extra="forbid")

    stage: str
    endpoint: str
    asked: str
    models: dict[str, int]
    unnamed: int
    fingerprints: dict[str, int]


class Manifest(BaseModel):
    """The fields of a manifest that the pages use, in the types that they need. Others are ignored."""

    model_config = ConfigDict(strict=True)

    number: int
    recipe: Fingerprint
    stages: dict[FolderName, Fingerprint]
    splits: dict[FolderName, int]
    offline: bool
    files: dict[FileName, FileFacts]
    inputs: dict[FolderName, dict[str, FolderName]] = {}
    configs: dict[FolderName, dict[FolderName, int]] = {}
    views: list[FolderName] = []
    keys: dict[FolderName, ColumnName] = {}
    terms: str | None = None
    gates: list[GateFacts] = []
    served: list[ServedFacts] = []


@dataclass(frozen=True, slots=True)
class Listed:
    """A version in a list: what its manifest says, or `problem`, why it cannot be shown."""

    dataset: str
    name: str
    version: Version | None
    problem: str = ""

    @property
    def rows(self) -> int:
        """Rows of all splits but those of views."""
        return sum(rows for _, rows in named_splits(self.version)) if self.version else 0

    @property
    def splits(self) -> dict[str, int]:
        """Split -> rows, as `longform ls` names them."""
        return dict(named_splits(self.version)) if self.version else {}

    @property
    def bytes(self) -> int:
        """Bytes of all its files."""
        return sum(facts["bytes"] for facts in self.version.manifest["files"].values()) if self.version else 0

    @property
    def offline(self) -> bool:
        """Whether it holds rows of the offline model."""
        return bool(self.version and self.version.manifest["offline"])


def catalogue(home: Path) -> dict[str, list[Listed]]:
    """dataset -> its versions, the newest first, then those that cannot be shown. Datasets without one have []."""
    names = dict.fromkeys([*DATASETS, *published.datasets(home)])
    return {name: listed(home, name) for name in names}


def listed(home: Path, dataset: str) -> list[Listed]:
    """The versions of a dataset, the newest first, then those that cannot be shown."""
    found = [_listed(version) for version in reversed(published.versions(home, dataset))]
    broken = [
        Listed(dataset, path.name, None, f"{path} has no readable manifest.json")
        for path in published.broken_versions(home, dataset)
    ]
    return [*(each for each in found if each.version), *(each for each in found if not each.version), *broken]


def _listed(version: Version) -> Listed:
    try:
        return Listed(version.dataset, version.name, checked(version))
    except StoreError as error:
        return Listed(version.dataset, version.name, None, str(error))


def checked(version: Version) -> Version:
    """The version, unchanged; StoreError if its manifest holds what no build writes."""
    try:
        Manifest.model_validate(version.manifest)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(each)[:80] for each in first["loc"])
        raise StoreError(
            f"The manifest of {version.dataset} {version.name} does not fit at {where} ({first['msg']}): put "
            f"manifest.json back from a copy, or `longform withdraw {version.dataset}@{version.name}` and build again."
        ) from None
    return version


def check_keys(version: Version) -> None:
    """Raise StoreError unless each config is keyed by a column with a plain name, which may stand in SQL. Of a version
    whose manifest does not name the key it is the name of a column of its files.
    """
    for config in version.tables():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", version.key(config)):
            raise StoreError(
                f"The rows of {version.dataset} {version.name} {config} are keyed by a column whose name no build of "
                "this project gives: read the files with DuckDB or pandas instead."
            )


def dataset_named(home: Path, dataset: str) -> str:
    """The name, unchanged. UsageError unless this release or the home has such a dataset."""
    known = dict.fromkeys([*DATASETS, *published.datasets(home)])
    if dataset not in known:
        raise UsageError(f'There is no dataset "{dataset[:80]}"; {hint(dataset[:80], known, "there is")}')
    return dataset


def version_named(home: Path, dataset: str, name: str) -> Version:
    """The checked version of this name, or the newest one for `latest`. UsageError if there is none, StoreError if its
    manifest is damaged or does not fit.
    """
    dataset_named(home, dataset)
    return checked(published.find(home, f"{dataset}@{name[:100]}"))


def published_on(version: Version) -> str:
    """The day on which a version was published, as its croissant.json says; "" if that cannot be read."""
    try:
        found = read_json(version.folder / "croissant.json")
    except StoreError:
        return ""
    return str(found.get("datePublished") or "") if isinstance(found, dict) else ""


def figures(version: Version) -> Iterator[str]:
    """The names of a version's plots, without folder and ending, in order."""
    names = (Path(name) for name in version.manifest["files"] if name.startswith("figures/") and name.endswith(".svg"))
    yield from sorted(path.stem for path in names)


def figure_title(version: Version, name: str) -> str:
    """What a plot shows: the title in its file, else its name in words."""
    try:
        with figure_file(version, name).open("rb") as file:
            head = file.read(TITLED).decode("utf-8", "replace")
    except (OSError, UsageError):
        head = ""
    found = re.search(r"<title>([^<]+)</title>", head)
    return unescape(found[1]) if found else re.sub(r"[-_]+", " ", name).capitalize()


def figure_file(version: Version, name: str) -> Path:
    """The file of a plot. UsageError if the version has none of this name, or if the file lies outside the version."""
    path = version.folder / "figures" / f"{name}.svg"
    if name not in set(figures(version)) or not path.resolve().is_relative_to(version.folder.resolve()):
        raise UsageError(f"{version.dataset} {version.name} has no plot of this name; its report shows all of them.")
    return path
