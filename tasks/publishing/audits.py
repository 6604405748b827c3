"""Audits: what must hold of the rows of a version, or it is not published.

An `Audit` looks at single rows. The stage that makes the rows applies it (`audited`), so that a row that it finds is a
rejected row with the reason `audit: <name>`. A `VersionAudit` looks at all rows of a version together, e.g. for texts
on both sides of a split. A dataset declares both as `AUDITS` in its flow module:

    AUDITS = Audits(rows={"pairs": (Audit("equal_texts", 0.05, equal_texts),)},
                    version=(VersionAudit("text_on_both_sides", 0.0, texts_on_both_sides),))

A version is not published while the share of rows found is above an audit's ceiling (`Gate.is_above`), unless somebody
accepts it. Where rows are costly to make, an earlier stage applies the audits to what they are made from
(`Audits.applied`). `Kinds` says which kinds of rows may not be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.parts import open_parquet
from longform.artifacts.rows import Rejected, Row, Rows, read_batches, read_parquet
from longform.artifacts.store import Artifact, Part, Store
from longform.artifacts.versions import Version
from longform.engine.health import Ceilings, Gate, count_replies, fault_of, gates_of, percent, quote
from longform.errors import GateError
from schemas.audits import FINDINGS
from tasks.publishing.served import SERVED_MODEL

AUDIT_REASON = "audit: "
MISSING_KINDS = "missing_kinds"
GENERIC = (MISSING_KINDS, SERVED_MODEL)
EXAMPLES = 3

Files = Mapping[str, Mapping[str, Sequence[Path]]]  # config -> split -> its Parquet files


@dataclass(frozen=True, slots=True)
class Audit:
    """What must hold of a single row. `finds` returns what is wrong with a row, else None; `ceiling` is the share (0 to
    1) of the rows it looks at that it may find, 1 if they are only left out. `among`: SQL condition of these rows.
    """

    name: str
    ceiling: float
    finds: Callable[[Row], str | None]
    among: str = "true"


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of audit.parquet, see schemas/audits.py."""

    audit: str
    config: str | None
    split: str | None
    key: str | None
    what: str


@dataclass(frozen=True, slots=True)
class QueryAudit:
    """The findings that an SQL query over the files of configs gives as (config, key, what); none if a config has no
    file. `{name}` in it stands for the rows of the config of that name.
    """

    audit: str
    configs: tuple[str, ...]
    sql: str

    def __call__(self, files: Files) -> Iterator[Finding]:
        """See above."""
        paths = {name: [path for of in files.get(name, {}).values() for path in of] for name in self.configs}
        if all(paths.values()):
            query = self.sql.format(**{name: read_parquet(of) for name, of in paths.items()})
            with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
                for config, key, what in database.execute(query).fetchall():
                    yield Finding(self.audit, config, None, key, what)


@dataclass(frozen=True, slots=True)
class VersionAudit:
    """What must hold of the rows of a version together. `finds` yields a finding for each row that is concerned;
    `ceiling` is their share (0 to 1) that is let through, 1 if they are only reported. `configs`: those that it looks
    at, by default all; it is no audit of a version that has none of them. `among`: SQL condition of the rows that
    it looks at, and of which the share is.
    """

    name: str
    ceiling: float
    finds: Callable[[Files], Iterable[Finding]]
    configs: Sequence[str] = ()
    among: str = "true"


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of rows that may not be missing: the values of `column` in the rows that the stages `made_by` made; each
    has to be in the rows of the stage `kept_by`. `asked`: the argument of these stages that lists the kinds they are
    asked for; one of these is missing, too, if a stage made no row of it for the model's faults, whose rejected rows
    name it at the beginning of their detail. `among`: SQL condition of the rows that count, as of an Audit.
    """

    column: str
    made_by: Sequence[str]
    kept_by: str
    asked: str = ""
    among: str = "true"


@dataclass(frozen=True, slots=True)
class Audits:
    """The audits of a dataset. `rows`: config -> audits of its single rows, which its stage applies, or the stages that
    `applied` names for the config.
    """

    rows: Mapping[str, Sequence[Audit]] = field(default_factory=dict)
    version: Sequence[VersionAudit] = ()
    kinds: Sequence[Kinds] = ()
    applied: Mapping[str, str | Sequence[str]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of all audits, each once, with the gates that every dataset has: of missing kinds, and of served
        models.
        """
        of_rows = [audit.name for audits in self.rows.values() for audit in audits]
        return list(dict.fromkeys([*of_rows, *(audit.name for audit in self.version), *GENERIC]))


