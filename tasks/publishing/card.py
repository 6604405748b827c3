"""The dataset card (README.md) of a version, which publish.py writes.

Its YAML front matter tells `datasets.load_dataset` where the splits are:

    ---
    pretty_name: "Axioms"
    license:
    - "cc-by-sa-4.0"
    configs:
    - config_name: "pairs"
      default: true
      data_files:
      - split: "train"
        path: "train/*.parquet"
    ---

Equal versions give equal bytes: nothing here depends on the clock, the host or the environment. croissant.py and
report.py write their files from the same `VersionFacts`.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from tasks.publishing.languages import Languages

if TYPE_CHECKING:
    from pandas import DataFrame

OFFLINE_MODEL = "offline-rules-1"
HUB_NAMES = {"odc-by-1.0": "odc-by"}
LANGUAGES = ("en",)
FINGERPRINT_SHOWN = 12

HUB_LICENCES = {
    "apache-2.0", "mit", "cc0-1.0", "odc-by",
    "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0",
    "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nd-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
    "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0",
}  # fmt: skip

MORE = ("%", "from", "to", "±", "ratings", "paper", "difference")
Cell = str | int | float | None
Stage = tuple[str, str, int, int, int]  # name, fingerprint, rows out, rows filtered, rows rejected


@dataclass(frozen=True, slots=True)
class File:
    """A Parquet file of a split. `path` is relative to the version's folder, with forward slashes."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Split:
    """A split of a config, with its number of rows and its Parquet files."""

    name: str
    rows: int
    files: Sequence[File]


@dataclass(frozen=True, slots=True)
class Config:
    """A config of the version: a table under a name, as one or more splits of one schema.

    `default`: `datasets.load_dataset(folder)` reads this config if it is given no name. `view`: its rows are those of
    another config in another form.
    """

    name: str
    default: bool
    splits: Sequence[Split]
    schema: pa.Schema
    view: bool = False


@dataclass(frozen=True, slots=True)
class Paper:
    """The paper whose dataset is rebuilt: its title and its citation, both as plain text."""

    title: str
    citation: str


