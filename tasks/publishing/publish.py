"""Publishing a dataset version, complete or not at all: Parquet files, card, Croissant, attribution, report, manifest.

train/*.parquet          splits of the first table, which is the default config
claims/full/*.parquet    splits of a further table: <config>/<split>/
tables.json              the tables of report.html as data, figures not rounded
figures/*.svg            the plots of report.html
audit.parquet            what the audits found
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from longform.artifacts.parts import group_of, open_parquet
from longform.artifacts.recipe import fingerprint
from longform.artifacts.rows import Rows, read_parquet
from longform.artifacts.store import Part, Store
from longform.artifacts.takedowns import mentions
from longform.artifacts.versions import Version, check_manifests, check_name, versions
from longform.engine.build import Build
from longform.engine.health import Gate
from longform.engine.served import Served
from longform.engine.stage import Builder
from longform.errors import LongformError, NothingToPublish, StoreError, UsageError
from longform.files import sha256_of, sync, unwritable, write_json
from longform.llm.offline import SERVED_AS
from longform.machines import temporary
from tasks.publishing import card
from tasks.publishing.audits import Audits, as_dict, audit_version, gate_sentences, refuse, write_findings
from tasks.publishing.croissant import croissant
from tasks.publishing.languages import Languages
from tasks.publishing.report import as_data, report
from tasks.publishing.served import served_gates
from tasks.sources.admission import taken_down

REVISION = 4
FORMAT = 1
SPLITS = ("train", "validation", "test", "overlap", "full")
DATED = re.compile(r"(\d{4})\.(\d\d)\.(\d\d)(\.\d+)?")


@dataclass(frozen=True, slots=True)
class About:
    """The hand-written description of a dataset.

    `terms`: the terms under which its sources were obtained, as the configuration names them; `terms_sentence`: these
    in a sentence. `first_settings`: the settings to fill in first for a build of real data. `licences`: of published
    texts that attribution.parquet does not list.
    """

    dataset: str
    title: str
    summary: str
    paper: card.Paper
    terms: str = ""
    terms_sentence: str = ""
    wording: card.Wording = card.Wording()  # noqa: RUF009 - frozen
    first_settings: str = "its sources and model"
    licences: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows to publish as a config; a row's split is that of its part.

    `apart`: splits that become configs of their own, under their own names. `view`: these are rows of another table in
    another form, so that they do not count among the rows of the version. `more`: rows of further stages, of the same
    schema and of other groups.
    """

    config: str
    rows: Rows
    apart: Sequence[str] = ()
    view: bool = False
    more: Sequence[Rows] = ()

    @property
    def parts(self) -> list[Part]:
        """The parts of all its stages that have rows."""
        return [part for rows in (self.rows, *self.more) for part in rows.parts or () if part.rows]


@dataclass(frozen=True, slots=True)
class Publication:
    """What a flow publishes: its tables, the first of which is the default config, and the rows of attribution.parquet.

    `tables`, `figures` and `examples` make what the report shows; the card shows the first of these tables and those
    that say so. `audits`: what must hold of the rows. `languages` finds the languages of the sources' texts, site by
    site. `gates`: what gates of the dataset's own stages found, which refuse nothing.
    """

    about: About
    published: Sequence[Table]
    attribution: Sequence[Rows]
    tables: Callable[[], list[card.ReportTable]]
    figures: Callable[[], list[card.Figure]]
    audits: Audits
    examples: Callable[[], list[card.Example]] = list
    languages: Callable[[], list[Languages]] = list
    gates: Callable[[], list[Gate]] = list


@dataclass(frozen=True, slots=True)
class Published:
    """A published version. `new`: it was written by this run, else it existed before."""

    version: Version
    new: bool


def recipe_of(about: About, stages: dict[str, str]) -> str:
    """The fingerprint of a version's recipe: its dataset, the REVISION of publishing, its stages and its terms.

    `stages`: stage -> fingerprint.
    """
    return fingerprint([about.dataset, REVISION, stages, about.terms])


def stages_of(build: Build) -> dict[str, str]:
    """stage -> fingerprint of the stages that the build has made, in the order of the flow."""
    return {entry.stage: entry.artifact.fingerprint for entry in build.done}


