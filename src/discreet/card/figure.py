"""The figure of a card: what the best attacker catches, against guessing, as one inline SVG."""

from __future__ import annotations

import math
from html import escape

from discreet.card.facts import Card
from discreet.card.risk import percent

__all__ = ["figure"]

_LEFT, _TOP, _SIZE_X, _SIZE_Y = 62.0, 16.0, 322.0, 262.0
_DECADES = 4  # both axes from 10⁻⁴ to 1


def _x(rate: float) -> float:
    return _LEFT + _SIZE_X * (1 + math.log10(max(rate, 10.0**-_DECADES)) / _DECADES)


def _y(rate: float) -> float:
    return _TOP - _SIZE_Y * math.log10(max(rate, 10.0**-_DECADES)) / _DECADES


def figure(card: Card) -> str:
    """The curve as an SVG element, with a title and a description for those who cannot see it."""
    path = " ".join(f"{_x(rate):.1f},{_y(caught):.1f}" for rate, caught in card.curve)
    corner = f"{_x(1):.1f},{_y(1):.1f} {_x(1e-4):.1f},{_y(1e-4):.1f}"
    described = " ".join(item.words for item in card.risks)
    lines = [
        '<svg class="curve" role="img" aria-labelledby="curve-title curve-desc" '
        'viewBox="0 0 400 330">',
        '<title id="curve-title">What the best attacker can catch</title>',
        '<desc id="curve-desc">Horizontal: share wrongly accused, 0.01 % to 100 %. Vertical: '
        f"share rightly caught, at most. Both axes grow by factors of ten. A dashed diagonal shows "
        f"guessing; the solid line above it is the promised bound. {escape(described)}</desc>",
        *_grid(),
        f'<polygon class="gain" points="{path} {corner}"/>',
        f'<polyline class="guess" points="{corner}"/>',
        f'<polyline class="bound" points="{path}"/>',
        *_marks(card),
        *_labels(),
        "</svg>",
    ]
    return "\n".join(lines)


def _grid() -> list[str]:
    right, bottom = _LEFT + _SIZE_X, _TOP + _SIZE_Y
    lines = []
    for k in range(_DECADES + 1):
        rate = 10.0 ** (k - _DECADES)
        x, y, words = _x(rate), _y(rate), f"{100 * rate:g} %"
        anchor = "end" if k == _DECADES else "middle"
        lines += [
            f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>',
            f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>',
            f'<text x="{min(x, right + 8):.1f}" y="{bottom + 18}" text-anchor="{anchor}">'
            f"{words}</text>",
            f'<text x="{_LEFT - 6}" y="{y + 4.5:.1f}" text-anchor="end">{words}</text>',
        ]
    return lines


def _marks(card: Card) -> list[str]:
    lines = []
    for item in card.risks:
        x, y = _x(item.false_positive_rate), _y(item.true_positive_rate)
        place = (x - 8, y - 10, "end")
        if y < _TOP + 24:  # no room above the curve: right below it
            place = (x + 2, y + 22, "start")
        lines += [
            f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="5"/>',
            f'<text class="value" x="{place[0]:.1f}" y="{place[1]:.1f}" text-anchor="{place[2]}">'
            f"{percent(item.true_positive_rate)}</text>",
        ]
    return lines


def _labels() -> list[str]:
    middle = _LEFT + _SIZE_X / 2
    return [
        f'<text class="axis" x="{middle}" y="{_TOP + _SIZE_Y + 40}" text-anchor="middle">'
        "wrongly accused</text>",
        f'<text class="axis" transform="translate(13 {_TOP + _SIZE_Y / 2}) rotate(-90)" '
        'text-anchor="middle">caught, at most</text>',
        f'<text class="guess-name" x="{_x(0.02):.1f}" y="{_y(0.006):.1f}">guessing</text>',
    ]
