"""The benchmark as a picture: seconds of each shape, the limit beside the program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

_BARS = {
    "limit_seconds": ("limit", "#9aa5b1"),
    "seconds": ("consumer", "#2f6fde"),
    "sample_seconds": ("sample", "#d9822b"),
}


def draw(results: Mapping[str, Any], out: Path) -> list[Path]:
    """Draw the paired shapes of `results` as `out`.png and `out`.svg; nothing where there is none."""
    shapes = {name: result for name, result in results.items() if isinstance(result, dict) and "ratio" in result}
    if not shapes:
        return []
    bars = [bar for bar in _BARS if any(bar in result for result in shapes.values())]
    figure = Figure(figsize=(9, 1.2 + 0.5 * len(shapes)))
    axes = figure.subplots()
    height = 0.8 / len(bars)
    for number, bar in enumerate(bars):
        label, colour = _BARS[bar]
        values = [result.get(bar, 0.0) for result in shapes.values()]
        places = [place + (number - (len(bars) - 1) / 2) * height for place in range(len(shapes))]
        drawn = axes.barh(places, values, height, label=label, color=colour)
        axes.bar_label(drawn, [f"{value:.2f} s" if value else "" for value in values], padding=3, fontsize=7)
    titles = [f"{name}: {result['title']}" for name, result in shapes.items()]
    axes.set_yticks(range(len(shapes)), titles, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds (less is better)")
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    paths = [out.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