@dataclass(frozen=True, slots=True, eq=False)
class ReportTable:
    """A table of the card or of the report: numbers and strings; a missing cell is shown as a dash. `note`: may be "".

    A column that adds to another one is named after it, plus a blank and a word of MORE: `Complete %` beside
    `Complete`, `mean from` beside `mean`. `on_card`: the card shows it, too; it always shows the report's first table.
    """

    title: str
    note: str
    frame: DataFrame
    on_card: bool = False

    @property
    def columns(self) -> list[str]:
        """The column names of the frame, in order."""
        return [str(name) for name in self.frame.columns]

    @property
    def cells(self) -> DataFrame:
        """The frame with cells as Python objects, None where a cell is missing."""
        cells = self.frame.astype(object)
        return cells.where(cells.notna(), None)

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        """The rows as tuples of Python objects, None where a cell is missing."""
        return list(self.cells.itertuples(index=False, name=None))

    @property
    def headings(self) -> list[str]:
        """The column names as shown, in order.

        A column that adds to another column of the table shows only its last word (`%` for `Complete %` if there is a
        `Complete`); any other name is unchanged.
        """
        split = [name.rpartition(" ") for name in self.columns]
        return [last if last in MORE and of in self.columns else f"{of}{blank}{last}" for of, blank, last in split]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot of the report as SVG, drawn by this project; `name` is its file name without `.svg`."""

    name: str
    title: str
    note: str
    svg: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of an example: what it is, the text itself, and whom to credit for it (may be "")."""

    label: str
    text: str
    credit: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A row that the report shows with its texts: title, facts (name, value) and texts, all of them data."""

    title: str
    facts: Sequence[tuple[str, str]]
    passages: Sequence[Passage]


@dataclass(frozen=True, slots=True)
class Wording:
    """What the card says of the dataset's sources: Markdown sentences written for it, never text of a source.

    `licences`: where licences are named. `credit`: whom to name when rows are passed on, and what attribution.parquet
    lists. `changes`: how the sources' texts were changed. `traced`: what `longform trace` shows of a row. `tasks`: the
    task categories of the front matter.
    """

    licences: str = "Each row names the licence of its source where that is known."
    credit: str = (
        "Whoever passes on rows, or texts made from them, must name their sources: "
        "`attribution.parquet` lists every source with its address and licence, where known."
    )
    changes: str = ""
    traced: str = "sources and licences; for generated text the model, the prompt and the response"
    tasks: tuple[str, ...] = ("question-answering", "text-generation")


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """What the sources' records of a site show. `records`: their number. `first`, `last`: ISO dates of the oldest and
    the newest. `languages`: as detected in a sample of its texts; None if nobody looked.
    """

    site: str
    records: int
    first: str
    last: str
    languages: Languages | None = None


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """All that the card, the Croissant file and the report say of a dataset version.

    `licence`: licences found in the rows ("CC BY-SA 4.0"). `offline`: rows were written by the offline model;
    `offline_kinds`: their kinds ("open_book"), empty if there are no kinds. `sites`: the sites that the sources are
    from. `date_published`: ISO date, empty if unknown. `newest`: ISO date of the newest source, empty if unknown.
    `terms`: how the sources were obtained, in a sentence. `scrubbed`: number of source records in which personal data
    was replaced by marks like `[mail]`. `gates`: what the gates found, in sentences; `models`: by what the replies of
    models were served, in sentences. `site_facts`: the dates and languages of the sites, as far as the sources say when
    their records were written.
    """

    dataset: str
    version: str
    title: str
    summary: str
    paper: Paper
    licence: Sequence[str]
    offline: bool
    configs: Sequence[Config]
    sites: Sequence[str]
    stages: Sequence[Stage]
    date_published: str
    offline_kinds: Sequence[str] = ()
    terms: str = ""
    scrubbed: int = 0
    wording: Wording = Wording()
    gates: Sequence[str] = ()
    models: Sequence[str] = ()
    site_facts: Sequence[SiteFacts] = ()
    newest: str = ""


def card(version: VersionFacts, tables: Iterable[ReportTable] = ()) -> str:
    """The text of README.md: YAML front matter, then Markdown sections.

    The sections: title and summary, splits, columns, sites, `tables` (the tables of the report that the card shows as
    well), build, models, gates, licence, loading, tracing. At least one split of the default config must have files
    (else StopIteration).
    """
    sections = (
        _opening(version),
        f"## Splits\n\n{table_markdown(splits_table(version))}",
        *_columns(version),
        *([f"## Sites\n\n{_noted(sites_table(version))}"] if version.site_facts else []),
        *(f"## {escaped(table.title)}\n\n{_noted(table)}" for table in tables),
        _built(version),
        *([_models(version.models)] if version.models else []),
        *([_gates(version.gates)] if version.gates else []),
        _licence(version),
        _loading(version),
        _tracing(version),
    )
    return f"---\n{_front_matter(version)}\n---\n\n" + "\n\n".join(sections) + "\n"


def rows_of(version: VersionFacts) -> int:
    """The number of rows of all splits of all configs; views of other configs do not count."""
    return sum(split.rows for config in version.configs if not config.view for split in config.splits)


def schemas_of(version: VersionFacts) -> list[tuple[list[str], pa.Schema]]:
    """(names of the configs with this schema, schema) for each distinct schema, in the order of the configs.

    Schemas that differ only in metadata count as one; the first config's is returned.
    """
    alike = [[other for other in version.configs if other.schema.equals(config.schema)] for config in version.configs]
    firsts = [same for config, same in zip(version.configs, alike, strict=True) if same[0] is config]
    return [([config.name for config in same], same[0].schema) for same in firsts]


def model_columns(schemas: Iterable[pa.Schema]) -> list[str]:
    """The columns that say which model wrote or judged something: `model`, `…_model`, `…_backend`.

    Each name is there once, in the order of the schemas.
    """
    names = (name for schema in schemas for name in schema.names)
    return [name for name in dict.fromkeys(names) if name == "model" or name.endswith(("_model", "_backend"))]


def key_of(schema: pa.Schema) -> str:
    """The name of the column that identifies a row, from the metadata of a schema of this project. KeyError if the
    metadata lacks it.
    """
    return str(schema.metadata[b"key"], "utf-8")


def doc_of(field: pa.Field) -> str:
    """The description of a column, from the field's metadata; empty if it has none."""
    return str((field.metadata or {}).get(b"doc", b""), "utf-8")