def existing(home: Path, dataset: str, recipe: str, name: str | None, stages: dict[str, str]) -> Version | None:
    """The newest version with this recipe or, if `name` is given, the version of that name; None if there is none.

    UsageError if the version of that name has another recipe (`stages`, stage -> fingerprint, serves to say where it
    begins to differ), or if `name` cannot name a version (only checked if the dataset has versions). StoreError if any
    version of the dataset has no readable manifest.
    """
    check_manifests(home, dataset)
    there = versions(home, dataset)
    if name is None:
        return next((version for version in reversed(there) if version.recipe == recipe), None)
    taken = next((version for version in there if version.name == check_name(name)), None)
    if taken is None or taken.recipe == recipe:
        return taken
    changed = [stage for stage, mark in stages.items() if taken.stages.get(stage) != mark]
    raise UsageError(
        f"{dataset} {name} was built by another recipe (it differs from {changed[0] if changed else 'publishing'} on): "
        f"choose another --version, or `longform withdraw {dataset}@{name}` first."
    )


def free_name(home: Path, dataset: str, today: date) -> str:
    """The first version name that is not in use: `today` as YYYY.MM.DD, then with `.2`, `.3` and so on."""
    day = f"{today:%Y.%m.%d}"
    taken = {version.name for version in versions(home, dataset)}
    return next(name for n in range(1, 10_000) if (name := day if n == 1 else f"{day}.{n}") not in taken)


def set_publication(
    builder: Builder,
    about: About,
    published: Sequence[Table],
    attribution: Rows | Sequence[Rows],
    *,
    tables: Callable[[], list[card.ReportTable]],
    figures: Callable[[], list[card.Figure]] = list,
    examples: Callable[[], list[card.Example]] = list,
    audits: Audits = Audits(),  # noqa: B008 - frozen
    languages: Callable[[], list[Languages]] = list,
    gates: Callable[[], list[Gate]] = list,
) -> None:
    """Record what `publish_version` is to publish when all stages are made; the last call of a flow. `attribution`: the
    rows of attribution.parquet, of one stage or of several.

    `tables`, `figures` and `examples` make the tables, plots and examples of the report; they are called when it is
    written. `audits`: what must hold of the rows, or they are not published. `languages` finds the languages of the
    sources' texts, site by site. `gates`: what gates of the dataset's own stages found, which refuse nothing.
    """
    credited = [attribution] if isinstance(attribution, Rows) else list(attribution)
    builder.publication = Publication(about, published, credited, tables, figures, audits, examples, languages, gates)


