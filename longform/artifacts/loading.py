"""Published rows in memory, as an Arrow table or in pandas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from longform.artifacts.store import Store
from longform.artifacts.versions import Version, artifact, find
from longform.errors import UsageError
from longform.hints import hint

if TYPE_CHECKING:
    import pandas as pd


def load(
    dataset: str,
    version: str = "latest",
    split: str | None = None,
    stage: str | None = None,
    home: Path | str | None = None,
    config: str | None = None,
    as_pandas: bool = False,
) -> pa.Table | pd.DataFrame:
    """A split of a published dataset as an Arrow table, or with `stage` all rows of that stage.

        longform.load("NAME", split="test")
        longform.load("NAME/CONFIG", version="2026.11.20", as_pandas=True)

    Without a config it is the default one, without a split `train`, or `full` of a config that has no other. The home
    is `home`, else LONGFORM_HOME, else ./data. With `as_pandas` a DataFrame whose columns keep their Arrow types
    (`pandas.ArrowDtype`): a null is NA in every type, integers stay integers, lists stay lists.
    Raises UsageError for a dataset, version, config, split or stage that is not there, naming what is.
    """
    from longform.settings import home as home_of

    root = home_of(Path(home) if home is not None else None)
    name, _, named_config = dataset.partition("/")
    found = find(root, f"{name}@{version}")
    rows = _of_stage(root, found, stage) if stage is not None else _split(found, config or named_config or None, split)
    return _in_pandas(rows) if as_pandas else rows


def _in_pandas(table: pa.Table) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def _of_stage(home: Path, version: Version, stage: str) -> pa.Table:
    store, made = Store(home), artifact(Store(home), version, stage)
    tables = [pq.read_table(store.rows_path(part)) for part in made.parts]
    if not tables:  # it had no input, so no part
        return pa.table({column[0]: pa.nulls(0) for column in made.recipe.schema if len(column) == 3})
    return pa.concat_tables(tables)


def _split(version: Version, config: str | None, split: str | None) -> pa.Table:
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