def offline_note(version: VersionFacts) -> str:
    """A sentence for readers: what the offline model wrote, and which columns say so, if there are such columns.

    It names the kinds of rows if they are known, else "Texts or judgements". "" if the offline model wrote nothing.
    """
    if not version.offline:
        return ""
    kinds = f"Rows of kind {', '.join(version.offline_kinds)}" if version.offline_kinds else "Texts or judgements"
    sentence = f"{kinds} were written by a rule-based offline model ({OFFLINE_MODEL}), not by a language model"
    models = model_columns(config.schema for config in version.configs)
    return f"{sentence}; such a row says {OFFLINE_MODEL} in {' or '.join(models)}." if models else f"{sentence}."


def licence_url(licence: str) -> str | None:
    """The address of the deed of a Creative Commons licence with attribution ("CC BY-SA 4.0", "cc-by-sa-4.0").

    None for any other licence, CC0 among them.
    """
    found = re.fullmatch(r"CC[ -](BY(?:-(?:NC|ND|SA))*)[ -]([0-9]\.[0-9])", licence, re.IGNORECASE)
    return f"https://creativecommons.org/licenses/{found[1].lower()}/{found[2]}/" if found else None


def figure(cell: Cell) -> str:
    """A cell as text: `1,044`, `12.30` (floats have two decimals), a dash for None and NaN, a string unchanged."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def numeric_columns(table: ReportTable) -> list[bool]:
    """For each column whether it has only numbers and missing cells; False for all columns of a table without rows."""
    return [not any(isinstance(cell, str) for cell in column) for column in zip(*table.rows, strict=True)] or [
        False for _ in table.columns
    ]


def table_of(title: str, note: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> ReportTable:
    """A ReportTable of these rows, each a sequence of cells in the order of the columns."""
    from pandas import DataFrame

    return ReportTable(title, note, DataFrame(list(rows), columns=list(columns), dtype=object))


def splits_table(version: VersionFacts) -> ReportTable:
    """A table with a row for each split of each config: config, split, number of rows, number of files, bytes."""
    rows = [
        (config.name, split.name, split.rows, len(split.files), sum(file.bytes for file in split.files))
        for config in version.configs
        for split in config.splits
    ]
    return table_of("Splits", "", ("config", "split", "rows", "files", "bytes"), rows)


def stages_table(version: VersionFacts) -> ReportTable:
    """A table with a row for each stage: name, start of its fingerprint, rows out, rows filtered, rows rejected."""
    rows = [(stage[0], stage[1][:FINGERPRINT_SHOWN], *stage[2:]) for stage in version.stages]
    note = "Filtered: a rule of the method left the row out. Rejected: the row was broken."
    return table_of("Stages", note, ("stage", "fingerprint", "rows out", "filtered", "rejected"), rows)


def dating(version: VersionFacts) -> str:
    """When the version was published, else from when its newest source is; "" if neither is known."""
    if version.date_published:
        return f"published {version.date_published}"
    return f"newest source of {version.newest}" if version.newest else ""


def sites_table(version: VersionFacts) -> ReportTable:
    """A table with a row for each site: its number of records, their dates and the languages of its texts."""
    rows = [
        (facts.site, facts.records, facts.first, facts.last, _shares(facts.languages)) for facts in version.site_facts
    ]
    note = "Days on which the oldest and the newest post were written; languages as detected in a sample of each site."
    return table_of("Sites", note, ("site", "posts", "first", "last", "languages"), rows)


def _shares(languages: Languages | None) -> str | None:
    """The languages of a site with their shares in percent, at least 1; None if none was detected."""
    shares = languages.shares if languages else ()
    return ", ".join(f"{name} {share:.0%}" for name, share in shares if share >= 0.01) or None


def languages_of_version(version: VersionFacts) -> list[str]:
    """The languages of the texts as ISO 639-1 codes: those of each site, the commonest first; LANGUAGES if nobody
    looked.
    """
    found = [facts.languages for facts in version.site_facts if facts.languages]
    if not found:
        return list(LANGUAGES)
    shares = Counter[str]()
    for languages in found:
        shares.update({name: share for name, share in languages.shares if name in languages.main})
    return sorted(shares, key=lambda name: (-shares[name], name))


def escaped(text: str) -> str:
    """The text on one line, escaped so that inline Markdown shows it literally: no markup, no HTML, no table cell ends.

    Signs that mean something only at the beginning of a line (`>`, `-`, `1.`) are not escaped.
    """
    line = " ".join(text.split())
    return re.sub(r"[\\`*\[\]<|&~$#!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", line)


def type_name(type: pa.DataType) -> str:
    """An Arrow type for readers: `list of string`, `{start, end}`, `timestamp (ms, UTC)`; else Arrow's own name."""
    if pa.types.is_struct(type):
        return f"{{{', '.join(field.name for field in type)}}}"
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return f"list of {type_name(type.value_type)}"
    if pa.types.is_timestamp(type):
        return f"timestamp ({type.unit}, {type.tz})" if type.tz else f"timestamp ({type.unit})"
    return str(type)


