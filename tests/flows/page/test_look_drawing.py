"""The drawing of stages shows each of them once, below what it reads, with no box upon another."""

from __future__ import annotations

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from flows.page.look.drawing import HEIGHT, WIDTH, drawing_of

GRAPHS = st.integers(0, 25).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, max(0, number - 1)), max_size=4) for number in range(n)))
)


def named(graph: tuple[list[int], ...]) -> dict[str, list[str]]:
    return {f"s{n}": [f"s{each}" for each in of if each < n] for n, of in enumerate(graph)}


def behind(inputs: dict[str, list[str]], name: str) -> set[str]:
    return set().union(*({each} | behind(inputs, each) for each in inputs[name]))


@given(GRAPHS)
def test_boxes_lie_below_their_inputs_and_never_overlap(graph: tuple[list[int], ...]) -> None:
    inputs = named(graph)
    found = drawing_of(inputs)
    assert found.boxes.keys() == inputs.keys()
    for name, of in inputs.items():
        x, y = found.boxes[name]
        assert 0 <= x <= found.width - WIDTH
        assert 0 <= y <= found.height - HEIGHT
        assert all(found.boxes[each][1] + HEIGHT < y for each in of)
    for (x, y), (other_x, other_y) in combinations(found.boxes.values(), 2):
        assert abs(x - other_x) >= WIDTH or abs(y - other_y) >= HEIGHT


@given(GRAPHS)
def test_lines_say_what_every_stage_is_made_from_and_no_line_says_it_twice(graph: tuple[list[int], ...]) -> None:
    inputs = named(graph)
    drawn: dict[str, list[str]] = {name: [] for name in inputs}
    for source, target, path in drawing_of(inputs).lines:
        drawn[target].append(source)
        assert re.fullmatch(r"M-?\d+ \d+( C(-?\d+ \d+ ?){3}( V\d+)?)+", path)
    for name in inputs:
        assert behind(drawn, name) == behind(inputs, name)
        assert not any(each in behind(drawn, other) for each in drawn[name] for other in drawn[name])


def test_circles_and_unknown_inputs_of_a_strange_manifest_are_drawn_without_their_lines() -> None:
    found = drawing_of({"a": ["b", "a", "gone"], "b": ["a"], "c": ["b"]})
    assert found.boxes.keys() == {"a", "b", "c"}
    assert ("b", "c") in {(source, target) for source, target, _ in found.lines}


def test_a_chain_of_thousands_of_stages_is_drawn() -> None:
    inputs = {"s0": [], **{f"s{n}": [f"s{n - 1}"] for n in range(1, 1_500)}}
    assert len(drawing_of(dict(reversed(inputs.items()))).lines) == 1_499
