"""report.html of a dataset version: one self-contained page.

It has no script, font or image and makes no request (a Content-Security-Policy says so too). It is light or dark as the
reader's system is; wide tables scroll inside their own frame, so the page fits 390 pixels. All text is escaped by
Jinja. Plots are inline SVG, in which only known elements and attributes are allowed (tasks/publishing/plots.py).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.publishing.card import (
    Example,
    Figure,
    Paper,
    Passage,
    ReportTable,
    VersionFacts,
    dating,
    figure,
    numeric_columns,
    offline_note,
    rows_of,
    splits_table,
    stages_table,
)
from tasks.publishing.plots import inline

__all__ = ["ReportTable", "as_data", "report"]

LONGEST = 600

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfaf8; --sheet: #ffffff; --ink: #1d1f24; --soft: #5d6470; --line: #e4e1da; --stripe: #f6f4ef;
  --accent: #2f5d8a; --warn: #8a4b08; --warn-page: #fdf3e1; --warn-line: #efd3a0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14161a; --sheet: #1b1e24; --ink: #e7e8ea; --soft: #a0a7b3; --line: #2d323b; --stripe: #20242b;
    --accent: #8fbbe8; --warn: #f0c078; --warn-page: #2b2214; --warn-line: #57431f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
h1 { margin: 0 0 .25rem; font-size: clamp(1.6rem, 1.1rem + 2.4vw, 2.4rem); line-height: 1.2; }
h1, h2 { letter-spacing: -.01em; text-wrap: balance; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 1.15rem; line-height: 1.3; }
p { margin: 0 0 1rem; max-width: 44rem; }
a { color: var(--accent); }
.facts { color: var(--soft); margin-bottom: 1.25rem; max-width: none; }
.facts span { display: inline-block; max-width: 100%; overflow-wrap: anywhere; }
.warn {
  padding: .75rem 1rem; border: 1px solid var(--warn-line); border-radius: .5rem;
  background: var(--warn-page); color: var(--warn); max-width: none;
}
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0; padding: 0; list-style: none; }
.tiles li {
  flex: 1 1 8rem; padding: .75rem 1rem; background: var(--sheet);
  border: 1px solid var(--line); border-radius: .5rem;
}
.tiles strong { display: block; font-size: 1.5rem; line-height: 1.25; font-variant-numeric: tabular-nums; }
.tiles span { color: var(--soft); font-size: .875rem; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 0; padding: 0; list-style: none; }
figure { margin: 2.75rem 0 0; scroll-margin-top: 1rem; }
figcaption { margin-bottom: .75rem; }
figcaption p { margin: .25rem 0 0; color: var(--soft); font-size: .9375rem; }
.frame { overflow-x: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: .5rem; }
.frame:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { width: 100%; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .5rem .875rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
thead th {
  border-top: 0; border-bottom: 1px solid var(--line); color: var(--soft);
  font-size: .8125rem; font-weight: 600; vertical-align: bottom; white-space: nowrap;
}
tbody tr:first-child > * { border-top: 0; }
tbody th { font-weight: 500; }
tbody :not(.figure) { max-width: 24rem; overflow-wrap: break-word; }
tbody tr:nth-child(even) { background: var(--stripe); }
.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.none { padding: .75rem 1rem; margin: 0; color: var(--soft); }
section { margin-top: 2.75rem; scroll-margin-top: 1rem; }
section > p { margin: .25rem 0 .75rem; color: var(--soft); font-size: .9375rem; }
.gates { margin: .75rem 0 0; padding: .75rem 1rem .75rem 2rem; }
.gates, .example { background: var(--sheet); border: 1px solid var(--line); border-radius: .5rem; }
.gates li { overflow-wrap: anywhere; }
.example { margin-top: .75rem; padding: .25rem 1rem; }
.example summary { padding: .375rem 0; cursor: pointer; overflow-wrap: anywhere; }
.example summary span { color: var(--soft); font-size: .875rem; }
.example h3 { margin: .75rem 0 .25rem; color: var(--soft); font-size: .8125rem; }
.example .text { margin: 0; max-width: none; white-space: pre-wrap; overflow-wrap: anywhere; }
.example .credit { margin: .25rem 0 .75rem; max-width: none; color: var(--soft); font-size: .875rem; }
.example .credit, .cut { overflow-wrap: anywhere; }
.cut { color: var(--warn); }
footer { margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--soft); }
@media (max-width: 30rem) {
  main { padding-top: 1.75rem; }
  th, td { padding: .5rem .625rem; }
  thead th { white-space: normal; }
}
"""

