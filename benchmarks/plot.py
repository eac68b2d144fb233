"""All promises as one picture: how far each is on the right side of its bound, on a logarithmic scale."""

from __future__ import annotations

from html import escape
from math import log10
from typing import Any

_ROW, _LEFT, _WIDTH = 26, 300, 420
#: The picture reaches from a tenth of what is promised to ten times as much.
_DECADES = 1.0


def svg(promises: dict[str, dict[str, Any]], at_least: dict[str, bool]) -> str:
    """The picture, as text.

    Args:
        promises: As in the JSON output.
        at_least: Of each promise whether its bound is from below.
    """
    measured = {name: told for name, told in promises.items() if told["ratio"]}
    height = _ROW * (len(measured) + 2)
    middle = _LEFT + _WIDTH / 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        "<title>How far each promise about speed is kept</title>",
        f'<rect width="100%" height="{height}" fill="white"/>',
        f'<text x="{middle}" y="18" text-anchor="middle" fill="#333">better than promised &#8594;</text>',
        f'<line x1="{middle}" y1="24" x2="{middle}" y2="{height - 8}" stroke="#333"/>',
    ]
    for place, (name, told) in enumerate(measured.items(), 1):
        better = told["ratio"] / told["must"] if at_least[name] else told["must"] / told["ratio"]
        reach = max(-_DECADES, min(_DECADES, log10(better))) / _DECADES * _WIDTH / 2
        top = place * _ROW + 6
        colour = "#2a7" if told["holds"] else "#c43"
        bound = f"{'≥' if at_least[name] else '≤'} {told['must']:.3g}"
        lines += [
            f'<text x="{_LEFT - 8}" y="{top + 14}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{middle + min(0.0, reach):.1f}" y="{top}" width="{abs(reach):.1f}" height="18" '
            f'fill="{colour}"/>',
            f'<text x="{middle + (6 if reach < 0 else -6)}" y="{top + 14}" fill="#333" '
            f'text-anchor="{"start" if reach < 0 else "end"}">{told["ratio"]:.3g} ({bound})</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"
