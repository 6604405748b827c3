"""Published dataset versions: finding, loading, checking and withdrawing them; and finding what none of them needs.

<home>/datasets/<dataset>/<version>/<split>/*.parquet            of the default config
                                   /<config>/<split>/*.parquet   of the other configs
                                   /README.md croissant.json attribution.parquet audit.parquet report.html tables.json
                                   /manifest.json    the lock of the build: every stage's fingerprint, every file's hash
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.rows import read_batches
from longform.artifacts.store import Artifact, Store
from longform.errors import StoreError, UsageError
from longform.files import read_json, remove, sha256_of
from longform.hints import hint
from longform.machines import temporary

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = {"number": int, "recipe": str, "stages": dict, "splits": dict, "offline": bool, "files": dict}
ROWS_AT_ONCE = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


@dataclass(frozen=True, slots=True)
class Version:
    """A published version of a dataset: its dataset, name, folder and manifest."""

    dataset: str
    name: str
    folder: Path
    manifest: dict[str, Any]

    @property
    def recipe(self) -> str:
        """The fingerprint of the version's recipe."""
        return str(self.manifest["recipe"])

    @property
    def stages(self) -> dict[str, str]:
        """stage -> fingerprint, in the order of the flow."""
        return dict(self.manifest["stages"])

    @property
    def configs(self) -> dict[str, dict[str, int]]:
        """config -> split -> number of rows, the default config first. A version published before configs existed has
        one config, `default`.
        """
        return dict(self.manifest.get("configs") or {"default": self.manifest["splits"]})

    @property
    def views(self) -> set[str]:
        """The configs whose rows are those of another config in another form."""
        return set(self.manifest.get("views", ()))

    def files(self, config: str, split: str) -> list[Path]:
        """The Parquet files of a split of a config, sorted; empty if there are none."""
        folder = self.folder if config == next(iter(self.configs)) else self.folder / config
        return sorted((folder / split).glob("*.parquet"))

    def tables(self) -> dict[str, list[Path]]:
        """config -> the Parquet files of all its splits, in order; configs without files are left out."""
        found = {
            name: [path for split in splits for path in self.files(name, split)]
            for name, splits in self.configs.items()
        }
        return {name: paths for name, paths in found.items() if paths}

    def key(self, config: str) -> str:
        """The column that identifies a row of a config; if the manifest is too old to name it, the first column of the
        config's first file.
        """
        named = self.manifest.get("keys", {}).get(config)
        return str(named or pq.read_schema(self.tables()[config][0]).names[0])


def datasets(home: Path) -> list[str]:
    """The names of the datasets that have a version in this home, sorted. A version with a damaged manifest counts,
    too.
    """
    return sorted(path.name for path in (home / "datasets").glob("[!.]*") if _folders(home, path.name))


def versions(home: Path, dataset: str) -> list[Version]:
    """Every version of a dataset with a readable manifest, in the order of publication (the manifest's `number`),
    oldest first.
    """
    found = [(path, _manifest(path)) for path in _folders(home, dataset)]
    readable = [Version(dataset, path.name, path, manifest) for path, manifest in found if manifest]
    return sorted(readable, key=lambda version: (version.manifest["number"], natural(version.name)))


def broken_versions(home: Path, dataset: str) -> list[Path]:
    """The folders of a dataset's versions whose manifest is missing, damaged, or lacks a field of MANIFEST or has it in
    another type, sorted by name.
    """
    return [path for path in _folders(home, dataset) if _manifest(path) is None]


def check_manifests(home: Path, dataset: str) -> None:
    """Raise StoreError if a version of the dataset has a missing or damaged manifest (`broken_versions`)."""
    for path in broken_versions(home, dataset):
        raise StoreError(
            f"{path} has no readable manifest.json: put it back, "
            f"or `longform withdraw {dataset}@{path.name}` and build again."
        )


def _folders(home: Path, dataset: str) -> list[Path]:
    """The folders of all versions of a dataset, sorted by name; hidden ones are left out. Empty if there are none."""
    return sorted(path for path in (home / "datasets" / dataset).glob("[!.]*") if path.is_dir())


def _manifest(folder: Path) -> dict[str, Any] | None:
    """A version's manifest; None if it is missing, unreadable, damaged, or lacks a field of MANIFEST or has it in
    another type.
    """
    try:
        manifest = read_json(folder / "manifest.json")
    except StoreError:
        return None
    is_whole = isinstance(manifest, dict) and all(
        isinstance(manifest.get(name), kind) for name, kind in MANIFEST.items()
    )
    return manifest if is_whole else None


def natural(name: str) -> list[Any]:
    """A sort key that orders numbers inside names by value: 2026.11.20.10 follows 2026.11.20.9."""
    return [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in re.split(r"(\d+)", name) if piece]


