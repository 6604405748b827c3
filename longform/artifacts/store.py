"""The artifact store: immutable parts, artifacts that list them, and the lock of a build.

    <home>/format.json                                   version of this layout
    <home>/stages/<stage>/parts/<part>/rows.parquet      immutable, named by content, written beside its place
                                      /rejected.parquet  only if rows were rejected
                                      /part.json         counts and checksums
    <home>/stages/<stage>/units/<unit>.json              the parts that one unit of work made, written after them
    <home>/stages/<stage>/<fingerprint>.json             an artifact: its recipe and its parts, written last
    <home>/locks/<dataset>/                              the lease of the one build of a dataset, see longform/leases.py

Files and folders that are not finished have a temporary name, so a killed build leaves only such as begin with `.tmp-`.
The home may be on a file system that several machines share.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from longform.artifacts.recipe import Recipe, fingerprint
from longform.errors import BusyError, StoreError
from longform.files import read_json, remove, sha256_of, sync, unwritable, write_bytes, write_json
from longform.leases import SECONDS, Lease, clock_of, holders
from longform.machines import is_alive, temporary, temporary_prefix, this_machine, writer_of

FORMAT = 1
LEFT_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part: one Parquet file with some of a stage's rows, with its counts and checksums. `id` names its folder; it
    is empty for a part that is only planned.

    `key` says which rows: `<group>/<bits>-<index>`, one of 2**bits ranges of the key's hash; `<group>/part<number>`,
    where rows are cut by their number; or `<group>/<start of the source's SHA-256>-<index>`, a shard. Of several parts
    cut by the number of rows the later ones end with `.00001` and so on. `/<value>` follows if the stage splits by a
    column. `bytes` and `sha256` are those of rows.parquet; `rejected_sha256` is that of rejected.parquet, None if no
    row was rejected. `rejected`: (kind, reason, number of rows). `counts`: (counter, sum); counters whose name begins
    with a dot are not shown.
    """

    stage: str
    key: str
    id: str
    rows: int
    bytes: int
    sha256: str
    rejected: tuple[tuple[str, str, int], ...] = ()
    rejected_sha256: str | None = None
    counts: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Part:
        """The part that a JSON document (part.json) describes."""
        return cls(**{**fields, **{name: tuple(map(tuple, fields[name])) for name in ("rejected", "counts")}})


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a stage made under one recipe: the list of its parts.

    `input_hash`: one hash of the contents of all inputs. `rows_in`: input -> its number of rows. `units`: ids of the
    units of work. `records_at_most`: of source stages, group -> upper bound of the rows made of its sources, which
    later plans use.
    """

    fingerprint: str
    recipe: Recipe
    input_hash: str
    rows_in: dict[str, int]
    parts: list[Part] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    records_at_most: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows in all parts."""
        return sum(part.rows for part in self.parts)

    def rejected(self) -> dict[tuple[str, str], int]:
        """(kind, reason) -> number of rejected rows, largest number first."""
        sums: Counter[tuple[str, str]] = Counter()
        for part in self.parts:
            sums.update({(kind, reason): number for kind, reason, number in part.rejected})
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def reasons(self, kind: str) -> dict[str, int]:
        """reason -> number of rejected rows of this kind (`filtered` or `defect`), largest number first."""
        return {reason: number for (of_kind, reason), number in self.rejected().items() if of_kind == kind}

    def counts(self) -> dict[str, int]:
        """counter -> its sum over all parts, of those that are shown."""
        sums: Counter[str] = Counter()
        for part in self.parts:
            sums.update({name: number for name, number in part.counts if not name.startswith(".")})
        return dict(sums)


