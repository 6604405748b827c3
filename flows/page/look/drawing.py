"""Where the boxes and lines of a drawing of stages go: stages in layers, each below those that it reads from.

A line is left out where the same stage is also read by way of another. Lines that pass a layer have a place in it (a
`Point` without a stage), so that they run beside the boxes. The order within layers is that of the mean of the
neighbours, which leaves few crossings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

WIDTH, HEIGHT, PASSING = 204, 66, 14
GAP_X, GAP_Y, EDGE = 18, 44, 12
SWEEPS = 12


@dataclass(slots=True)
class Point:
    """A box (`stage` names it), or the place where a line passes a layer. `x` is its middle, `y` its upper edge."""

    stage: str
    layer: int
    above: list[Point] = field(default_factory=list)
    below: list[Point] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> int:
        """Its width in pixels."""
        return WIDTH if self.stage else PASSING

    @property
    def y(self) -> int:
        """The upper edge of its layer."""
        return EDGE + self.layer * (HEIGHT + GAP_Y)


@dataclass(frozen=True, slots=True)
class Drawing:
    """`boxes`: stage -> (left, top); `lines`: (from, to, the path of the line as SVG)."""

    width: int
    height: int
    boxes: dict[str, tuple[int, int]]
    lines: list[tuple[str, str, str]]


def drawing_of(inputs: Mapping[str, Sequence[str]]) -> Drawing:
    """The drawing of stages -> the stages that each reads from. Names that are no stage, and circles, are left out."""
    known = {
        name: [each for each in dict.fromkeys(of) if each in inputs and each != name] for name, of in inputs.items()
    }
    depth = _depths(known)
    above = {name: [each for each in of if depth[each] < depth[name]] for name, of in known.items()}
    known = _reduced(above, depth)
    _lower(depth, known)
    boxes = {name: Point(name, depth[name]) for name in known}
    layers: list[list[Point]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for point in boxes.values():
        layers[point.layer].append(point)
    chains = {
        (source, name): _joined(boxes[source], boxes[name], layers) for name, of in known.items() for source in of
    }
    _arrange(layers)
    left = min((point.x - point.width / 2 for layer in layers for point in layer), default=0) - EDGE
    for layer in layers:
        for point in layer:
            point.x -= left
    right = max((point.x + point.width / 2 for layer in layers for point in layer), default=0) + EDGE
    return Drawing(
        round(right),
        2 * EDGE + max(0, len(layers) * (HEIGHT + GAP_Y) - GAP_Y),
        {name: (round(point.x - WIDTH / 2), point.y) for name, point in boxes.items()},
        [(source, name, _path(chain)) for (source, name), chain in chains.items()],
    )


def _depths(inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """stage -> its layer: one below the lowest of its inputs. Of stages in a circle, some input is not reckoned."""
    depth: dict[str, int] = {}
    for first in inputs:
        stack, within = [first], set[str]()
        while stack:
            name = stack[-1]
            within.add(name)
            waiting = [each for each in inputs[name] if each not in depth and each not in within]
            if waiting and name not in depth:
                stack.append(waiting[0])
                continue
            depth.setdefault(name, 1 + max((depth[each] for each in inputs[name] if each in depth), default=-1))
            stack.pop()
    return depth


def _reduced(inputs: Mapping[str, Sequence[str]], depth: Mapping[str, int]) -> dict[str, list[str]]:
    """The inputs without those that another input of the stage is made from. All inputs lie above their stage."""
    behind: dict[str, set[str]] = {}
    for name in sorted(inputs, key=lambda name: depth[name]):
        behind[name] = set(inputs[name]).union(*(behind[each] for each in inputs[name]))
    return {
        name: [each for each in of if not any(each in behind[other] for other in of)] for name, of in inputs.items()
    }


def _lower(depth: dict[str, int], inputs: Mapping[str, Sequence[str]]) -> None:
    """Move stages down, as far as their readers let them, where that makes more lines shorter than longer."""
    readers: dict[str, list[str]] = {name: [] for name in inputs}
    for name, of in inputs.items():
        for each in of:
            readers[each].append(name)
    for name in sorted(inputs, key=lambda name: -depth[name]):
        if len(readers[name]) > len(inputs[name]):
            depth[name] = min(depth[each] for each in readers[name]) - 1


def _joined(source: Point, target: Point, layers: list[list[Point]]) -> list[Point]:
    """The points from a box to another, with a new one in each layer between them, which is added to `layers`."""
    passing = [Point("", layer) for layer in range(source.layer + 1, target.layer)]
    for point in passing:
        layers[point.layer].append(point)
    chain = [source, *passing, target]
    for upper, lower in pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _arrange(layers: list[list[Point]]) -> None:
    """Give each point its place within its layer."""
    for layer in layers:
        _spread(layer)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = {id(point): _mean(point, down=down) for point in layer}
            if sweep < SWEEPS - 4:
                layer.sort(key=lambda point: wanted[id(point)])
            for point in layer:
                point.x = wanted[id(point)]
            _spread(layer)


def _mean(point: Point, *, down: bool) -> float:
    """The mean place of the neighbours in the layer before; the point's own if it has none there."""
    near = point.above if down else point.below
    return sum(each.x for each in near) / len(near) if near else point.x


def _spread(layer: Sequence[Point]) -> None:
    """Move points of a layer apart, in their order, so that none overlaps another and their mean stays."""
    if not layer:
        return
    before = sum(point.x for point in layer)
    for left, right in pairwise(layer):
        gap = GAP_X if left.stage and right.stage else GAP_X // 2
        right.x = max(right.x, left.x + (left.width + right.width) / 2 + gap)
    shift = (before - sum(point.x for point in layer)) / len(layer)
    for point in layer:
        point.x += shift


def _path(chain: Sequence[Point]) -> str:
    """The SVG path of a line through these points, from the lower edge of the first to the upper edge of the last."""
    first = chain[0]
    x, y = round(first.x), first.y + HEIGHT
    path = f"M{x} {y}"
    for point in chain[1:]:
        to, top = round(point.x), point.y
        middle = (y + top) // 2
        path += f" C{x} {middle} {to} {middle} {to} {top}"
        x, y = to, top
        if not point.stage:
            y = top + HEIGHT
            path += f" V{y}"
    return path