def find(home: Path, address: str) -> Version:
    """The version that an address `dataset@version` names; without a version, or with `latest`, the latest.

    UsageError if there is none. StoreError if the manifest of the named version is damaged; for the latest version, if
    that of any version is, as it may be the latest.
    """
    dataset, _, name = address.partition("@")
    published = versions(home, dataset)
    if name in ("", "latest") or name in [path.name for path in broken_versions(home, dataset)]:
        check_manifests(home, dataset)
    if not published:
        build = f"build one with `longform build {dataset}`, or give another --home; there is"
        raise UsageError(f"{dataset} has no version in {home}: {hint(dataset, datasets(home), build)}")
    if name in ("", "latest"):
        return published[-1]
    by_name = {version.name: version for version in published}
    if name not in by_name:
        raise UsageError(f"{dataset} has no version {name}; {hint(name, by_name, 'there are', most=5)}")
    return by_name[name]


def check_name(name: str) -> str:
    """The given version name, unchanged. UsageError unless it has at most 100 letters, digits and characters `._+-`,
    the first a letter or digit, so that it fits as a folder name and in `dataset@version`; also for `latest`.
    """
    if not NAME.fullmatch(name) or name == "latest":
        raise UsageError(
            f'"{name}" cannot name a version: take letters, digits, dots, dashes and underscores, not "latest".'
        )
    return name


def artifact(store: Store, version: Version, stage: str) -> Artifact:
    """The artifact of a stage that a version was built from. UsageError if the version has no such stage, StoreError
    if the artifact or one of its parts is gone.
    """
    if stage not in version.stages:
        near = hint(stage, version.stages, "it has")
        raise UsageError(f"{version.dataset} {version.name} has no stage {stage}; {near}")
    found = store.artifact(stage, version.stages[stage])
    if found is None:
        raise StoreError(
            f"The rows of {stage} of {version.dataset} {version.name} are no longer in {store.home}: build it again."
        )
    return found


