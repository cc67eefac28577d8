"""`frontdesk eval FOLDER`: routing quality on a data set, with a progress bar, a table, JSON and a picture."""

from __future__ import annotations

import logging
from pathlib import Path

from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from app.commands.output import CommandFailed, ExitCode, err
from app.evaluate import EvaluationProblem, Report, evaluate
from app.evaluation.plot import plot

PICTURES = (".png", ".svg", ".pdf")


def run_evaluation(folder: Path, *, limit: int | None, seed: int, examples: int, picture: Path | None) -> Report:
    """Play the data set; CommandFailed (USAGE) for a folder that holds none. `picture` is written when given."""
    if picture is not None and picture.suffix not in PICTURES:
        raise CommandFailed(f"--plot needs a name that ends in {', '.join(PICTURES)}; got {picture}", ExitCode.USAGE)
    ours = logging.getLogger("frontdesk")
    before = ours.level
    ours.setLevel(logging.ERROR)  # a thousand expected handoffs are no news
    columns = (TextColumn("conversations"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
            task = progress.add_task("play", total=None)
            report = evaluate(
                folder,
                limit=limit,
                seed=seed,
                examples_per_agent=examples,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
            )
        if picture is not None:
            plot(report, picture)
    except EvaluationProblem as problem:
        raise CommandFailed(str(problem), ExitCode.USAGE) from None
    except OSError as error:
        raise CommandFailed(f"cannot write {picture}: {error.strerror or error}", ExitCode.USAGE) from None
    finally:
        ours.setLevel(before)
    return report


def report_page(report: Report) -> RenderableType:
    """The numbers for people, each with the counts behind it."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in report.summary():
        table.add_row(name, value)
    head = (
        f"{report.data_set}: {report.conversations} conversations, {report.messages} messages, {report.agents} agents"
    )
    return Group(Text(head, style="bold"), table, Text(f"{report.note}  [{report.seconds:.0f} s]".strip(), style="dim"))
