"""A picture of a report: how often each agent owned what was its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.evaluation.dataset import EvaluationProblem
from app.evaluation.report import Report

INK, BAR, GRID = "#1f2937", "#4f7cac", "#e5e7eb"


class PlotUnavailable(EvaluationProblem):
    """matplotlib is not installed; says how to get it."""


def plot(report: Report, path: Path) -> Path:
    """Write a PNG (or whatever the suffix says) and give its path. PlotUnavailable without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise PlotUnavailable("the plot needs matplotlib: pip install 'frontdesk[eval]'") from problem
    rows = sorted(report.per_agent().items(), key=lambda row: row[1].value or 0.0)
    figure = Figure(figsize=(8, 1.4 + 0.3 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    values = [ratio.value or 0.0 for _, ratio in rows]
    axes.barh([f"{owner} ({ratio.total})" for owner, ratio in rows], values, color=BAR, zorder=2)
    for place, value in enumerate(values):
        inside = value > 0.1  # where the dashed line of the mean cannot run through the digits
        axes.text(
            value - 0.01 if inside else value + 0.01, place, f"{value:.2f}", va="center", fontsize=8,
            ha="right" if inside else "left", color="white" if inside else INK, zorder=4,
        )  # fmt: skip
    _dress(axes, report)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return path


def _dress(axes: Any, report: Report) -> None:
    name, overall = next(iter(report.metrics.items()))
    if overall.value is not None:
        axes.axvline(overall.value, color=INK, linestyle="--", linewidth=1, zorder=1)
    settings = ", ".join(f"{key} {value}" for key, value in report.settings.items() if value is not None)
    axes.set_title(f"{report.data_set}: {name} {overall.value or 0:.3f}\n{settings}", fontsize=10, color=INK)
    axes.set_xlim(0, 1.06)
    axes.set_xlabel("owned by the right agent after the message (number of messages in brackets)", fontsize=8)
    axes.grid(axis="x", color=GRID, zorder=0)
    axes.tick_params(labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