def audited(
    items: Iterable[Row | pa.RecordBatch | Rejected], audits: Sequence[Audit], key: str
) -> Iterator[Row | pa.RecordBatch | Rejected]:
    """The items, in which each row that an audit finds is a Rejected with the first audit that found it. `key`: the
    column that identifies a row of the stage's input, by which it is rejected.
    """
    for item in items:
        if isinstance(item, Rejected):
            yield item
        elif isinstance(item, pa.RecordBatch):
            rejected = [rejected_by(row, audits, key) for row in item.to_pylist()]
            yield item.filter(pa.array([found is None for found in rejected], pa.bool_()))
            yield from filter(None, rejected)
        else:
            yield rejected_by(item, audits, key) or item


def rejected_by(row: Row, audits: Iterable[Audit], key: str) -> Rejected | None:
    """The Rejected of a row that an audit finds; None if none does."""
    for audit in audits:
        if what := audit.finds(row):
            return Rejected(row[key], "defect", f"{AUDIT_REASON}{audit.name}", detail=what)
    return None


# ---------------------------------------------------------------- before a version is published


def audit_version(
    artifacts: Sequence[Artifact], tables: Mapping[str, Rows], files: Files, audits: Audits, accept: Iterable[str]
) -> tuple[list[Finding], list[Gate]]:
    """(what the audits found, their gates) for a version that is about to be published. `artifacts`: of its stages;
    `tables`: config -> its rows; `files`: as they are to be published. `accept`: names of audits and of stages.
    """
    store = next(iter(tables.values())).store
    applied = {config: _parts(config, rows, artifacts, audits) for config, rows in tables.items()}
    findings = [each for config, parts in applied.items() for each in _left_out(store, config, parts)]
    gates = _gates_of_rows(store, applied, Counter(each.audit for each in findings), audits)
    for audit in audits.version:
        if audit.configs and not any(config in files for config in audit.configs):
            continue  # of a config that this version has not
        found = list(audit.finds(files))
        findings += found
        gates.append(_gate(audit, found, files))
    missing, gates_of_kinds = missing_kinds(store, artifacts, audits.kinds)
    accepted = set(accept)
    if missing and all(each.config in accepted for each in missing):
        accepted.add(MISSING_KINDS)
    gates = [replace(each, accepted=each.gate in accepted and each.is_above) for each in [*gates, *gates_of_kinds]]
    return findings + missing, gates


def _parts(config: str, rows: Rows, artifacts: Iterable[Artifact], audits: Audits) -> Sequence[Part]:
    """The parts of the stage that applies the audits of a config: of its table, or of those that `applied` names."""
    applied = audits.applied.get(config)
    if applied is None:
        return rows.parts or ()
    stages = [applied] if isinstance(applied, str) else applied
    return [part for built in artifacts if built.recipe.stage in stages for part in built.parts]


def _left_out(store: Store, config: str, parts: Iterable[Part]) -> Iterator[Finding]:
    """A finding for each row that an audit of single rows left out of the parts."""
    for part in parts:
        if any(reason.startswith(AUDIT_REASON) for _, reason, _ in part.rejected):
            for row in _rejected_rows(store, part):
                if row["reason"].startswith(AUDIT_REASON):
                    name = row["reason"].removeprefix(AUDIT_REASON)
                    yield Finding(name, config, None, row["key"], row["detail"] or "")


def _rejected_rows(store: Store, part: Part) -> Iterator[Row]:
    """Key, reason and detail of the rejected rows of a part; none if it has none."""
    if part.rejected:
        for batch in read_batches(store.rejected_path(part), 1_000, ["key", "reason", "detail"]):
            yield from batch.to_pylist()


def _gates_of_rows(
    store: Store, applied: Mapping[str, Sequence[Part]], found: Mapping[str, int], audits: Audits
) -> list[Gate]:
    """The gates of the audits of single rows. `applied`: config -> parts of the stage that applied its audits; `found`:
    name of an audit -> number of rows that it left out.
    """
    kept: dict[str, int] = {}
    ceilings = {audit.name: audit.ceiling for of in audits.rows.values() for audit in of}
    for config, of in audits.rows.items():
        numbers = _counts(store, applied.get(config, ()), [audit.among for audit in of])
        for audit in of:
            kept[audit.name] = kept.get(audit.name, 0) + numbers[audit.among]
    return [
        Gate(name, "version", "rows", found.get(name, 0), number + found.get(name, 0), ceilings[name])
        for name, number in kept.items()
    ]


