"""The report in a real browser: narrow and wide it needs no scrolling sideways, and asks nobody for anything."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from axioms_builds import build_axioms

pytestmark = pytest.mark.check

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OFFLINE = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
MEASURE = """
onload = () => {
  const page = document.getElementById("page").contentDocument;
  const wide = page.documentElement.clientWidth;
  const over = [...page.querySelectorAll("body *")].filter(
    (node) => !node.closest(".frame table, .plot svg") && node.getBoundingClientRect().right > wide + 1);
  const small = [...page.querySelectorAll("p, td, li")].filter(
    (node) => parseFloat(getComputedStyle(node).fontSize) < 13);
  const asked = page.defaultView.performance.getEntriesByType("resource").length;
  document.title = [page.documentElement.scrollWidth - wide, over.length, small.length, asked,
    page.querySelectorAll("details").length, page.querySelectorAll("svg").length].join(" ");
};
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a version of the samples."""
    version, _, _ = build_axioms(tmp_path_factory.mktemp("home"))
    assert version is not None
    return (version.folder / "report.html").read_text()


@pytest.mark.parametrize("wide", [390, 1_280])
def test_the_report_fits_the_screen(page: str, wide: int, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium on this machine")
    frame = f'<iframe id="page" style="border:0;width:{wide}px;height:900px" srcdoc="{html.escape(page)}"></iframe>'
    shown = tmp_path / "shown.html"
    shown.write_text(f"<!doctype html><body style=margin:0>{frame}<script>{MEASURE}</script>")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", *OFFLINE, f"--user-data-dir={tmp_path / 'user'}"]
    command += [f"--window-size={wide + 100},1000", "--virtual-time-budget=5000", "--dump-dom", shown.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    (measured,) = re.findall(r"<title>([-\d ]+)</title>", done.stdout)
    scrolled, over, small, asked, examples, plots = map(int, measured.split())
    assert (scrolled, over, small, asked) == (0, 0, 0, 0)
    assert (examples, plots) == (page.count("<details"), page.count("<svg"))
    assert examples
    assert plots