def publish_version(build: Build, version: str | None) -> Published:
    """Publish what the flow recorded by `set_publication`, or return the version that holds it already.

    `version`: the name; by default the date (UTC), with a number if that is taken. The version of that name, by
    default the newest with the same recipe, is returned if it has the same recipe and the same rows; rows may differ
    under one recipe if a model was asked again. Raises UsageError if the name is used by a version with other rows or
    another recipe, NothingToPublish if there is no row, GateError if an audit finds too many rows, LongformError if a
    record was taken down meanwhile, StoreError for a damaged part or manifest, a folder that cannot be written, or a
    lock that another process took over.
    """
    publication: Publication = build.publication
    about, published = publication.about, publication.published
    stages = stages_of(build)
    recipe = recipe_of(about, stages)
    known = existing(build.store.home, about.dataset, recipe, version, stages)
    if known and _holds(known, published):
        return Published(known, new=False)
    if known and version:
        raise UsageError(
            f"{about.dataset} {version} holds other rows of this recipe (a model was asked again): "
            f"choose another --version, or `longform withdraw {about.dataset}@{version}` first."
        )
    if not any(table.parts for table in published):
        raise NothingToPublish(
            f"{about.dataset} has no row to publish: every one was left out or rejected{_emptied(build)}. "
            "Look at the settings and at the source."
        )
    name = version or free_name(build.store.home, about.dataset, datetime.now(UTC).date())
    place = build.store.home / "datasets" / about.dataset / name
    folder = place.with_name(temporary())
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        manifest = _write_files(build, publication, name, recipe, folder)
        check_takedowns(build.store.home, about.dataset, folder)
        build.store.check_locks()
        folder.rename(place)
        sync(place.parent)
    except OSError as error:
        build.store.check_locks()  # who took the lock over has removed the folder
        raise unwritable(place, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Published(Version(about.dataset, name, place, manifest), new=True)


def _emptied(build: Build) -> str:
    """The stages that made no row but rejected some, in brackets, for a message; "" if there is none.

    Each with the number of rows it left out and their commonest reason.
    """
    emptied = [
        f"{entry.stage} left out {sum(reasons.values()):,}, most of them as: {next(iter(reasons))[1]}"
        for entry in build.done
        if not entry.artifact.rows and (reasons := entry.artifact.rejected())
    ]
    return f" ({'; '.join(emptied)})" if emptied else ""


def check_takedowns(home: Path, dataset: str, folder: Path) -> None:
    """Raise LongformError if a Parquet file in the folder, at any depth, names a record that is taken down by now.

    `home`: where the takedowns are; `dataset`: named in the message.
    """
    hits = mentions(sorted(folder.rglob("*.parquet")), taken_down(home))
    if hits:
        more = f" (and {len(hits) - 1:,} more)" if len(hits) > 1 else ""
        raise LongformError(
            f"{dataset} was not published: {hits[0].id} is taken down, but {hits[0].column} of "
            f"{hits[0].file.relative_to(folder)} names it{more}. Build again: the takedown came while this build ran."
        )


def _holds(version: Version, published: Iterable[Table]) -> bool:
    """Whether the Parquet files of a version's splits are, by hash, exactly the non-empty parts of these tables."""
    files = {file["sha256"] for path, file in version.manifest["files"].items() if "/" in path and "rows" in file}
    return files == {part.sha256 for table in published for part in table.parts}


def _write_files(build: Build, publication: Publication, name: str, recipe: str, folder: Path) -> dict[str, Any]:
    """Write all files of the version into the folder, manifest.json last; return the manifest.

    `name`: the version's name. StoreError for a part that does not match its hash.
    """
    about, published, attribution = publication.about, publication.published, publication.attribution
    splits = {
        table.config: _copy_splits(build.store, table, folder, first=table is published[0]) for table in published
    }
    with open_parquet(folder / "attribution.parquet", attribution[0].schema) as writer:
        for batch in chain.from_iterable(rows.batches(size=20_000) for rows in attribution):
            writer.write_batch(batch.cast(attribution[0].schema))
    gates = _check_gates(build, publication, splits, folder)
    version = _version(build, about, published, attribution, name, splits, gates)
    version = replace(version, site_facts=_site_facts(attribution, publication.languages()))
    tables, plots = publication.tables(), publication.figures()
    shown = [*tables, _rejected(build)]
    on_card = [table for number, table in enumerate(tables) if table.on_card or not number]
    texts = {
        "README.md": card.card(version, on_card),
        "croissant.json": croissant(version),
        "report.html": report(version, shown, plots, publication.examples()),
        "tables.json": as_data(shown),
        **{f"figures/{plot.name}.svg": plot.svg for plot in plots},
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="\n")
    counts = {config: {split.name: split.rows for split in found} for config, found in splits.items()}
    manifest = {
        "format": FORMAT,
        "dataset": about.dataset,
        "version": name,
        "number": 1 + max((v.manifest["number"] for v in versions(build.store.home, about.dataset)), default=0),
        "recipe": recipe,
        "stages": stages_of(build),
        "inputs": {call.name: {name: rows.stage for name, rows in call.upstream.items()} for call in build.calls},
        "splits": counts[published[0].config],
        "configs": counts,
        "views": [table.config for table in published if table.view],
        "keys": {table.config: table.rows.key for table in published},
        "offline": version.offline,
        "terms": about.terms,
        "gates": [as_dict(gate) for gate in gates],
        "served": [asdict(each) for each in _served(build)],
        "files": {str(path.relative_to(folder)): _file(path) for path in sorted(folder.rglob("*")) if path.is_file()},
    }
    write_json(folder / "manifest.json", manifest)
    return manifest


def _check_gates(
    build: Build, publication: Publication, splits: dict[str, list[card.Split]], folder: Path
) -> list[Gate]:
    """Write audit.parquet into the folder, where the splits are already, and return what all gates found, those of the
    stages first. GateError if an audit refuses the version.
    """
    files = {
        config: {split.name: [folder / file.path for file in split.files] for split in found}
        for config, found in splits.items()
    }
    tables = {table.config: table.rows for table in publication.published}
    artifacts = [entry.artifact for entry in build.done]
    findings, gates = audit_version(artifacts, tables, files, publication.audits, build.accept)
    served = served_gates(_served(build), versions(build.store.home, publication.about.dataset))
    gates += [replace(each, accepted=each.gate in build.accept and each.is_above) for each in served]
    refuse(publication.about.dataset, findings, gates)
    write_findings(folder / "audit.parquet", findings)
    return [*build.gates, *gates, *publication.gates()]


def _served(build: Build) -> list[Served]:
    """What served the replies of the stages, in the order of the flow."""
    return [served for entry in build.done for served in entry.served]


def _rejected(build: Build) -> card.ReportTable:
    """The report's table of the rows that were left out: number by stage, kind and reason.

    The kind is "filtered" (by a rule) or "rejected" (a defect).
    """
    rows = [
        (entry.stage, "filtered" if kind == "filtered" else "rejected", reason, number)
        for entry in build.done
        for (kind, reason), number in entry.artifact.rejected().items()
    ]
    return card.table_of(
        title="Rows left out",
        note="`longform rejects` shows each of them.",
        columns=("stage", "kind", "reason", "rows"),
        rows=rows,
    )


def _copy_splits(store: Store, table: Table, folder: Path, *, first: bool) -> list[card.Split]:
    """Copy each non-empty part of a table, byte by byte, into the folder of its split; return the splits.

    A part's split is the end of its key. `first`: the table is the default config, whose folders are <split>/,
    otherwise <config>/<split>/. Splits are in the order of SPLITS, others follow by name. StoreError for a part that
    does not match its hash.
    """
    files: dict[str, list[card.File]] = {}
    counts: dict[str, int] = {}
    for part in table.parts:
        split = part.key.rsplit("/", 1)[1]
        place = split if first else f"{table.config}/{split}"
        path = f"{place}/{group_of(part.key)}-{part.key.split('/')[1]}.parquet"
        (folder / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store.rows_path(part), folder / path)
        if sha256_of(folder / path) != part.sha256:
            raise StoreError(f"{store.rows_path(part)} is damaged: run `longform verify`, then build with --force.")
        files.setdefault(split, []).append(card.File(path, part.bytes, part.sha256))
        counts[split] = counts.get(split, 0) + part.rows
    return [
        card.Split(split, counts[split], sorted(files[split], key=lambda file: file.path))
        for split in sorted(files, key=lambda name: (SPLITS.index(name) if name in SPLITS else len(SPLITS), name))
    ]


def _file(path: Path) -> dict[str, Any]:
    """The manifest's entry of a file: hash, size and, for Parquet, number of rows."""
    rows = {"rows": pq.read_metadata(path).num_rows} if path.suffix == ".parquet" else {}
    return {"sha256": sha256_of(path), "bytes": path.stat().st_size, **rows}


def _version(
    build: Build,
    about: About,
    published: Sequence[Table],
    attribution: Sequence[Rows],
    name: str,
    splits: dict[str, list[card.Split]],
    gates: Sequence[Gate],
) -> card.VersionFacts:
    """What card, report and croissant.json say of the version `name`.

    `splits`: config -> its splits as copied. It was published on the day that its name says, if that is a date.
    """
    facts, dated = _source_facts(attribution), DATED.fullmatch(name)
    models = [_offline(rows) for table in published for rows in (table.rows, *table.more)]
    return card.VersionFacts(
        dataset=about.dataset,
        version=name,
        title=about.title,
        summary=about.summary,
        paper=about.paper,
        licence=sorted({*facts["licences"], *about.licences}),
        terms=about.terms_sentence,
        scrubbed=facts["scrubbed"],
        offline=any(models),
        offline_kinds=sorted({kind for found in models for kind in found if kind}),
        configs=_configs(published, splits),
        sites=facts["sites"],
        stages=[_stage(entry) for entry in build.done],
        # a clock would make equal builds differ
        date_published="-".join(dated.groups()[:3]) if dated else "",
        newest=facts["last"],
        wording=about.wording,
        gates=gate_sentences(gates),
        models=[each.sentence for each in _served(build)],
    )


def _configs(published: Sequence[Table], splits: dict[str, list[card.Split]]) -> list[card.Config]:
    """The configs that have rows, the first of them as the default. `splits`: config -> its splits.

    Splits that a table has in `apart` follow it as configs of their own, unless the table has no other split.
    """
    found: list[tuple[str, list[card.Split], Table]] = []
    for table in published:
        sides = [split for split in splits[table.config] if split.name not in table.apart]
        apart = [split for split in splits[table.config] if split.name in table.apart]
        found += [(table.config, sides or apart, table)]
        found += [(split.name, [split], table) for split in apart if sides]
    with_rows = [entry for entry in found if entry[1]]
    return [
        card.Config(name, number == 0, splits, table.rows.schema, table.view)
        for number, (name, splits, table) in enumerate(with_rows)
    ]


def _stage(entry: Any) -> card.Stage:
    """(stage, fingerprint, rows, rows filtered, rows rejected as defects) of an entry of `Build.done`."""
    made, reasons = entry.artifact, entry.artifact.rejected().items()
    filtered, rejected = (sum(number for (of, _), number in reasons if of == kind) for kind in ("filtered", "defect"))
    return entry.stage, made.fingerprint, made.rows, filtered, rejected


def _source_facts(attribution: Sequence[Rows]) -> dict[str, Any]:
    """Facts on the sources from the attribution table; empty or 0 if it has no such column.

    `licences`, `sites`: distinct values, sorted. `last`: ISO date of the newest record, by `created` or, without such
    a column, by `retrieved_at`. `scrubbed`: how many records had personal data replaced.
    """
    names = attribution[0].schema.names
    newest = next((name for name in ("created", "retrieved_at") if name in names), None)
    columns = {
        "licences": _distinct("licence", names),
        "sites": _distinct("site", names),
        "last": f"coalesce(strftime(max({newest}), '%Y-%m-%d'), '')" if newest else "''",
        "scrubbed": "count_if(scrubbed > 0)" if "scrubbed" in names else "0",
    }
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(f"SELECT {', '.join(columns.values())} FROM {read_parquet(_paths(attribution))}")
        return dict(zip(columns, found.fetchone() or ([], [], "", 0), strict=True))


def _site_facts(attribution: Sequence[Rows], languages: Iterable[Languages]) -> list[card.SiteFacts]:
    """The number, dates and languages of the source records of each site of which some date is known, by site; [] if
    the attribution table does not say of which site they are, and when they were written.
    """
    if not {"site", "created"} <= set(attribution[0].schema.names) or not _paths(attribution):
        return []
    spoken = {each.group: each for each in languages}
    query = f"""
        SELECT site, count(*), strftime(min(created), '%Y-%m-%d'), strftime(max(created), '%Y-%m-%d')
        FROM {read_parquet(_paths(attribution))} GROUP BY site HAVING count(created) > 0 ORDER BY site
    """
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        found = database.execute(query).fetchall()
    return [card.SiteFacts(site, records, first, last, spoken.get(site)) for site, records, first, last in found]


def _paths(several: Iterable[Rows]) -> list[str]:
    """The Parquet files of the rows of several stages."""
    return [path for rows in several for path in rows.paths]


def _distinct(column: str, names: list[str]) -> str:
    """SQL for the sorted distinct values of a column, without null.

    SQL for an empty list if the column is not among `names`, the columns of the table.
    """
    values = f"list_sort(list(DISTINCT {column}) FILTER ({column} IS NOT NULL))"
    return f"coalesce({values}, [])" if column in names else "[]"


def _offline(rows: Rows) -> list[str]:
    """The kinds of text that the offline model wrote, each once; [] if it wrote none.

    The kind of a text whose model is in the column X_model is in X_source. It is "" without such a column, and for
    texts whose model is in `model` or X_backend.
    """
    queries = [
        f"SELECT DISTINCT {_kind_column(column, rows.schema.names)} FROM {read_parquet(rows.paths)} "
        f"WHERE {column} LIKE 'offline-%' OR {column} = '{SERVED_AS}{card.OFFLINE_MODEL}'"  # of a rehearsal's server
        for column in card.model_columns([rows.schema])
    ]
    if not queries or not rows.paths:
        return []
    with duckdb.connect() as database:
        return [kind for (kind,) in database.execute(" UNION ".join(queries)).fetchall()]


def _kind_column(column: str, names: list[str]) -> str:
    """SQL for the kind of the texts that the model in `column` wrote: for a column X_model the column X_source
    (answer_model: answer_source); '' if `names`, the table's columns, lacks that, and for the columns `model` and
    X_backend, which have none.
    """
    source = column.removesuffix("model") + "source"
    return source if column != "model" and source in names else "''"