def _counts(store: Store, parts: Sequence[Part], conditions: Iterable[str]) -> dict[str, int]:
    """SQL condition -> number of rows in these parts for which it is true."""
    numbers = dict.fromkeys(conditions, sum(part.rows for part in parts))
    asked = [condition for condition in numbers if condition != "true" and numbers[condition]]
    if asked:
        counts = ", ".join(f"count_if({condition})" for condition in asked)
        paths = [store.rows_path(part) for part in parts if part.rows]
        with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
            found = database.execute(f"SELECT {counts} FROM {read_parquet(paths)}").fetchone()
        numbers.update(zip(asked, found or (), strict=True))
    return numbers


def _gate(audit: VersionAudit, found: Iterable[Finding], files: Files) -> Gate:
    """The gate of an audit of a version: the distinct rows that it found, among those that it looked at."""
    rows = {(each.config, each.split, each.key) for each in found}
    looked_at = [
        path
        for config, splits in files.items()
        if not audit.configs or config in audit.configs
        for paths in splits.values()
        for path in paths
    ]
    checked = _rows_of(looked_at, audit.among)
    return Gate(audit.name, "version", "rows", len(rows), max(checked, len(rows)), audit.ceiling)


def _rows_of(paths: Sequence[Path], among: str) -> int:
    """The number of rows in these files for which an SQL condition is true."""
    if among == "true" or not paths:
        return sum(pq.read_metadata(path).num_rows for path in paths)
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        found = database.execute(f"SELECT count_if({among}) FROM {read_parquet(paths)}").fetchone()
    return int(found[0]) if found else 0


def missing_kinds(
    store: Store, artifacts: Sequence[Artifact], kinds: Sequence[Kinds] = ()
) -> tuple[list[Finding], list[Gate]]:
    """(findings, gates) of what is missing although there were candidates: stages that made no row at all, and `kinds`
    of rows. What a rule of the method or the configuration left out is not missing, only what the model's faults did,
    or the audits.
    """
    findings, asked = [], 0
    for built in artifacts:
        replies, faults = count_replies(built.parts)
        asked += replies > 0
        if not built.rows and faults and any(built.rows_in.values()):
            what = f"no row was made of {replies:,} replies: {next(iter(built.reasons('defect')))}"
            findings.append(Finding(MISSING_KINDS, built.recipe.stage, None, None, what))
    what = "stages made no row, although their inputs had candidates"
    gates = [Gate(MISSING_KINDS, "version", what, len(findings), asked, 0.0)]
    if kinds:
        candidates, gone = 0, list[Finding]()
        for each in kinds:
            number, missing = _missing(store, artifacts, each)
            candidates += number
            gone += missing
        what = "kinds of rows are gone, although there were candidates"
        gates.append(Gate(MISSING_KINDS, "version", what, len(gone), candidates, 0.0))
        findings += gone
    return findings, gates


def _missing(store: Store, artifacts: Iterable[Artifact], kinds: Kinds) -> tuple[int, list[Finding]]:
    """(number of kinds that had candidates, a finding for each of them that is missing)."""
    by_stage = {built.recipe.stage: built for built in artifacts}
    if kinds.kept_by not in by_stage:
        return 0, []
    kept = _values(store, by_stage[kinds.kept_by].parts, kinds)
    why: dict[str, tuple[str, str]] = {}
    for name in kinds.made_by:
        if name in by_stage:
            parts = by_stage[name].parts
            for value, number in _values(store, parts, kinds).items():
                why.setdefault(value, (kinds.kept_by, f"none of {number:,} rows of {name} was kept"))
            for value in _without_a_row(store, by_stage[name], kinds.asked):
                why.setdefault(value, (name, "no row was made, for the model's faults"))
    return len(why), [
        Finding(MISSING_KINDS, stage, None, value, what) for value, (stage, what) in why.items() if value not in kept
    ]


def _values(store: Store, parts: Iterable[Part], kinds: Kinds) -> dict[str, int]:
    """kind -> number of rows of this kind in these parts."""
    paths = [store.rows_path(part) for part in parts if part.rows]
    if not paths:
        return {}
    query = f"SELECT {kinds.column}, count(*) FROM {read_parquet(paths)} WHERE {kinds.among} GROUP BY 1 ORDER BY 1"
    with duckdb.connect(config={"memory_limit": "512MB", "threads": 1}) as database:
        return dict(database.execute(query).fetchall())


