"""Audits: what must hold of the rows of a version, or it is not published.

An `Audit` looks at single rows. The stage that makes the rows applies it (`audited`), so that a row that it finds is a
rejected row with the reason `audit: <name>`. A `VersionAudit` looks at all rows of a version together, e.g. for texts
on both sides of a split. A dataset declares both as `AUDITS` in its flow module:

    AUDITS = Audits(rows={"pairs": (Audit("equal_texts", 0.05, equal_texts),)},
                    version=(VersionAudit("text_on_both_sides", 0.0, texts_on_both_sides),))

A version is not published while the share of rows found is above an audit's ceiling (`Gate.is_above`), unless somebody
accepts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.parts import open_parquet
from longform.artifacts.rows import Rejected, Row, Rows, read_batches
from longform.artifacts.store import Artifact
from longform.artifacts.versions import Version
from longform.engine.health import Ceilings, Gate, count_replies, gates_of, percent, quote
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
    """What must hold of a single row. `finds` returns what is wrong with a row, else None; `ceiling` is the share of
    rows (0 to 1) that it may find.
    """

    name: str
    ceiling: float
    finds: Callable[[Row], str | None]


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of audit.parquet, see schemas/audits.py."""

    audit: str
    config: str | None
    split: str | None
    key: str | None
    what: str


@dataclass(frozen=True, slots=True)
class VersionAudit:
    """What must hold of the rows of a version together. `finds` yields a finding for each row that is concerned;
    `ceiling` is their share (0 to 1) that is let through, 1 if they are only reported. `configs`: those that it looks
    at, by default all.
    """

    name: str
    ceiling: float
    finds: Callable[[Files], Iterable[Finding]]
    configs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Audits:
    """The audits of a dataset. `rows`: config -> audits of its single rows, which its stage applies."""

    rows: Mapping[str, Sequence[Audit]] = field(default_factory=dict)
    version: Sequence[VersionAudit] = ()

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
            rejected = [_rejected(row, audits, key) for row in item.to_pylist()]
            yield item.filter(pa.array([found is None for found in rejected], pa.bool_()))
            yield from filter(None, rejected)
        else:
            yield _rejected(item, audits, key) or item


def _rejected(row: Row, audits: Iterable[Audit], key: str) -> Rejected | None:
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
    findings = [each for config, rows in tables.items() for each in _left_out(config, rows)]
    counts = Counter(each.audit for each in findings)
    gates = [
        Gate(audit.name, "version", "rows", *_of_rows(audit.name, counts, tables, audits), audit.ceiling)
        for audit in {audit.name: audit for of in audits.rows.values() for audit in of}.values()
    ]
    for audit in audits.version:
        found = list(audit.finds(files))
        findings += found
        gates.append(_gate(audit, found, files))
    missing, gate = missing_kinds(artifacts)
    accepted = set(accept)
    if missing and all(each.config in accepted for each in missing):
        accepted.add(MISSING_KINDS)
    gates = [replace(each, accepted=each.gate in accepted and each.is_above) for each in [*gates, gate]]
    return findings + missing, gates


def _left_out(config: str, rows: Rows) -> Iterator[Finding]:
    """A finding for each row that an audit of single rows left out of a table."""
    for part in rows.parts or ():
        if any(reason.startswith(AUDIT_REASON) for _, reason, _ in part.rejected):
            for batch in read_batches(rows.store.rejected_path(part), 1_000, ["key", "reason", "detail"]):
                for row in batch.to_pylist():
                    if row["reason"].startswith(AUDIT_REASON):
                        name = row["reason"].removeprefix(AUDIT_REASON)
                        yield Finding(name, config, None, row["key"], row["detail"] or "")


def _of_rows(name: str, counts: Mapping[str, int], tables: Mapping[str, Rows], audits: Audits) -> tuple[int, int]:
    """(rows found, rows checked) by the audit of single rows with this name."""
    kept = sum(rows.count for config, rows in tables.items() if name in {a.name for a in audits.rows.get(config, ())})
    return counts.get(name, 0), kept + counts.get(name, 0)


def _gate(audit: VersionAudit, found: Iterable[Finding], files: Files) -> Gate:
    """The gate of an audit of a version: the distinct rows that it found, among those that it looked at."""
    rows = {(each.config, each.split, each.key) for each in found}
    checked = sum(
        pq.read_metadata(path).num_rows
        for config, splits in files.items()
        if not audit.configs or config in audit.configs
        for paths in splits.values()
        for path in paths
    )
    return Gate(audit.name, "version", "rows", len(rows), max(checked, len(rows)), audit.ceiling)


def missing_kinds(artifacts: Sequence[Artifact]) -> tuple[list[Finding], Gate]:
    """(findings, gate) of stages that made no row at all, although their inputs had candidates and only the model's
    faults, not a rule of the method or the configuration, left these out.
    """
    findings, asked = [], 0
    for built in artifacts:
        replies, faults = count_replies(built.parts)
        asked += replies > 0
        if not built.rows and faults and any(built.rows_in.values()):
            what = f"no row was made of {replies:,} replies: {next(iter(built.reasons('defect')))}"
            findings.append(Finding(MISSING_KINDS, built.recipe.stage, None, None, what))
    what = "stages made no row, although their inputs had candidates"
    return findings, Gate(MISSING_KINDS, "version", what, len(findings), asked, 0.0)


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


def worse_than_published(version: Version, artifacts: Sequence[Artifact], audits: Audits) -> Iterator[str]:
    """A sentence for each gate that finds more in a published version than its manifest says. Gates that the manifest
    does not name, as an earlier release did not have them, are left out.
    """
    stated = {(gate.gate, gate.what): gate.found for gate in gates_in(version.manifest)}
    files = {config: {split: version.files(config, split) for split in of} for config, of in version.configs.items()}
    again = [gate for built in artifacts for gate in gates_of(built.recipe.stage, built.parts, Ceilings())]
    again += [missing_kinds(artifacts)[1], *(_gate(audit, audit.finds(files), files) for audit in audits.version)]
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
