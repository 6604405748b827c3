from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.html_to_markdown import STAND_IN, to_markdown

TEX = st.text(alphabet="ab\\{}()^+", min_size=1, max_size=40)
CODE = st.text(alphabet="ab \\_*<>&#[]|\n", min_size=1, max_size=60).filter(lambda code: code.strip())


@given(TEX)
def test_text_with_backslashes_comes_out_as_it_was_written(text: str) -> None:
    assert to_markdown(f"<p>x{escape(text)}</p>") == f"x{text}"


@given(CODE)
def test_code_comes_out_to_the_character(code: str) -> None:
    html = f"<pre><code>x{escape(code)}\n</code></pre>"
    assert to_markdown(html).startswith("```\nx" + code.rstrip())


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        (r"<p>\(a_1\) and \[x \\ y\]</p>", r"\(a_1\) and \[x \\ y\]"),
        (r"<p>$\frac{a}{b} &lt; c*d*e$</p>", r"$\frac{a}{b} < c*d*e$"),
        ("<p>C:&#92;new &#x5C;a &#x5c;b &#0092;c &bsol;d</p>", r"C:\new \a \b \c \d"),
        ("<p>&#921;</p>", "Ι"),
        ("<p>1. not a list</p>", "1. not a list"),
        ("<p>x<sup>2</sup> H<sub>2</sub>O</p>", "x<sup>2</sup> H<sub>2</sub>O"),
        ("<p>press <kbd>Ctrl</kbd></p>", "press `Ctrl`"),
        ('<p><a href="https://e.org/a" rel="nofollow">the page</a></p>', "[the page](https://e.org/a)"),
        ('<p><img src="https://e.org/a.png" alt="a cat"></p>', "![a cat](https://e.org/a.png)"),
        ("<ul><li>one<ul><li>two</li></ul></li></ul>", "- one\n   - two"),
        ("<blockquote><p>said</p></blockquote>", "> said"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<nav>kept</nav><form>too</form>", "kept\n\ntoo"),
        ("<p>a</p><script>alert()</script>", "a"),
    ],
)
def test_html_becomes_the_markdown_one_would_write(html: str, markdown: str) -> None:
    assert to_markdown(html) == markdown


def test_pipes_in_tables_stay_escaped() -> None:
    assert r"x\|y" in to_markdown("<table><tr><th>a</th></tr><tr><td>x|y</td></tr></table>")


@pytest.mark.parametrize(
    "html",
    [
        '<pre class="lang-js s-code-block"><code>a</code></pre>',
        "<!-- language: lang-js -->\n\n<pre><code>a</code></pre>",
        "<!-- language: js -->\n<pre><code>a</code></pre>",
        "<!-- language-all: lang-js -->\n<pre><code>a</code></pre>",
    ],
)
def test_the_language_of_a_code_block_is_kept(html: str) -> None:
    assert to_markdown(html) == "```js\na\n```"


def test_a_fence_grows_where_code_holds_one() -> None:
    assert to_markdown("<pre><code>```\n</code></pre>").startswith("````")


@pytest.mark.parametrize("html", ["", " ", "\n", "<p></p>", "<p>&nbsp;</p>", "<div>\t</div>", "<br>", "<!-- x -->"])
def test_nothing_but_white_space_is_an_empty_text(html: str) -> None:
    assert to_markdown(html) == ""


@pytest.mark.parametrize("html", [f"a{STAND_IN}b", "a&#xE000;b", "a&#xe000;b", "a&#57344;b"])
def test_the_stand_in_never_turns_into_a_backslash(html: str) -> None:
    assert to_markdown(html) == "ab"


def test_text_deeper_than_the_converter_goes_is_not_lost() -> None:
    html = "<p>top</p>" + "<div>" * 3000 + "deep &amp; <b>bo</b>ld<p>end \\(x\\)" + "</div>" * 3000
    assert to_markdown(html) == "top\ndeep & bold\nend \\(x\\)"


def test_hostile_markup_takes_no_time() -> None:
    deep = "<div>" * 3000
    for html in (
        "<" * 300_000,
        "<p>" * 50_000,
        deep + "<a" * 300_000,
        deep + " " * 300_000 + "x",
        deep + "<a" + "a" * 300_000,
    ):
        to_markdown(html)