def _without_a_row(store: Store, built: Artifact, asked: str) -> set[str]:
    """The kinds that a stage was asked for by its argument `asked` and that rows were rejected of by the model's fault.
    The details of these begin with the kind.
    """
    faulty = [part for part in built.parts if any(fault_of(reason) for _, reason, _ in part.rejected)]
    details = [row["detail"] or "" for part in faulty for row in _rejected_rows(store, part) if fault_of(row["reason"])]
    return {
        kind for kind in built.recipe.arguments.get(asked, ()) if any(d.split(":")[0] == kind for d in set(details))
    }


def refuse(dataset: str, findings: Iterable[Finding], gates: Iterable[Gate]) -> None:
    """Raise GateError if the share of an audit is above its ceiling and nobody accepted it."""
    refused = [gate for gate in gates if gate.is_above and not gate.accepted]
    if not refused:
        return
    examples = [each for each in findings if each.audit == refused[0].gate][:EXAMPLES]
    such = ", ".join(filter(None, (f"{each.key or each.config} {quote(each.what)}".strip() for each in examples)))
    accept = " ".join(dict.fromkeys(f"--accept {gate.gate}" for gate in refused))
    found = "; ".join(f"{gate.sentence}, ceiling {percent(gate.ceiling)}" for gate in refused)
    raise GateError(
        f"{dataset} was not published: {found}{', e.g. ' if such else ''}{such}: what was built is kept; look at these "
        f"rows and at what made them, or run the same command with {accept}, which publishes it as it is, and the card "
        "will say so."
    )


def write_findings(path: Path, findings: Iterable[Finding]) -> None:
    """Write findings as audit.parquet, sorted, so that equal findings give equal bytes."""
    rows = sorted((asdict(each) for each in findings), key=lambda row: [str(value) for value in row.values()])
    with open_parquet(path, FINDINGS) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=FINDINGS))


# ---------------------------------------------------------------- what readers see


def as_dict(gate: Gate) -> dict[str, Any]:
    """A gate as the manifest holds it: its fields and its share."""
    return {**asdict(gate), "share": round(gate.share, 6)}


def gates_in(manifest: Mapping[str, Any]) -> list[Gate]:
    """The gates in a manifest; [] for a version of an earlier release, which had none."""
    return [
        Gate(**{name: value for name, value in gate.items() if name != "share"}) for gate in manifest.get("gates", [])
    ]


def gate_sentences(gates: Iterable[Gate]) -> list[str]:
    """What gates found, one sentence each; the last one names those that found nothing. They are the same in card,
    console, run page and `longform show`.
    """
    gates = list(gates)
    found = [gate for gate in gates if gate.found]
    clean = dict.fromkeys(gate.gate for gate in gates if gate.gate not in {each.gate for each in found})
    return [*(gate.sentence for gate in found), *([f"nothing found: {', '.join(clean)}"] if clean else [])]


# ---------------------------------------------------------------- a published version


def worse_than_published(
    store: Store, version: Version, artifacts: Sequence[Artifact], audits: Audits
) -> Iterator[str]:
    """A sentence for each gate that finds more in a published version than its manifest says. Gates that the manifest
    does not name, as an earlier release did not have them, are left out.
    """
    stated = {(gate.gate, gate.what): gate.found for gate in gates_in(version.manifest)}
    files = {config: {split: version.files(config, split) for split in of} for config, of in version.configs.items()}
    again = [gate for built in artifacts for gate in gates_of(built.recipe.stage, built.parts, Ceilings())]
    again += [
        *missing_kinds(store, artifacts, audits.kinds)[1],
        *(_gate(audit, audit.finds(files), files) for audit in audits.version),
    ]
    for gate in again:
        if gate.found > stated.get((gate.gate, gate.what), gate.found):
            yield f"{gate.sentence}; the manifest says {stated[gate.gate, gate.what]:,}"
    for finding in _in_published_rows(version, files, audits):
        if (finding.audit, "rows") in stated:
            yield f"{finding.audit}: {finding.key} of {finding.config} {finding.split}: {quote(finding.what)}"


def _in_published_rows(version: Version, files: Files, audits: Audits) -> Iterator[Finding]:
    """What the audits of single rows find in published rows, which is nothing if the stages applied them."""
    for config, of in audits.rows.items():
        for split, paths in files.get(config, {}).items():
            for path in paths:
                for batch in read_batches(path, 1_000):
                    for row in batch.to_pylist():
                        for audit in of:
                            if what := audit.finds(row):
                                yield Finding(audit.name, config, split, str(row[version.key(config)]), what)
