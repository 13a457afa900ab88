"""A soak as a picture: each measure over time, with the moments of trouble, and the medians that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tests.soak.rule import LAST, MIDDLE, Verdict, thirds
from tests.soak.watch import Sample

_COLUMNS = 3
_LINE, _FLAT, _GROWN, _TROUBLE = "#2f6fde", "#2f9e44", "#d9480f", "#e0a0a0"


def draw(
    samples: Sequence[Sample], verdicts: Sequence[Verdict], troubles: Sequence[tuple[float, str]], out: Path
) -> list[Path]:
    """Draw them as `out`.png and `out`.svg."""
    names = list(dict.fromkeys(name for sample in samples for name in sample.values))
    judged = {verdict.measure: verdict for verdict in verdicts}
    rows = -(-len(names) // _COLUMNS)
    figure = Figure(figsize=(4.2 * _COLUMNS, 1.9 * rows))
    places: list[Axes] = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for axes, name in zip(places, names, strict=False):
        _measure(axes, name, samples, judged.get(name))
        for seconds, _ in troubles:
            axes.axvline(seconds / 60, color=_TROUBLE, linewidth=0.5, zorder=0)
    for axes in places[len(names) :]:
        axes.set_visible(False)
    for axes in places[max(0, len(names) - _COLUMNS) : len(names)]:
        axes.set_xlabel("minutes", fontsize=8)
    figure.tight_layout()
    paths = [out.with_suffix(suffix) for suffix in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, dpi=110)
    return paths


def _measure(axes: Axes, name: str, samples: Sequence[Sample], verdict: Verdict | None) -> None:
    for life in dict.fromkeys(sample.life for sample in samples):
        own = [sample for sample in samples if sample.life == life and name in sample.values]
        axes.plot([s.seconds / 60 for s in own], [s.values[name] for s in own], color=_LINE, linewidth=0.8)
    if verdict is not None:
        parts = thirds(samples)
        for part, height in ((parts[MIDDLE], verdict.middle), (parts[LAST], verdict.last)):
            if height is not None and part:
                ends = part[0].seconds / 60, part[-1].seconds / 60
                axes.plot(ends, (height, height), color=_FLAT if verdict.flat else _GROWN, linewidth=2)
    axes.set_title(name, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
