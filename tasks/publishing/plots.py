"""Plots as SVG: the same bytes for the same numbers, and no element or attribute that is unsafe in a page.

matplotlib draws with its own defaults, not with a user's matplotlibrc. Texts stay texts (a reader can search and copy
them); ids come from a fixed salt instead of a random one, and the date is left out.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from longform.errors import LongformError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "longform",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
ELEMENTS = {"svg", "title", "g", "defs", "path", "use", "rect", "clipPath", "text", "tspan"}
ATTRIBUTES = {
    "id", "d", "x", "y", "width", "height", "viewBox", "version", "style", "transform", "clip-path", "href", "role",
}  # fmt: skip
REFERENCE = re.compile(r"#[\w.-]+|url\(#[\w.-]+\)")
HARMLESS_STYLE = re.compile(r"[\w\s#%,.:;'()+-]*")


def svg_of(draw: Callable[[], Figure], title: str = "") -> str:
    """An SVG document of the figure that `draw` returns. `draw` must not use pyplot, whose state is global.

    Screen readers see one image, named by `title` if that is given.
    """
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        draw().savefig(out, format="svg", metadata=NO_METADATA)
    head, start, rest = out.getvalue().partition("<svg ")
    attributes, end, body = rest.partition(">")
    named = f"\n <title>{escape(title)}</title>" if title else ""
    return f'{head}{start}role="img" {attributes}{end}{named}{body}'


def inline(svg: str, prefix: str) -> str:
    """The SVG as an element to be put into an HTML page, with the prefix and a dash before each id.

    Style elements, comments and namespaces are removed. LongformError for an element or an attribute that this
    project's plots do not have, or for a reference to something outside the plot.
    """
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    root = etree.fromstring(svg.encode(), parser)
    for node in list(root.iter("{*}style")):
        node.getparent().remove(node)  # it would hold for the whole page
    for node in root.iter():
        _clean(node, prefix)
    etree.cleanup_namespaces(root)
    return str(etree.tostring(root, encoding="unicode", with_tail=False))


def _clean(node: Any, prefix: str) -> None:
    """Removes namespaces from a node and puts the prefix before its ids and the references to ids, in place.

    LongformError if the node is not one of ELEMENTS, or has an attribute that is not `_harmless`.
    """
    name = _local(node.tag)
    attributes = {_local(key): value for key, value in node.attrib.items()}
    if name not in ELEMENTS or not all(_harmless(*item) for item in attributes.items()):
        raise LongformError(f"A plot holds <{name}> with {', '.join(attributes) or 'no attribute'}: it is not ours.")
    node.tag = name
    node.attrib.clear()
    for key, value in attributes.items():
        node.set(key, f"{prefix}-{value}" if key == "id" else _prefixed(key, value, prefix))


def _local(name: Any) -> str:
    """The name of an element or attribute, as lxml gives it, without its namespace.

    For a comment, an entity or the like, whose name is no string, "a comment or an entity", which is not in ELEMENTS.
    """
    return name.rsplit("}", 1)[-1] if isinstance(name, str) else "a comment or an entity"


def _harmless(key: str, value: str) -> bool:
    """Whether an attribute may be in a page: it is one of ATTRIBUTES and refers to nothing outside the picture.

    A href or clip-path must be a reference to an id; a style must match HARMLESS_STYLE and have no url().
    """
    if key in ("href", "clip-path"):
        return bool(REFERENCE.fullmatch(value))
    if key == "style":
        return "url(" not in value and bool(HARMLESS_STYLE.fullmatch(value))
    return key in ATTRIBUTES


def _prefixed(key: str, value: str, prefix: str) -> str:
    """The value of an attribute; in a href or clip-path with the prefix and a dash before the id that it refers to."""
    return value.replace("#", f"#{prefix}-", 1) if key in ("href", "clip-path") else value
