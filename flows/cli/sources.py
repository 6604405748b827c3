"""Commands about sources: list them with their terms, fetch them, and read them into Parquet."""

from __future__ import annotations

import shlex
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.builds import completion
from flows.cli.shared.arguments import Home, Json, print_json
from longform.settings import home as home_of

app = typer.Typer()

SHOWN_FILES = 20
CONFERENCES = {"iclr": "openreview"}  # name -> the source that fetches it by default

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="see `longform sources`", autocompletion=completion.sources)
]
SourceSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="one setting, a list as a,b; without further words the source shows all"
    ),
]


@app.command("sources")
def list_sources(
    name: Annotated[
        str | None, typer.Argument(metavar="[SOURCE]", help="its datasheet", autocompletion=completion.sources)
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List the sources: what each holds, its licence, and what you must decide before you use it. With a source, its
    datasheet: also how to cite it, known defects, and the counts of the last read of this home.
    """
    if name:
        return _print_datasheet(name, home_of(home), as_json)
    import textwrap

    from flows.builds.console import WIDTH, console
    from flows.builds.fetching import listed

    found = listed()
    if as_json:
        return print_json(found)
    out = console()
    for source in found:
        paragraphs = [source["what"], f"licence: {source['licence']}"]
        paragraphs += [f"decide first: {source['decide']}"] if source["decide"] else []
        wrapped = textwrap.TextWrapper(WIDTH - 16, break_long_words=False, break_on_hyphens=False).wrap
        lines = [line for text in paragraphs for line in wrapped(text)]
        for label, line in zip([source["source"]] + [""] * len(lines), lines, strict=False):
            out.print(f"{label:<16}{line}", soft_wrap=True)


@app.command("fetch")
def fetch_source(
    source: Source,
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[WHAT…]", help="what of it; without, says what there is")
    ] = None,
    settings: SourceSettings = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="else sources/SOURCE in the home")] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="a mirror, or a test server")
    ] = None,
    pdfs: Annotated[bool, typer.Option("--pdfs", help="openreview: the PDFs too, as --set pdfs=true")] = False,
    accept: Annotated[bool, typer.Option("--accept-terms", help="you have read the terms it names, and agree")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Fetch files of a source: whole, checked, going on where they stopped; what is there is not fetched again."""
    from flows.builds import fetching

    source = CONFERENCES.get(source, source)
    if not what:
        return _print_usage(source, "fetch", as_json)
    all_settings = [*(settings or []), *([f"base_url={base_url}"] if base_url else []), *(["pdfs=true"] * pdfs)]
    config = fetching.config_of(source, "fetch", all_settings)
    fetching.check_terms(source, accept, _command_with_terms(source, what, all_settings, to, home))
    folder = (to or home_of(home) / "sources" / source).absolute()
    with closing(_progress()) as progress:
        files = fetching.fetch(source, what, config, folder, accepted=accept, progress=progress)
    if as_json:
        return print_json({"source": source, "folder": str(folder), "files": files})
    _print_files(files)


@app.command("read")
def read_source(
    source: Source,
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH…", help="files or folders of it; without, shows its settings")
    ] = None,
    settings: SourceSettings = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="write STAGE.parquet and STAGE.rejected.parquet there")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Read files of a source into Parquet; every record becomes a row or a rejected row that says why."""
    from flows.builds import datasheet, earlier_reads, fetching, reading
    from flows.builds.console import Bars, Lines, console
    from longform.artifacts.store import Store
    from longform.engine.thread_tasks import Threads
    from tasks.sources.files.inputs import links_in, repeated_in

    source = CONFERENCES.get(source, source)
    if not paths:
        return _print_usage(source, "read", as_json)
    config, root = fetching.config_of(source, "read", settings or []), home_of(home)
    out = console(stderr=True)
    with closing(Bars(out) if out.is_terminal else Lines()) as progress:
        rows, entries = reading.read(source, paths, config, root, tasks=Threads(), progress=progress)
    written = reading.export(rows, entries, Store(root), to) if to else []
    removed = earlier_reads.remove_earlier(source, to, written) if to else []
    written += [datasheet.write_markdown(source, root, to)] if to else []
    links = [link for path in paths for link in links_in(path)]
    repeated = repeated_in(paths, reading.read_once(entries))
    stages = [reading.described(entry, Store(root)) for entry in entries]
    if as_json:
        listed = [str(link) for link in links]
        again = [{"file": str(file), "same_as": str(other)} for file, other in repeated]
        files = {"written": [str(path) for path in written], "removed": [str(path) for path in removed]}
        return print_json({"source": source, "stages": stages, **files, "links": listed, "repeated": again})
    _print_stages(stages, written)
    if removed:
        print(f"Removed from {to}, written by an earlier read: {', '.join(path.name for path in removed)}.")
    if links:
        print(f"{len(links):,} symbolic links are not followed, e.g. {links[0]}: name the files that are meant.")
    if repeated:
        one, other = repeated[0]
        print(f"{len(repeated):,} files have the content of another and are read once, e.g. {one} is {other}.")


@app.command("duplicates")
def find_duplicates(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="papers, metadata, submissions: what `read --to` wrote")
    ],
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="the Parquet file of pairs that is written")],
    as_json: Json = False,
) -> None:
    """Find versions of one paper in tables of several sources: by identifiers, titles and texts."""
    from flows.builds.reading import export_duplicates

    counts = export_duplicates(files, to)
    if as_json:
        return print_json({"written": str(to), **counts})
    print(f"{counts['same']:,} pairs are versions of one paper, {counts['doubtful']:,} are doubtful.\n{to}")


def _print_datasheet(source: str, home: Path, as_json: bool) -> None:
    """Print the datasheet of a source, as Markdown or as JSON. UsageError for an unknown source."""
    from flows.builds.console import visible
    from flows.builds.datasheet import datasheet, markdown

    sheet = datasheet(source, home)
    if as_json:
        return print_json(sheet)
    print(visible(markdown(sheet)), end="")


def _command_with_terms(source: str, what: list[str], settings: list[str], to: Path | None, home: Path | None) -> str:
    """The command line of this fetch with --accept-terms added, for a message."""
    words = ["longform", "fetch", source, *what]
    words += [word for setting in settings for word in ("--set", setting)]
    words += [word for name, path in (("--to", to), ("--home", home)) if path for word in (name, str(path))]
    return shlex.join([*words, "--accept-terms"])


def _progress() -> Any:
    """The progress display for downloads: bars on a terminal, else lines."""
    from flows.builds.console import console
    from flows.builds.transfers import TransferBars, TransferLines

    out = console(stderr=True)
    return TransferBars(out) if out.is_terminal else TransferLines()


def _print_usage(source: str, act: Any, as_json: bool) -> None:
    """Print how a source is fetched or read (`act`): what it holds, its terms, and the settings with their defaults;
    as text or as JSON. UsageError if there is no such source, or it cannot be fetched or read by itself.
    """
    from inspect import getdoc

    from flows.builds import fetching
    from flows.builds.console import console, table

    module = fetching.module_of(source, act)
    settings, terms = fetching.settings_of(source, act), fetching.terms_of(module.TERMS)
    about = getdoc(getattr(module, act)) or ""
    if as_json:
        return print_json({"source": source, **terms, act: about, "settings": settings})
    out = console()
    out.print(f"{source}: {terms['what']}\n", soft_wrap=True)
    names = {"licence": "licence", "attribution": "attribution", "decide": "to decide first"}
    out.print(table({"": "", " ": ""}, [(label, terms[name]) for name, label in names.items() if terms[name]]))
    out.print(f"\nlongform {act} {source} {'WHAT…' if act == 'fetch' else 'PATH…'}\n{about}\n", soft_wrap=True)
    rows = [(setting["name"], _default(setting["default"]), setting["meaning"]) for setting in settings]
    out.print(table({"--set": "", "default": "", "meaning": ""}, rows))


def _default(value: object) -> str:
    """The default value of a setting as JSON; empty for None."""
    import json

    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _print_files(files: list[dict[str, Any]]) -> None:
    """Print a line for each of the first SHOWN_FILES fetched files, how many more there are, and the sum."""
    from flows.builds.console import console

    out = console()
    for file in files[:SHOWN_FILES]:
        state = "new" if file["new"] else "there already"
        out.print(f"{file['path']}  {file['bytes']:,} bytes  {file['sha256'][:12]}  {state}", soft_wrap=True)
    if len(files) > SHOWN_FILES:
        print(f"… and {len(files) - SHOWN_FILES:,} more")
    megabytes, new = sum(file["bytes"] for file in files) / 1e6, sum(file["new"] for file in files)
    print(f"{len(files):,} files, {megabytes:,.1f} MB; {new:,} new.")


def _print_stages(stages: list[dict[str, Any]], written: list[Path]) -> None:
    """Print rows, seconds and left-out rows of each stage, and the files that were `written`; if there are none, the
    folder of each stage and a hint at --to.
    """
    from flows.builds.console import console

    out = console()
    for stage in stages:
        state = "   there already" if stage["state"] == "reuse" else f"{stage['seconds']:8.1f} s"
        out.print(f"{stage['stage']:<20}{stage['rows']:>12,} rows{state}", soft_wrap=True)
        for label in ("filtered", "rejected", "counters"):
            if counts := ", ".join(f"{number:,} {reason}" for reason, number in stage[label].items() if number):
                out.print(f"  {label}: {counts}", soft_wrap=True)
        if not written:
            out.print(f"  {stage['folder']}: {len(stage['files']):,} Parquet files", soft_wrap=True)
    for path in written:
        out.print(str(path), soft_wrap=True)
    if not written:
        print("With --to DIR each stage becomes one Parquet file.")