PLOT_STYLE = """\
.plot { padding: .75rem; background: #ffffff; }
.plot svg * { stroke-linejoin: round; stroke-linecap: butt; }
.plot svg { display: block; width: 100%; min-width: 36rem; height: auto; color-scheme: light; }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ version.title }} {{ version.version }}</title>
<style>{{ style }}{{ plot_style }}</style>
</head>
<body>
<main>
<h1>{{ version.title }}</h1>
<p class="facts">
{% for fact in facts %}
<span>{{ fact }}{{ " ·" if not loop.last }}</span>
{% endfor %}
</p>
{% if offline %}
<p class="warn"><strong>Offline model.</strong> {{ offline }}</p>
{% endif %}
<p>{{ version.summary }}</p>
{% if tiles %}
<ul class="tiles">
{% for name, rows in tiles %}
<li><strong>{{ rows }}</strong><span>{{ name }}</span></li>
{% endfor %}
</ul>
{% endif %}
<nav aria-label="Tables">
<ul>
{% for table in tables %}
<li><a href="#table-{{ loop.index }}">{{ table.title }}</a></li>
{% endfor %}
{% for plot in plots %}
<li><a href="#plot-{{ loop.index }}">{{ plot.title }}</a></li>
{% endfor %}
{% if gates %}
<li><a href="#gates">Gates and audits</a></li>
{% endif %}
{% if examples %}
<li><a href="#examples">Examples</a></li>
{% endif %}
</ul>
</nav>
{% for table in tables %}
<figure id="table-{{ loop.index }}">
<figcaption>
<h2 id="caption-{{ loop.index }}">{{ table.title }}</h2>
{% if table.note %}
<p>{{ table.note }}</p>
{% endif %}
</figcaption>
<div class="frame" role="region" tabindex="0" aria-labelledby="caption-{{ loop.index }}">
{% if table.rows %}
<table>
<thead>
<tr>
{% for name, numeric in table.columns %}
<th scope="col"{% if numeric %} class="figure"{% endif %}>{{ name }}</th>
{% endfor %}
</tr>
</thead>
<tbody>
{% for row in table.rows %}
<tr>
{% for text, numeric in row %}
{% set tag = "th" if loop.first and not numeric else "td" %}
<{{ tag }}{% if tag == "th" %} scope="row"{% endif %}{% if numeric %} class="figure"{% endif %}>
{{- text }}</{{ tag }}>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table>
{% else %}
<p class="none">None.</p>
{% endif %}
</div>
</figure>
{% endfor %}
{% for plot in plots %}
<figure id="plot-{{ loop.index }}">
<figcaption>
<h2 id="plot-caption-{{ loop.index }}">{{ plot.title }}</h2>
{% if plot.note %}
<p>{{ plot.note }}</p>
{% endif %}
</figcaption>
<div class="frame plot" role="region" tabindex="0" aria-labelledby="plot-caption-{{ loop.index }}">
{{ plot.svg }}
</div>
</figure>
{% endfor %}
{% if gates %}
<section id="gates">
<h2>Gates and audits</h2>
<p>What was looked for in the replies of models and in the rows, and what was found; audit.parquet lists the rows.</p>
<ul class="gates">
{% for sentence in gates %}
<li>{{ sentence }}</li>
{% endfor %}
</ul>
</section>
{% endif %}
{% if examples %}
<section id="examples">
<h2>Examples</h2>
<p>Texts stand here as they are in the rows; long ones are cut, and say by how much. Of each kind the first is open.</p>
{% for example in examples %}
<details class="example"{% if example.is_open %} open{% endif %}>
<summary><strong>{{ example.title }}</strong>
{% for name, value in example.facts %}
<span>{{ name }}: {{ value }}{{ " ·" if not loop.last }}</span>
{% endfor %}
</summary>
{% for passage in example.passages %}
<h3>{{ passage.label }}</h3>
<p class="text" dir="auto">{{ passage.begin }}
{%- if passage.cut %}<span class="cut"> … {{ passage.cut }}</span>{% endif %}</p>
{% if passage.credit %}
<p class="credit">{{ passage.credit }}</p>
{% endif %}
{% endfor %}
</details>
{% endfor %}
</section>
{% endif %}
<footer>
<p>Rebuilt after <cite>{{ version.paper.title }}</cite>. {{ version.paper.citation }}</p>
</footer>
</main>
</body>
</html>
"""


