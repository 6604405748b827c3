"""What `longform verify` checks: files and checksums (longform/artifacts/versions.py), that no stage lost a row, and
that gates find no more than when the version was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from flows.registry import audits_of, stages_of
from longform.artifacts.conservation import check_conservation
from longform.artifacts.rows import Rows
from longform.artifacts.store import Artifact, Store
from longform.artifacts.versions import Version, artifact, problems
from longform.engine.stage import Stage
from longform.errors import ConservationError, UsageError
from tasks.publishing.audits import worse_than_published


def check(store: Store, version: Version) -> Iterable[str]:
    """What is wrong with a version, one sentence each: files, checksums, numbers of rows, parts of stages; only if
    none of these is wrong, also rows that a stage lost, for which UsageError is raised if this release lacks a stage
    of the version, and gates that find more than the manifest says. Empty if all is well.
    """
    found = list(problems(store, version))
    yield from found
    if not found:
        yield from _conservation_problems(store, version)
        artifacts = [artifact(store, version, name) for name in version.stages]
        yield from worse_than_published(store, version, artifacts, audits_of(version.dataset))


def _conservation_problems(store: Store, version: Version) -> Iterator[str]:
    """A message for each stage of a version with an input row that is neither the parent of an output row nor
    rejected, or with a parent that is no input row. UsageError if the version has stages that this release does not
    have.
    """
    stages = stages_of(version.dataset)
    if unknown := [name for name in version.stages if name not in stages]:
        raise UsageError(
            f"{version.dataset} {version.name} has stages that this release does not have ({', '.join(unknown)}): "
            "verify it with the release that built it."
        )
    artifacts = {name: artifact(store, version, name) for name in version.stages}
    by_fingerprint = {a.fingerprint: a for a in artifacts.values()}
    for name, built in artifacts.items():
        stage = stages[name]
        inputs = {
            parameter: _rows(store, stages, by_fingerprint[fingerprint])
            for parameter, fingerprint in built.recipe.inputs.items()
            if isinstance(fingerprint, str)
        }
        try:
            kept, side_inputs = stage.conserved(inputs), stage.side_inputs(inputs)
            check_conservation(store, name, stage.schema, built.parts, kept, side_inputs, stage.only)
        except ConservationError as error:
            yield str(error)


def _rows(store: Store, stages: dict[str, Stage], built: Artifact) -> Rows:
    """The rows of the parts that a stage made, with the schema of the stage."""
    name = built.recipe.stage
    return Rows(store, stages[name].schema, name, built.fingerprint, built.parts)
