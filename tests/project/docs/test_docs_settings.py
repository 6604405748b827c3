"""docs/source-settings.md names every setting of every source, as `longform fetch` and `longform read` print them.

`python tests/project/docs/test_docs_settings.py` writes the page anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.builds.fetching import Act, module_of, settings_of
from flows.sources import SOURCES

PAGE = Path(__file__).parents[3] / "docs" / "source-settings.md"
HEAD = """# Settings of the sources

`--set NAME=VALUE` of `longform fetch SOURCE` and `longform read SOURCE`, which print the same list. A list is written `a,b`, or as JSON where a value has a comma: `["a, b", "c"]`. `none` unsets. What the sources are: [sources.md](sources.md).
"""  # noqa: E501


def page() -> str:
    """The page as the settings are now: a table for each source and act, sorted as `longform sources` lists them."""
    return HEAD + "".join(section(source, act) for source in SOURCES for act in ("fetch", "read"))  # type: ignore[arg-type]


def section(source: str, act: Act) -> str:
    """The part on one act of a source; empty if it has none, or no setting for it."""
    if not hasattr(module_of(source), act):
        return ""
    rows = [(each["name"], default(each["default"]), each["meaning"]) for each in settings_of(source, act)]
    lines = [f"| `{name}` | {shown} | {meaning.replace('|', chr(92) + '|')} |" for name, shown, meaning in rows]
    table = "\n".join(["| setting | default | meaning |", "|---|---|---|", *lines])
    return f"\n## longform {act} {source}\n\n{table}\n" if rows else ""


def default(value: object) -> str:
    """A default as the page shows it: JSON in code, empty for none."""
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False, default=str)}`"


def test_the_page_of_settings_is_what_the_sources_take() -> None:
    assert PAGE.read_text() == page(), f"run `python {Path(__file__).name}` in tests/project/docs, and commit the page"


@pytest.mark.parametrize("source", SOURCES)
def test_every_setting_of_a_source_is_on_the_page_with_a_meaning(source: str) -> None:
    for act in ("fetch", "read"):
        if hasattr(module_of(source), act):
            parts = PAGE.read_text().split("\n## ")
            part = next((part for part in parts if part.startswith(f"longform {act} {source}\n")), "")
            for setting in settings_of(source, act):  # type: ignore[arg-type]
                assert f"| `{setting['name']}` |" in part
                assert setting["meaning"]


if __name__ == "__main__":
    PAGE.write_text(page())