def as_data(tables: Sequence[ReportTable]) -> str:
    """The tables as JSON: title, note and rows (column -> cell) of each table.

    Numbers are not rounded; a missing cell is null.
    """
    found = [{"title": table.title, "note": table.note, "rows": table.cells.to_dict("records")} for table in tables]
    return json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class Page:
    """What heads and ends a page that is not about a version: as VersionFacts names it."""

    title: str
    version: str
    summary: str
    paper: Paper


def tables_page(
    page: Page,
    facts: Sequence[str],
    tables: Sequence[ReportTable],
    figures: Sequence[Figure] = (),
    *,
    warning: str = "",
) -> str:
    """The text of a page with `facts` below its title, a warning if there is one, `tables` and the plots.

    LongformError for a plot with an element or attribute that is not allowed in the page.
    """
    shown = [_shown(table) for table in tables]
    return _rendered(version=page, facts=facts, offline=warning, tables=shown, **_plots(figures))


def report(
    version: VersionFacts,
    tables: Sequence[ReportTable],
    figures: Sequence[Figure] = (),
    examples: Sequence[Example] = (),
) -> str:
    """The text of report.html: rows per split, `tables`, the tables of splits and of stages, the plots, what the gates
    found, then the examples.

    LongformError for a plot with an element or attribute that is not allowed in the page.
    """
    return _rendered(
        version=version,
        facts=[
            f"{version.dataset} {version.version}",
            *([dated] if (dated := dating(version)) else []),
            f"{figure(rows_of(version))} rows",
            *version.licence,
        ],
        offline=offline_note(version),
        tiles=_tiles(version),
        tables=[_shown(table) for table in (*tables, splits_table(version), stages_table(version))],
        **_plots(figures),
        gates=version.gates,
        examples=[
            {
                "title": example.title,
                "is_open": example.title not in {other.title for other in examples[:number]},
                "facts": example.facts,
                "passages": [_cut(passage) for passage in example.passages],
            }
            for number, example in enumerate(examples)
        ],
    )


def _plots(figures: Sequence[Figure]) -> dict[str, Any]:
    """`plots` and `plot_style` as the template needs them."""
    from markupsafe import Markup

    plots = [
        {"title": plot.title, "note": plot.note, "svg": Markup(inline(plot.svg, f"plot-{number}"))}
        for number, plot in enumerate(figures, start=1)
    ]
    return {"plots": plots, "plot_style": Markup(PLOT_STYLE if figures else "")}


def _rendered(**values: Any) -> str:
    """PAGE with these values, and nothing for its other parts."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    empty: dict[str, Any] = {"plot_style": "", "tiles": [], "plots": [], "gates": [], "examples": []}
    return environment.from_string(PAGE).render(**empty | values, style=Markup(STYLE))


def _tiles(version: VersionFacts) -> list[tuple[str, str]]:
    """(label, number of rows as text) of each split, for the top of the page.

    The label names the config, too, if there is more than one.
    """
    several = sum(not config.view for config in version.configs) > 1
    return [
        (f"rows, {config.name}/{split.name}" if several else f"rows, {split.name}", figure(split.rows))
        for config in version.configs
        if not config.view
        for split in config.splits
    ]


def _cut(passage: Passage) -> dict[str, str]:
    """A text as the template needs it: `label`, `credit`, `begin` (at most LONGEST characters) and `cut`, which says
    how many characters follow; "" if none does.
    """
    more = len(passage.text) - LONGEST
    cut = f"{figure(more)} more characters" if more > 0 else ""
    return {"label": passage.label, "credit": passage.credit, "begin": passage.text[:LONGEST], "cut": cut}


def _shown(table: ReportTable) -> dict[str, Any]:
    """A table as the template needs it: title, note, columns and rows.

    `columns`: (heading, whether the column is numeric); `rows`: lists of (cell as text, whether its column is
    numeric).
    """
    numeric = numeric_columns(table)
    rows = [list(zip(map(figure, row), numeric, strict=True)) for row in table.rows]
    columns = list(zip(table.headings, numeric, strict=True))
    return {"title": table.title, "note": table.note, "columns": columns, "rows": rows}