class Store:
    """Reads and writes the files of a home, the folder for everything that builds make. StoreError if the home has
    another format than FORMAT.

    `machine` and `lease_seconds` are parameters for tests, which simulate a second machine.
    """

    def __init__(self, home: Path, *, machine: str | None = None, lease_seconds: float = SECONDS) -> None:
        self.home = home
        self.machine, self._lease_seconds = machine or this_machine(), lease_seconds
        self._held: dict[str, Lease] = {}
        self._check_format()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the locks: a copy of the store in another process does not hold them."""
        return {**self.__dict__, "_held": {}}

    # paths

    def stage(self, name: str) -> Path:
        """The folder of a stage, which need not exist."""
        return self.home / "stages" / name

    def part(self, part: Part) -> Path:
        """The folder of a part, which need not exist."""
        return self.stage(part.stage) / "parts" / part.id

    def rows_path(self, part: Part) -> Path:
        """The path of a part's rows.parquet."""
        return self.part(part) / "rows.parquet"

    def rejected_path(self, part: Part) -> Path:
        """The path of a part's rejected.parquet, a file that exists only if rows were rejected."""
        return self.part(part) / "rejected.parquet"

    def has(self, part: Part) -> bool:
        """Whether a part's part.json exists and its rows.parquet has the recorded size. Reads no content; `damaged`
        does.
        """
        rows = self.rows_path(part)
        return (self.part(part) / "part.json").exists() and rows.exists() and rows.stat().st_size == part.bytes

    def damaged(self, part: Part) -> list[Path]:
        """The paths of those files of a part (rows.parquet, rejected.parquet) that are missing or do not match their
        checksums; empty if it is intact. Reads the files whole.
        """
        files = ((self.rows_path(part), part.sha256), (self.rejected_path(part), part.rejected_sha256))
        return [path for path, digest in files if digest and not (path.exists() and sha256_of(path) == digest)]

    # reading

    def artifact(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact with this fingerprint; None if none was written or one of its parts is not in place (`has`).
        StoreError if its record is damaged.
        """
        artifact = self.recorded(stage, fingerprint)
        return artifact if artifact and all(map(self.has, artifact.parts)) else None

    def recorded(self, stage: str, fingerprint: str) -> Artifact | None:
        """The artifact with this fingerprint, whether or not its parts are still in place; None if none was written.
        StoreError if its record is damaged.
        """
        path = self.stage(stage) / f"{fingerprint}.json"
        document = read_json(path)
        try:
            return _artifact(fingerprint, document) if document else None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{path} is damaged ({error!r}): build again with --force {stage}.") from None

    def artifacts(self, stage: str) -> list[Artifact]:
        """Every artifact of a stage, by the time its record was written, newest first. StoreError if a record is
        damaged.
        """
        files = sorted(self.stage(stage).glob("*.json"), key=lambda path: (-path.stat().st_mtime_ns, path.name))
        documents = ((path.stem, read_json(path)) for path in files)
        return [_artifact(name, document) for name, document in documents if document]

    def unit(self, stage: str, unit: str) -> list[Part] | None:
        """The parts that a finished unit of work made. None if the unit is not finished, made no part, or one of its
        parts is not in place (`has`). StoreError if its record is damaged. `unit`: the unit's id.
        """
        parts = [Part.of(fields) for fields in read_json(self.stage(stage) / "units" / f"{unit}.json") or ()]
        return parts if parts and all(map(self.has, parts)) else None

    # writing

    def new_folder(self, stage: str) -> Path:
        """A fresh temporary folder beside the parts, which `commit` turns into a part. StoreError if it cannot be
        created.
        """
        folder = self.stage(stage) / "parts" / temporary(self.machine)
        self.make(folder)
        return folder

    def commit(self, folder: Path, part: Part) -> None:
        """Write part.json into a folder that has the part's other files, and rename the folder into the part's place.
        An equal intact part that exists already stays, and the folder is deleted; a differing or damaged one is
        replaced. StoreError if part.json cannot be written, or if that of the existing part is no JSON.
        """
        write_json(folder / "part.json", asdict(part))
        place = self.part(part)
        if _same(read_json(place / "part.json"), part) and not self.damaged(part):
            shutil.rmtree(folder)
            return
        if place.exists():
            place.rename(folder.with_name(f"{folder.name}-old"))
        try:
            folder.rename(place)
        except OSError:
            if not _same(read_json(place / "part.json"), part):
                raise
            shutil.rmtree(folder)  # another build made the same part in this moment
        sync(place.parent)
        shutil.rmtree(folder.with_name(f"{folder.name}-old"), ignore_errors=True)

    def commit_unit(self, stage: str, unit: str, parts: list[Part], responses: bytes | bytearray = b"") -> None:
        """Record that a unit of work is finished. Writes the keys of the model responses it read, if any, sorted and
        each once (`responses`: 32 bytes each, one after another), then the parts it made. `unit`: the unit's id.
        """
        folder = self.stage(stage) / "units"
        if responses:
            keys = {bytes(responses[at : at + 32]) for at in range(0, len(responses), 32)}
            write_bytes(folder / f"{unit}.responses", b"".join(sorted(keys)))
        write_json(folder / f"{unit}.json", [asdict(part) for part in parts])

    def responses(self, stage: str, unit: str) -> set[str]:
        """The keys of the model responses that a finished unit (`unit`: its id) read, as hex digits; empty if it read
        none.
        """
        path = self.stage(stage) / "units" / f"{unit}.responses"
        content = path.read_bytes() if path.exists() else b""
        return {content[at : at + 32].hex() for at in range(0, len(content), 32)}

    def commit_artifact(self, artifact: Artifact) -> None:
        """Write an artifact's record, which makes its rows available. StoreError if the build has lost its lock
        (checked if the lock was not renewed in the last quarter of `lease_seconds`), or if the record cannot be
        written.
        """
        self.check_locks(within_seconds=self._lease_seconds / 4)
        document = {
            "recipe": artifact.recipe.as_dict(),
            "contents": artifact.input_hash,
            "rows_in": artifact.rows_in,
            "parts": [asdict(part) for part in artifact.parts],
            "units": artifact.units,
            **({"records_at_most": artifact.records_at_most} if artifact.records_at_most else {}),
        }
        write_json(self.stage(artifact.recipe.stage) / f"{artifact.fingerprint}.json", document)

    def leftovers(self) -> list[Path]:
        """Temporary files and folders in the home that dead processes left: all of this machine, of other machines
        only those older than a day.

        Files of another machine that holds a lock are left out: it may still be writing.
        """
        places = ("", "stages/*/", "stages/*/parts/", "stages/*/units/", "datasets/*/", "locks/*/", "parsed/*/")
        found = [(path, *writer_of(path.name)) for place in places for path in self.home.glob(f"{place}.tmp-*")]
        left = [path for path, machine, process in found if machine == self.machine and not is_alive(process)]
        theirs = [(path, machine) for path, machine, _ in found if machine != self.machine]
        if theirs:
            at_work = {lease.owner.machine for lease in holders(self.home / "locks")}
            before = clock_of(self.home) - LEFT_SECONDS
            left += [path for path, machine in theirs if machine not in at_work and _newest(path) < before]
        return left

    def sweep(self) -> None:
        """Delete the temporary files and folders that dead processes left (`leftovers`)."""
        for path in self.leftovers():
            remove(path)

    def make(self, folder: Path) -> None:
        """Create a folder and its parents; StoreError if it cannot be created."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from None

    @contextmanager
    def lock(self, dataset: str, *, doing: str = "built", patience_seconds: float = 0.0) -> Iterator[None]:
        """A context that holds the lock of a dataset, so that it has one build at a time. BusyError, which names the
        holder, if the lock is not free after `patience_seconds`; StoreError if it cannot be written. `doing`: a word
        for the message of BusyError (`is being built`).

        The lock of a dead owner is free: at once on this machine, within a minute on another. Versions of the dataset
        that this owner had not published yet are deleted. Whoever holds the lock for long calls `check_locks` before
        each step that needs it.
        """
        lease = Lease(self.home / "locks" / dataset, machine=self.machine, seconds=self._lease_seconds)
        try:
            holder = lease.take(patience_seconds)
        except OSError as error:
            raise unwritable(lease.folder, error) from None
        if holder is not None:
            raise BusyError(
                f"{dataset} is being {doing} in {self.home} by {holder}: wait for it, or stop it and run this again."
            )
        self._held[dataset] = lease
        try:
            if lease.before:  # it may only be asleep, and notice too late that it lost the lock
                begun = temporary_prefix(lease.before.machine, lease.before.process)
                for path in (self.home / "datasets" / dataset).glob(f"{begun}*"):
                    remove(path)
            yield
        finally:
            del self._held[dataset]
            lease.give_back()

    def check_locks(self, within_seconds: float = 0.0) -> None:
        """Raise StoreError if a lock that this store holds was taken over by another process while this one slept.

        Locks that were renewed in the last `within_seconds` are not checked.
        """
        for dataset, lease in list(self._held.items()):
            if taker := lease.taken_by(within_seconds):
                raise StoreError(
                    f"The lock of {dataset} in {self.home} was taken over by {taker}, as this process did not renew it "
                    "for a minute (it slept, or was stopped): nothing was published, wait for that one and run again."
                )

    def _check_format(self) -> None:
        """Raise StoreError if the home's format.json is damaged or names another format than FORMAT; a home without
        format.json passes.
        """
        path = self.home / "format.json"
        document = read_json(path)
        if document is not None and document.get("format") != FORMAT:
            raise StoreError(
                f"The home {self.home} has format {document.get('format')}, this release writes format {FORMAT}: "
                "use the release that made it, or another --home."
            )

    def prepare(self) -> None:
        """Create the home and its format.json; StoreError if the home cannot be written."""
        self.make(self.home / "stages")
        try:
            if not (self.home / "format.json").exists():
                write_json(self.home / "format.json", {"format": FORMAT})
            probe = self.home / temporary(self.machine)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise unwritable(self.home, error) from None


def _newest(path: Path) -> float:
    """The latest modification time of a file, or of a folder and everything in it, in seconds since 1970; infinity if
    a file vanishes meanwhile.
    """
    try:
        return max(found.lstat().st_mtime for found in (path, *path.rglob("*")))
    except FileNotFoundError:
        return float("inf")


class Digests:
    """SHA-256 of files, remembered by path, size, modification time and inode, so that each file is read only once.
    `home`: the folder with digests.json, from which known hashes are read and to which `keep` writes.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / "digests.json"
        self.known = self._remembered()
        self.new = False

    def _remembered(self) -> dict[str, str]:
        """The hashes in `<home>/digests.json`, by a hash of the file's path, size, time and inode; empty if they
        cannot be read, as all can be computed again.
        """
        try:
            found = read_json(self.path)
        except StoreError:
            return {}
        return found if isinstance(found, dict) else {}

    def __call__(self, path: Path) -> str:
        """The SHA-256 of a file, 64 hex digits; the file is read only if its path, size, modification time or inode is
        new.
        """
        stat = path.stat()
        key = fingerprint([str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ino])
        if key not in self.known:
            self.known[key], self.new = sha256_of(path), True
        return self.known[key]

    def keep(self) -> None:
        """Add the hashes that were computed to `<home>/digests.json`, for the next command; does nothing if there are
        none.
        """
        if self.new:
            write_json(self.path, {**self._remembered(), **self.known})
            self.new = False


def _artifact(name: str, document: dict[str, Any]) -> Artifact:
    """The artifact that a JSON document (<fingerprint>.json) describes; `name` is its fingerprint."""
    return Artifact(
        name,
        Recipe(**document["recipe"]),
        document["contents"],
        document["rows_in"],
        [Part.of(fields) for fields in document["parts"]],
        document.get("units", []),
        document.get("records_at_most", {}),
    )


def _same(document: dict[str, Any] | None, part: Part) -> bool:
    """Whether a part.json, as a JSON document, describes exactly this part."""
    return document is not None and Part.of(document) == part
