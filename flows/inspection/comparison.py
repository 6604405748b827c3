"""What differs between two versions: recipes of stages, and rows of splits, compared by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb

from longform.artifacts.rows import read_parquet
from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact


def compare(store: Store, before: Version, after: Version) -> dict[str, Any]:
    """The differences of two versions as a JSON value: their addresses, whether they have the same recipe, `stages`
    whose recipe changed and why, and for each of the `splits` the numbers of rows before, after, added, removed and
    changed, compared by id.
    """
    return {
        "before": f"{before.dataset}@{before.name}",
        "after": f"{after.dataset}@{after.name}",
        "same_recipe": before.recipe == after.recipe,
        "stages": list(_stage_changes(store, before, after)),
        "splits": [_split_change(before, after, *split) for split in _splits(before, after)],
    }


def _stage_changes(store: Store, before: Version, after: Version) -> Iterator[dict[str, str]]:
    """{stage, why} for each stage that is in one version only, or whose own recipe or source files differ; stages that
    differ only because a stage before them does are left out. StoreError if the record of a stage that was built is
    gone.
    """
    for name in dict.fromkeys([*before.stages, *after.stages]):
        old, new = before.stages.get(name), after.stages.get(name)
        if old is None or new is None:
            yield {"stage": name, "why": "only in " + (after.name if old is None else before.name)}
        elif old != new:
            then, now = (artifact(store, version, name).recipe for version in (before, after))
            is_source = not all(isinstance(fingerprint, str) for fingerprint in now.inputs.values())
            changes = [c for c in now.differences(then) if is_source or not c.startswith("its input")]
            if changes:
                yield {"stage": name, "why": "; ".join(changes)}


def _splits(before: Version, after: Version) -> list[tuple[str | None, str]]:
    """(config, split) of all splits of both versions but those of views, each once. The config is None for the default
    one, the first config of a version, as old versions do not name it.
    """
    return list(
        dict.fromkeys(
            (config if number else None, split)
            for version in (before, after)
            for number, (config, splits) in enumerate(version.configs.items())
            if config not in version.views
            for split in splits
        )
    )


def _split_change(before: Version, after: Version, config: str | None, split: str) -> dict[str, Any]:
    """The name of a split (`<config>/<split>` unless `config` is None, the default one), its numbers of rows `before`
    and `after`, and of rows `added`, `removed` and `changed`, compared by id. A version without the split has 0 rows.
    """
    counts = [version.configs.get(_config_name(version, config), {}).get(split, 0) for version in (before, after)]
    hashes = [_row_hashes(version, _config_name(version, config), split) for version in (before, after)]
    query = f"""
        SELECT count(*) FILTER (WHERE a.id IS NULL), count(*) FILTER (WHERE b.id IS NULL),
               count(*) FILTER (WHERE a.hash <> b.hash)
        FROM ({hashes[0]}) AS a FULL OUTER JOIN ({hashes[1]}) AS b ON a.id = b.id
    """
    with duckdb.connect() as database:
        added, removed, changed = database.execute(query).fetchone() or (0, 0, 0)
    numbers = {"before": counts[0], "after": counts[1], "added": added, "removed": removed, "changed": changed}
    return {"split": split if config is None else f"{config}/{split}", **numbers}


def _config_name(version: Version, config: str | None) -> str:
    """The config's name in a version; None stands for its default config."""
    return next(iter(version.configs)) if config is None else config


def _row_hashes(version: Version, config: str, split: str) -> str:
    """A DuckDB query for the id and a hash of each row of a split; it has no rows if the version lacks the split."""
    paths = version.files(config, split) if config in version.configs else []
    if not paths:
        return "SELECT NULL::VARCHAR AS id, NULL::UBIGINT AS hash LIMIT 0"
    return f"SELECT {version.key(config)} AS id, hash(rows) AS hash FROM {read_parquet(paths)} AS rows"
