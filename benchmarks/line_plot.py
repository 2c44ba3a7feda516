"""Small line plots beside and above each other, as SVG, without a plotting library."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

WIDTH, HEIGHT, MARGIN = 300, 190, 46


class Panel(NamedTuple):
    """One line; values of x stand equally far apart, y begins at 0."""

    title: str
    x_label: str
    xs: Sequence[float]
    ys: Sequence[float]


def draw(panels: Iterable[Panel], columns: int) -> str:
    panels = list(panels)
    rows = -(-len(panels) // columns)
    size = f'width="{columns * WIDTH}" height="{rows * HEIGHT}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="10">']
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        parts += [f'<g transform="translate({column * WIDTH},{row * HEIGHT})">', *_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> Iterator[str]:
    left, right, top, bottom = MARGIN, WIDTH - 16, 28, HEIGHT - 38
    highest = max(panel.ys) or 1
    step = (right - left) / max(1, len(panel.xs) - 1)
    points = [(left + place * step, bottom - (bottom - top) * y / highest) for place, y in enumerate(panel.ys)]
    yield _text(WIDTH / 2, 16, panel.title, "middle")
    yield _text(WIDTH / 2, HEIGHT - 8, panel.x_label, "middle")
    for share in (0, 0.5, 1):
        y = bottom - (bottom - top) * share
        yield f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield _text(left - 5, y + 3, f"{highest * share:,.3g}" if highest < 1000 else f"{highest * share:,.0f}", "end")
    for (x, y), value in zip(points, panel.xs, strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="#1f5fa8"/>'
        yield _text(x, bottom + 14, f"{value:g}", "middle")
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="1.5"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'
