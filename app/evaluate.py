"""`frontdesk eval FOLDER`: play a data set through the real router with the offline model, and score who owned what."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.evaluation.dataset import DataSet, EvaluationProblem, load
from app.evaluation.play import Outcome, Player, player_for
from app.evaluation.report import Report
from app.evaluation.score import Ratio, Scored, confusion, dialogue_metrics, message_metrics, turns_of
from app.offline.encoder import SentenceEncoder
from app.offline.texts import find
from handoffs.encoder import Encoder
from handoffs.roster import Roster

__all__ = ["EvaluationProblem", "Report", "evaluate", "evaluate_async"]

EXAMPLES_PER_AGENT = 15  # what somebody writes in an afternoon

Progress = Callable[[int, int], None]  # conversations played, conversations in all


def evaluate(
    folder: Path,
    *,
    limit: int | None = None,
    seed: int = 0,
    examples_per_agent: int = EXAMPLES_PER_AGENT,
    progress: Progress | None = None,
) -> Report:
    """Play and score a data set; blocks for some 20 ms a message. `limit` draws that many conversations by `seed`.

    Nothing is kept: the store lives in a temporary folder. Raises EvaluationProblem for a folder it cannot use.
    """
    return asyncio.run(
        evaluate_async(folder, limit=limit, seed=seed, examples_per_agent=examples_per_agent, progress=progress)
    )


async def evaluate_async(
    folder: Path,
    *,
    limit: int | None = None,
    seed: int = 0,
    examples_per_agent: int = EXAMPLES_PER_AGENT,
    progress: Progress | None = None,
    encoder: Encoder | None = None,
) -> Report:
    """`evaluate` inside a running event loop."""
    if limit is not None and limit < 1:
        raise EvaluationProblem(f"limit must be at least 1, got {limit}")
    if not 0 <= examples_per_agent <= 1000:
        raise EvaluationProblem(f"examples_per_agent must be from 0 to 1000, got {examples_per_agent}")
    data = await asyncio.to_thread(load, folder, examples_per_agent=examples_per_agent, seed=seed, limit=limit)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="frontdesk-eval-", ignore_cleanup_errors=True) as place:
        async with player_for(data.roster, encoder or SentenceEncoder(), Path(place)) as player:
            played = await _play(data, player, progress)
    settings = {"model": "offline", "examples_per_agent": examples_per_agent, "seed": seed, "limit": limit}
    return report_of(data, played, settings, time.monotonic() - begun)


async def _play(data: DataSet, player: Player, progress: Progress | None) -> list[list[Outcome]]:
    played: list[list[Outcome]] = []
    for number, conversation in enumerate(data.conversations, 1):
        texts = [message.text for message in conversation.messages]
        played.append(await player.play(f"eval-{number}", texts))
        if progress:
            progress(number, len(data.conversations))
    return played


def report_of(data: DataSet, played: list[list[Outcome]], settings: dict[str, object], seconds: float) -> Report:
    """Score what was played."""
    dialogues = [turns_of(c, outcomes) for c, outcomes in zip(data.conversations, played, strict=True)]
    turns = [turn for dialogue in dialogues for turn in dialogue]
    return Report(
        data_set=data.name,
        kind=data.kind,
        settings=settings,
        note=data.note,
        agents=len(data.roster.agents) - 1,
        conversations=len(data.conversations),
        messages=sum(len(conversation.messages) for conversation in data.conversations),
        seconds=seconds,
        metrics=_metrics(data, dialogues, turns),
        confusion=confusion(turns),
    )


def _metrics(data: DataSet, dialogues: list[list[Scored]], turns: list[Scored]) -> dict[str, Ratio]:
    if data.kind == "dialogues":
        return dialogue_metrics(dialogues)
    asked = [find("ask", turn.answer) for turn in turns]
    offered = [bool(a) and _name(data.roster, turn) in (a or {}).values() for a, turn in zip(asked, turns, strict=True)]
    return message_metrics(turns, [a is not None for a in asked], offered)


def _name(roster: Roster, turn: Scored) -> str:
    return roster.display_name(turn.message.owner or "")
