"""Plots: equal bytes for equal numbers, and an inline picture that holds nothing but itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import paths
import pytest
from card_rows import example_version
from lxml import etree, html

from longform.errors import LongformError
from tasks.publishing.card import Figure
from tasks.publishing.plots import inline, svg_of
from tasks.publishing.report import report

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def bars(names: list[str]) -> Any:
    from matplotlib.figure import Figure as Plot

    figure = Plot(figsize=(4, 2))
    figure.subplots().barh(range(len(names)), [3.0] * len(names), tick_label=names, label="a")
    return figure


def drawn(*names: str) -> str:
    return svg_of(lambda: bars(list(names)))


DRAW = """
import hashlib
from tests.tasks.publishing import test_plots
print(hashlib.sha256(test_plots.drawn("tea", "ale").encode()).hexdigest())
"""


def test_the_bytes_depend_on_no_hash_seed_time_or_matplotlibrc(tmp_path: Path) -> None:
    found = set()
    for seed, lines in (("1", ""), ("2", "axes.facecolor: red\nsvg.fonttype: path\nfont.size: 20\n")):
        settings = tmp_path / seed
        settings.mkdir()
        (settings / "matplotlibrc").write_text(lines)
        env = os.environ | {
            "PYTHONPATH": paths.PYTHONPATH,
            "PYTHONHASHSEED": seed,
            "MATPLOTLIBRC": str(settings),
            "SOURCE_DATE_EPOCH": seed,
        }
        done = subprocess.run([sys.executable, "-c", DRAW], env=env, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1


def test_drawing_leaves_matplotlibs_settings_as_they_were() -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 31.0}):
        drawn("tea")
        assert matplotlib.rcParams["font.size"] == 31.0


def test_texts_stay_texts_and_are_no_markup_and_no_formula() -> None:
    names = ["<script>alert(1)</script>", "$x_1$ & $y", "naïve 茶 \\alpha"]
    root = etree.fromstring(drawn(*names).encode())
    texts = [node.text for node in root.iter("{*}text")]
    for name in names:
        assert name in texts
    assert not list(root.iter("{*}script"))


def test_an_inline_picture_has_ids_of_its_own_and_every_reference_is_to_one_of_them() -> None:
    first, second = (html.fragment_fromstring(inline(drawn("tea"), prefix)) for prefix in ("plot-1", "plot-2"))
    ids = [node.get("id") for picture in (first, second) for node in picture.iter() if node.get("id")]
    assert len(ids) == len(set(ids)) > 10
    for number, picture in enumerate((first, second), start=1):
        own = {node.get("id") for node in picture.iter()}
        asked = {node.get("href") for node in picture.iter()} | {node.get("clip-path") for node in picture.iter()}
        references = {text.removeprefix("url(").removesuffix(")").removeprefix("#") for text in asked if text}
        assert references
        assert references <= own
        assert all(name.startswith(f"plot-{number}-") for name in references)


def test_the_page_shows_it_and_still_asks_nobody_for_anything() -> None:
    text = report(example_version(), [], [Figure("f", "Bars <b>", "All.", drawn("tea", "ale"))])
    document: Any = html.document_fromstring(text)
    frame = document.xpath("//div[@class='frame plot']")[0]
    assert {"tea", "ale"} <= {node.text for node in frame.iter("text")}
    assert document.get_element_by_id("plot-caption-1").text_content() == "Bars <b>"
    assert document.xpath("//nav//a[@href='#plot-1']")
    assert not document.xpath("//script | //link | //img | //image | //foreignobject | //style[ancestor::svg]")
    assert [link for _, _, link, _ in document.iterlinks() if not link.startswith("#")] == []
    assert not re.search("https?:", text)
    assert "<?xml" not in text
    assert "DOCTYPE" not in text.split("\n", 1)[1]


def test_a_page_without_plots_says_nothing_of_them() -> None:
    assert "plot" not in report(example_version(), [])


@pytest.mark.parametrize("hostile", [
    "<script>alert(1)</script>",
    '<rect onclick="alert(1)"/>',
    '<use xlink:href="https://far.example/a.svg#b"/>',
    '<use xlink:href="javascript:alert(1)"/>',
    '<image xlink:href="#a"/>',
    '<foreignObject><p xmlns="http://www.w3.org/1999/xhtml">x</p></foreignObject>',
    '<rect style="fill: url(https://far.example/a)"/>',
    '<rect style="background: \\75rl(a)"/>',
    '<g clip-path="url(https://far.example/a#b)"/>',
    "<a><text>x</text></a>",
    "<?php x ?>",
])  # fmt: skip
def test_what_our_plots_never_hold_is_refused(hostile: str) -> None:
    with pytest.raises(LongformError, match="it is not ours"):
        inline(f"<svg {SVG}>{hostile}</svg>", "plot-1")


def test_entities_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    document = f'<!DOCTYPE svg [<!ENTITY e SYSTEM "file://{secret}">]><svg {SVG}><text>&e;</text></svg>'
    with pytest.raises(LongformError, match="it is not ours"):
        inline(document, "plot-1")