def _front_matter(version: VersionFacts) -> str:
    """The YAML front matter of the card, without the lines `---` around it."""
    lines = [
        f"pretty_name: {_quoted(version.title)}",
        *_listed("license", _hub_licences(version.licence)),
        *_own_licence(version.licence),
        *_listed("task_categories", version.wording.tasks),
        *(_listed("language", spoken) if (spoken := languages_of_version(version)) else []),
        *_listed("size_categories", [_size_category(rows_of(version))]),
        "configs:",
    ]
    return "\n".join([*lines, *(line for config in version.configs for line in _config_lines(config))])


def _quoted(text: str) -> str:
    """The text on one line as a double-quoted YAML scalar, which is written like a JSON string."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def _listed(key: str, values: Iterable[str]) -> list[str]:
    """The YAML lines of a list of strings: `key:`, then `- "value"` for each value."""
    return [f"{key}:", *(f"- {_quoted(value)}" for value in values)]


def _hub_id(licence: str) -> str:
    """The identifier of a licence on the Hugging Face Hub: "CC BY-SA 4.0" -> "cc-by-sa-4.0".

    Lower case, with one dash for each run of characters that are no letter, digit or dot; HUB_NAMES has exceptions.
    The Hub need not know the result.
    """
    name = re.sub(r"[^a-z0-9.]+", "-", licence.lower()).strip("-")
    return HUB_NAMES.get(name, name)


def _hub_licences(licences: Sequence[str]) -> list[str]:
    """The licences as identifiers that the Hugging Face Hub knows, each once; ["unknown"] without a licence.

    A licence that is not in HUB_LICENCES (CC BY-SA 2.5 among them) becomes `other`.
    """
    ids = (_hub_id(licence) for licence in licences)
    return list(dict.fromkeys(name if name in HUB_LICENCES else "other" for name in ids)) or ["unknown"]


def _own_licence(licences: Sequence[str]) -> list[str]:
    """YAML lines that name the first licence that is not in HUB_LICENCES: license_name and, if known, license_link.

    The front matter needs them beside the licence `other`. [] if all licences are in HUB_LICENCES.
    """
    for other in (licence for licence in licences if _hub_id(licence) not in HUB_LICENCES):
        link = licence_url(other)
        return [f"license_name: {_quoted(_hub_id(other))}", *([f"license_link: {_quoted(link)}"] if link else [])]
    return []


def _size_category(rows: int) -> str:
    """The Hugging Face Hub's size category for a number of rows: `n<1K`, `1K<n<10K` and so on to `n>1T`.

    Exactly 1,000 rows are `1K<n<10K`, and so for the other bounds.
    """
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    names = ["n<1K", *(f"{least}<n<{most}" for least, most in pairwise(bounds)), "n>1T"]
    return names[bisect_right([1_000 * 10**power for power in range(len(bounds))], rows)]


def _config_lines(config: Config) -> list[str]:
    """The YAML lines of a config in the front matter, with its splits; a split without files is left out."""
    default = ["  default: true"] if config.default else []
    splits = [line for split in config.splits if split.files for line in _split_lines(split)]
    return [f"- config_name: {_quoted(config.name)}", *default, "  data_files:", *splits]


def _split_lines(split: Split) -> list[str]:
    """The YAML lines of a split in the front matter: its name, and a glob for each folder that holds its files."""
    folders = dict.fromkeys(PurePosixPath(file.path).parent for file in split.files)
    globs = (f"    - {_quoted(str(folder / '*.parquet'))}" for folder in folders)
    return [f"  - split: {_quoted(split.name)}", "    path:", *globs]


def _opening(version: VersionFacts) -> str:
    """The card's beginning: title, summary, version, date, number of rows and the paper.

    A warning follows the summary if the offline model wrote rows. Without a date of publication that of the newest
    source is given, if it is known.
    """
    note = offline_note(version)
    dated = dating(version)
    parts = [
        f"# {escaped(version.title)}",
        escaped(version.summary),
        f"> **Offline model.** {escaped(note)}" if note else "",
        f"Version {escaped(version.version)}, {f'{escaped(dated)}, ' if dated else ''}{figure(rows_of(version))} rows. "
        f"It rebuilds the dataset of *{escaped(version.paper.title)}*: "
        f"{escaped(version.paper.citation)}",
    ]
    return "\n\n".join(part for part in parts if part)


def _columns(version: VersionFacts) -> list[str]:
    """Markdown sections, one for each distinct schema, with a table of its columns.

    The heading names the configs that have the schema, if there is more than one schema.
    """
    schemas = schemas_of(version)
    if len(schemas) == 1:
        return [f"## Columns\n\n{_columns_table(schemas[0][1])}"]
    return [
        f"## Columns of {' and '.join(map(escaped, names))}\n\n{_columns_table(schema)}" for names, schema in schemas
    ]


def _columns_table(schema: pa.Schema) -> str:
    """The columns of a schema as a Markdown table: name, type, whether a null is allowed, description."""
    rows = [
        (field.name, type_name(field.type), "may be null" if field.nullable else "never null", doc_of(field))
        for field in schema
    ]
    return table_markdown(table_of("", "", ("column", "type", "null", "meaning"), rows))


def _built(version: VersionFacts) -> str:
    """The section on the build: the table of stages, a note on fingerprints and, if there are any, the sites."""
    sites = f"\n\nSources: {', '.join(escaped(site) for site in version.sites)}." if version.sites else ""
    full = f"Fingerprints are cut to {FINGERPRINT_SHOWN} characters; manifest.json holds them whole."
    return f"## How it was built\n\n{_noted(stages_table(version))}\n\n{full}{sites}"


def _models(sentences: Iterable[str]) -> str:
    """The section on models: what served each stage, by the names in the replies."""
    lines = "\n".join(f"- {escaped(sentence)}" for sentence in sentences)
    return f"## Models\n\nWhich models answered, as their servers name them.\n\n{lines}"


def _gates(sentences: Iterable[str]) -> str:
    """The section on gates: what each found in the replies of models and in the rows, and what was accepted."""
    lines = "\n".join(f"- {escaped(sentence)}" for sentence in sentences)
    how = (
        "Shares of replies that were of no use, and of rows that audits found. What is not marked as accepted was let "
        "through by its ceiling, or is one reply of several; `audit.parquet` lists what audits found."
    )
    return f"## Gates\n\n{how}\n\n{lines}"


def _licence(version: VersionFacts) -> str:
    """The section on licences: those found in the rows, whom to credit, and the terms of the sources.

    It also says how texts were changed, which CC BY-SA requires, and in how many records personal data was replaced.
    """
    wording = version.wording
    deeds = {licence: licence_url(licence) for licence in version.licence}
    named = ", ".join(f"[{escaped(name)}]({url})" if url else escaped(name) for name, url in deeds.items()) or "none"
    alike = " CC BY-SA is share-alike: what is adapted from these texts goes under the same licence."
    marks = (
        f" In {figure(version.scrubbed)} posts, mail addresses, phone numbers or handles were replaced by "
        "`[mail]`, `[phone]` or `[handle]`; columns named `scrubbed` or `…_scrubbed` count these marks."
    )
    paragraphs = (
        "## Licence and attribution",
        f"Licences found in the rows: {named}. {wording.licences}",
        wording.credit + (alike if any("BY-SA" in licence.upper() for licence in version.licence) else ""),
        wording.changes + (marks if version.scrubbed else ""),
        escaped(version.terms),
    )
    return "\n\n".join(filter(None, paragraphs))


def _loading(version: VersionFacts) -> str:
    """The section with code that loads the first split with files of the default config, by four libraries.

    StopIteration if no split of that config has files. A comment in the code names the other configs. The code runs as
    shown; `load_dataset(".")` would not, as the dataset would be named after the path.
    """
    config = next((config for config in version.configs if config.default), version.configs[0])
    split = next(split for split in config.splits if split.files)
    parquet = PurePosixPath(split.files[0].path).parent
    others = [other.name for other in version.configs if other is not config]
    more = "".join(f'\n# also: load_dataset(folder, "{name}")' for name in others)
    return f"""## How to load it