def stage_rows(
    store: Store, version: Version, stage: str, columns: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a stage of a version as dicts, with all columns or only `columns`. A generator, which reads
    ROWS_AT_ONCE rows at a time, and raises errors only when it is read.

    UsageError if the version has no such stage, StoreError if its rows are gone or damaged.
    """
    for part in artifact(store, version, stage).parts:
        try:
            for batch in read_batches(store.rows_path(part), ROWS_AT_ONCE, columns):
                yield from batch.to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"{store.part(part)} is damaged ({error}): build again with --force {stage}.") from None


def load(
    dataset: str,
    version: str = "latest",
    split: str | None = None,
    stage: str | None = None,
    home: Path | str | None = None,
    config: str | None = None,
    as_pandas: bool = False,
) -> pa.Table | pd.DataFrame:
    """A split of a published dataset as an Arrow table; with `stage`, all rows of that stage instead, where `split`
    and the config are ignored.

        longform.load("NAME", split="test")
        longform.load("NAME/CONFIG", version="2026.11.20", as_pandas=True)

    The config is `config`, else that in `dataset`, else the dataset's default one. The split defaults to `train`, or
    to `full` if that is the only one. The home is `home`, else LONGFORM_HOME, else ./data. With `as_pandas` a
    DataFrame whose columns keep their Arrow types (`pandas.ArrowDtype`): a null is NA in every type, integers stay
    integers, lists stay lists.
    Raises UsageError for an unknown dataset, version, config, split or stage, where the message lists the known ones;
    StoreError if the version's manifest is damaged or the rows of the stage are gone.
    """
    from longform.settings import home as home_of

    root = home_of(Path(home) if home is not None else None)
    name, _, named_config = dataset.partition("/")
    found = find(root, f"{name}@{version}")
    rows = _of_stage(root, found, stage) if stage is not None else _split(found, config or named_config or None, split)
    if not as_pandas:
        return rows
    import pandas as pd

    return rows.to_pandas(types_mapper=pd.ArrowDtype)


def _of_stage(home: Path, version: Version, stage: str) -> pa.Table:
    """All rows of a stage that a version was built from, as an Arrow table. Without any part, as the stage had no
    input, a table without rows whose columns have the type null. Errors as in `artifact`.
    """
    store, made = Store(home), artifact(Store(home), version, stage)
    tables = [pq.read_table(store.rows_path(part)) for part in made.parts]
    if not tables:  # it had no input, so no part
        return pa.table({column[0]: pa.nulls(0) for column in made.recipe.schema if len(column) == 3})
    return pa.concat_tables(tables)


def _split(version: Version, config: str | None, split: str | None) -> pa.Table:
    """The rows of a split of a version as an Arrow table. `config` None: the default config. `split` None: `full` if
    that is the config's only split, else `train`. UsageError for an unknown config or split.
    """
    subject, configs = f"{version.dataset} {version.name}", version.configs
    name = config if config is not None else next(iter(configs))
    if name not in configs:
        raise UsageError(f"{subject} has no config {name}; {hint(name, configs, 'it has')}")
    splits = configs[name]
    wanted = split or ("full" if list(splits) == ["full"] else "train")
    if wanted not in splits:
        of = f" in its config {name}" if len(configs) > 1 else ""
        raise UsageError(f"{subject} has no split {wanted}{of}; {hint(wanted, splits, 'it has')}")
    return pa.concat_tables([pq.read_table(path) for path in version.files(name, wanted)])


def problems(store: Store, version: Version) -> Iterable[str]:
    """What is wrong with a published version, one sentence for each problem: files that are missing, changed or not in
    the manifest, wrong numbers of rows, and damaged or missing parts of the stages it was built from. Reads all files;
    empty if all is well.
    """
    for name, fields in version.manifest["files"].items():
        path = version.folder / name
        if not path.exists():
            yield f"{path} is missing"
        elif sha256_of(path) != fields["sha256"]:
            yield f"{path} was changed: its checksum is not that of the manifest"
        elif name.endswith(".parquet"):
            yield from _parquet_problems(path, fields["rows"])
    known = set(version.manifest["files"]) | {"manifest.json"}
    for path in sorted(version.folder.rglob("*")):
        if path.is_file() and str(path.relative_to(version.folder)) not in known:
            yield f"{path} is not in the manifest"
    for stage, fingerprint in version.stages.items():
        try:
            yield from _stage_problems(store, stage, fingerprint)
        except StoreError as error:
            yield str(error)


def _parquet_problems(path: Path, rows: int) -> Iterable[str]:
    """A sentence if a Parquet file cannot be read or has another number of rows than `rows`; else nothing."""
    try:
        found = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowInvalid) as error:
        yield f"{path} cannot be read ({error})"
    else:
        if found != rows:
            yield f"{path} holds {found} rows, the manifest says {rows}"


def _stage_problems(store: Store, stage: str, fingerprint: str) -> Iterable[str]:
    """What is wrong with the stored rows of a stage: a sentence for each part without part.json, for each damaged or
    missing file of a part, and one if whole parts or the artifact are gone. StoreError if a JSON file is damaged.
    """
    artifact = store.recorded(stage, fingerprint)
    there = [part for part in artifact.parts if store.part(part).exists()] if artifact else []
    for part in there:
        if read_json(store.part(part) / "part.json") is None:
            yield f"{store.part(part)} has no part.json"
        yield from (f"{path} is missing or was changed" for path in store.damaged(part))
    if artifact is None or len(there) < len(artifact.parts):
        yield f"the rows of stage {stage} ({fingerprint}) are gone"


def keys_used(store: Store, version: Version) -> set[str]:
    """Keys (hex digits) of the model responses that a version's stages read, also for rows that were rejected.

    Artifacts of release 0.1.0 do not list their units; for them, the keys in the `response` column of their rows.
    StoreError if an artifact or one of its parts is gone.
    """
    keys: set[str] = set()
    for stage in version.stages:
        made = artifact(store, version, stage)
        for unit in made.units:
            keys |= store.responses(stage, unit)
        for file in [] if made.units else [store.rows_path(part) for part in made.parts if part.rows]:
            if "response" in pq.read_schema(file).names:
                keys.update(filter(None, pq.read_table(file, columns=["response"])["response"].to_pylist()))
    return keys


def withdraw(folder: Path) -> None:
    """Delete the folder of a published version; it is first renamed, so that it disappears at once. The stages it was
    built from stay until `longform gc`.
    """
    hidden = folder.with_name(temporary())
    folder.rename(hidden)
    remove(hidden)


def garbage(store: Store) -> list[tuple[Path, int]]:
    """(path, bytes) of every file or folder that no published version needs: parts, artifacts, units and leftovers of
    dead processes. Deletes nothing. StoreError if a version's manifest is damaged, as what that version needs is then
    unknown.
    """
    fingerprints, parts = _needed(store)
    found = []
    for folder in sorted((store.home / "stages").glob("[!.]*")):
        found += [path for path in folder.glob("*.json") if (folder.name, path.stem) not in fingerprints]
        found += [path for path in folder.glob("parts/[!.]*") if (folder.name, path.name) not in parts]
        for path in folder.glob("units/*.json"):
            made = {(folder.name, fields["id"]) for fields in read_json(path) or []}
            if not made or not made <= parts:
                found += [path, *folder.glob(f"units/{path.stem}.responses")]
    found += store.leftovers()
    files = {path: [file for file in (path, *path.rglob("*")) if file.is_file()] for path in found}
    return [(path, sum(file.stat().st_size for file in files[path])) for path in found]


def _needed(store: Store) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """((stage, fingerprint) of the artifacts, (stage, part id) of the parts) that published versions need. StoreError
    if a version's manifest is damaged.
    """
    fingerprints: set[tuple[str, str]] = set()
    for dataset in datasets(store.home):
        check_manifests(store.home, dataset)
        for version in versions(store.home, dataset):
            fingerprints.update(version.stages.items())
    recorded = [store.recorded(*key) for key in fingerprints]  # also where some parts are lost
    return fingerprints, {(part.stage, part.id) for artifact in recorded if artifact for part in artifact.parts}
