"""Line charts as SVG, for reports: a title, two axes with round numbers, a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 130, 28, 28
#: Okabe and Ito's palette: distinct for readers who do not see all colours.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
#: More points than a screen has room for make a page large and no clearer.
_MOST_POINTS = 500
#: More curves than this cannot be told apart; the rest is in the JSON report.
_MOST_CURVES = 14


@dataclass(frozen=True)
class Curve:
    name: str
    points: list[tuple[float, float]]


def round_up(value: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points as can be told apart, each the mean of its neighbours."""
    if len(points) <= _MOST_POINTS:
        return points
    size = math.ceil(len(points) / _MOST_POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]


def _seconds(value: float) -> str:
    return f"{value:.0f} s"


def line_chart(
    title: str, curves: Sequence[Curve], moment: Callable[[float], str] = _seconds
) -> str:
    """`moment` words what is below the horizontal axis."""
    curves = [Curve(curve.name, thinned(curve.points)) for curve in curves if curve.points][
        :_MOST_CURVES
    ]
    top = round_up(max((y for curve in curves for _, y in curve.points), default=1.0))
    least = min((y for curve in curves for _, y in curve.points), default=0.0)
    bottom = -round_up(-least) if least < 0 else 0.0
    last = max((x for curve in curves for x, _ in curve.points), default=1.0) or 1.0
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x_of(x: float) -> float:
        return _LEFT + plot_width * max(0.0, x) / last

    def y_of(y: float) -> float:
        return _TOP + plot_height * (1 - (y - bottom) / (top - bottom))

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f'<text x="{_LEFT}" y="16" class="title">{escape(title)}</text>',
    ]
    for share in (0.0, 0.5, 1.0):
        value = bottom + (top - bottom) * share
        y = y_of(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_LEFT + plot_width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,.6g}</text>')
    for share in (0.0, 0.5, 1.0):
        parts.append(
            f'<text x="{x_of(last * share):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
            f"{escape(moment(last * share))}</text>"
        )
    for number, curve in enumerate(curves):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = ' stroke-dasharray="5 3"' if number >= len(_COLOURS) else ""
        # One that runs below another one is wider, so that both are seen.
        width = ' stroke-width="3"' if number == 0 and len(curves) == 2 else ""
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in curve.points)
        parts.append(f'<polyline points="{path}" stroke="{colour}"{dash}{width}/>')
        y = _TOP + 8 + 13 * number
        x = _LEFT + plot_width + 10
        parts.append(f'<text x="{x}" y="{y}" fill="{colour}">{escape(curve.name)}</text>')
    return "".join([*parts, "</svg>"])
