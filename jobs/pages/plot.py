"""Plots as SVG: stacked columns over equal bins, and stacked bars beside labels. Colours are in the style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 24, 12, 40
_BAR, _ROW, _LABEL, _VALUE = 14, 22, 150, 90
#: Labels below the columns, at most.
_TICKS = 6
#: What an axis ends at, times a power of ten: a quarter of it is as round.
_ENDS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each bin or label. `colour` is the number of a class in the style sheet."""

    name: str
    values: Sequence[float]
    colour: int = 0


def columns(title: str, edges: Sequence[str], series: Sequence[Series], x_label: str, y_label: str) -> Markup:
    """`edges` name the borders of the bins, one more than there are values."""
    svg = _svg(title, _HEIGHT)
    bottom, high = _HEIGHT - _BOTTOM, _HEIGHT - _BOTTOM - _TOP
    bins = len(edges) - 1
    step = (_WIDTH - _LEFT - _RIGHT) / bins
    highest = ceiling(max(map(sum, zip(*(each.values for each in series), strict=True))))
    for place in range(5):
        y = bottom - high * place / 4
        SubElement(svg, "line", _numbers(x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y) | {"class": "grid"})
        _text(svg, _LEFT - 6, y + 4, number(highest * place / 4), "end")
    every = math.ceil(bins / _TICKS)
    for place in range(0, bins + 1, every):
        _text(svg, _LEFT + step * place, bottom + 16, edges[place], "middle")
    _text(svg, (_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, x_label, "middle")
    turned = _text(svg, 0, 0, y_label, "middle")
    turned.set("transform", f"translate(11 {_TOP + high / 2:.1f}) rotate(-90)")
    for place in range(bins):
        y = float(bottom)
        for each in series:
            size = high * each.values[place] / highest
            if size > 0:
                y -= size
                hint = f"{edges[place]} to {edges[place + 1]}: {number(each.values[place])} {each.name}"
                _box(svg, _LEFT + step * place + 0.5, y, max(step - 1, 0.5), size, each.colour, hint)
    return _markup(svg)


def bars(title: str, labels: Sequence[str], series: Sequence[Series], told: Sequence[str]) -> Markup:
    """A bar for each label, with what is `told` of it behind its end."""
    svg = _svg(title, _ROW * len(labels) + 4)
    wide = _WIDTH - _LABEL - _VALUE
    longest = max(map(sum, zip(*(each.values for each in series), strict=True))) or 1.0
    for row, (label, value) in enumerate(zip(labels, told, strict=True)):
        x, y = float(_LABEL), _ROW * row + 4
        _text(svg, _LABEL - 8, y + 11, label, "end")
        for each in series:
            size = wide * each.values[row] / longest
            if size > 0:
                _box(
                    svg,
                    x,
                    y,
                    max(size - 0.5, 0.5),
                    _BAR,
                    each.colour,
                    f"{label}: {number(each.values[row])} {each.name}",
                )
                x += size
        _text(svg, x + 6, y + 11, value, "start")
    return _markup(svg)


def ceiling(value: float, steps: Sequence[float] = _ENDS) -> float:
    """The next round number that is not below: one of the steps, up to 10, times a power of ten; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))


def number(value: float) -> str:
    """`0`, `0.025`, `12.5`, `1,200`."""
    if value == 0:
        return "0"
    if value >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _svg(title: str, height: int) -> Element:
    svg = Element("svg", {"viewBox": f"0 0 {_WIDTH} {height}", "role": "img", "aria-label": title})
    SubElement(svg, "title").text = title
    return svg


def _box(svg: Element, x: float, y: float, width: float, height: float, colour: int, hint: str) -> None:
    box = SubElement(svg, "rect", _numbers(x=x, y=y, width=width, height=height) | {"class": f"colour{colour}"})
    SubElement(box, "title").text = hint


def _text(svg: Element, x: float, y: float, words: str, anchor: str) -> Element:
    text = SubElement(svg, "text", _numbers(x=x, y=y) | {"text-anchor": anchor})
    text.text = words
    return text


def _numbers(**values: float) -> dict[str, str]:
    return {name: f"{value:.1f}" for name, value in values.items()}


def _markup(svg: Element) -> Markup:
    # Escaped by its writer, whatever its texts hold.
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704