```python
import duckdb
import pandas
import polars
from datasets import load_dataset

folder = "data/datasets/{version.dataset}/{version.version}"  # where this version lies

in_pandas = pandas.read_parquet(f"{{folder}}/{parquet}")
in_polars = polars.read_parquet(f"{{folder}}/{parquet}/*.parquet")
in_duckdb = duckdb.sql(f"select * from '{{folder}}/{parquet}/*.parquet'")
in_datasets = load_dataset(folder, split="{split.name}"){more}
```"""


def _tracing(version: VersionFacts) -> str:
    """The section with the command that traces a row; it names the key column of each config, each name once."""
    keys = dict.fromkeys(key_of(config.schema) for config in version.configs)
    commands = " or ".join(f"`longform trace {version.dataset} <{key}>`" for key in keys)
    return f"## How to check a row\n\n{commands} shows where a row is from: {version.wording.traced}."


def _noted(table: ReportTable) -> str:
    """The table in Markdown, after its note if it has one."""
    return f"{escaped(table.note)}\n\n{table_markdown(table)}" if table.note else table_markdown(table)


def table_markdown(table: ReportTable) -> str:
    """The table in Markdown, numeric columns aligned to the right."""
    marks = ["---:" if numeric else "---" for numeric in numeric_columns(table)]
    body = [[escaped(figure(cell)) for cell in row] for row in table.rows]
    lines = [[escaped(heading) for heading in table.headings], marks, *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
