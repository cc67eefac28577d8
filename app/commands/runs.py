"""`frontdesk runs`: the runs of a desk, one of them call by call, and what a replay found, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from app.commands.conversations import moment
from app.commands.output import CommandFailed, ExitCode, safe

SHORT_CHARS = 100  # of an argument or a result; --json has all of it


def run_list(answer: Mapping[str, Any]) -> RenderableType:
    """Two lines per run: id and when; below, who, what it took, and what failed."""
    if not answer["runs"]:
        return Text("No runs yet. Each answer of an agent leaves one.")
    lines = [line for run in answer["runs"] for line in _two_lines(run)]
    if answer["next"]:
        lines.append(Text(f"More: --after {safe(str(answer['next']))}", style="dim"))
    return Group(*lines)


def _two_lines(run: Mapping[str, Any]) -> Iterator[Text]:
    yield Text.assemble(
        (safe(str(run["id"])), "bold"), (f"  {moment(str(run['began']))}  {run['seconds']:.1f} s", "dim")
    )
    line = Text.assemble("  ", _way(run), "  ", _outcome(str(run["outcome"])))
    line.append(f"  {_took(run)}", style="dim")
    if run["error"]:
        line.append(f"  {_short(str(run['error']))}", style="red")
    yield line


def _way(run: Mapping[str, Any]) -> str:
    """`ai:triage → ai:billing`, through everybody who had it."""
    owners = [run["owner"], *(moved["owner_to"] for moved in run["transfers"])]
    return safe(" → ".join(map(str, owners)))


def _outcome(outcome: str) -> Text:
    return Text(outcome, style="red" if outcome in ("failed", "broken") else "green")


def _took(run: Mapping[str, Any]) -> str:
    used = run["usage"]
    found = [f"{run['model_calls']} model calls", f"{run['tool_calls']} tool calls"]
    if used["input"] or used["output"]:
        found.append(f"{used['input']} tokens in, {used['output']} out")
    if run["refusals"]:
        found.append(f"{run['refusals']} refused")
    return ", ".join(found)


def run_page(run: Mapping[str, Any]) -> RenderableType:
    """One run: a paragraph for each owner that spoke."""
    parts: list[Text] = [*_two_lines(run)]
    if not run["whole"]:
        parts.append(Text("  something is missing or was cut", style="yellow"))
    for step in run["steps"]:
        parts += _step(step)
    return Group(*parts)


def _step(step: Mapping[str, Any]) -> Iterator[Text]:
    yield Text.assemble((safe(f"{step['owner']}"), "bold cyan"), (f"  {safe(step['model'])}", "dim"))
    for message in step["messages"]:
        yield _line("customer", str(message.get("text", "")))
    results = {tool["call_id"]: tool for tool in step["tools"]}
    for call in step["calls"]:
        used = call["usage"]
        path = "/".join(call["path"])
        took = f"{call['items']} items in, {call['ms']:.0f} ms, {used['input']} tokens in, {used['output']} out"
        yield _line(f"model {path}".strip(), f"{took}{'; ' + call['error'] if call['error'] else ''}")
        for item in call["output"]:
            tool = results.get(item.get("call_id")) if item.get("type") == "function_call" else None
            if tool is not None:
                yield _line("tool", f"{tool['name']}({_short(tool['arguments'])}) = {_short(_plain(tool['result']))}")
    if step["error"]:
        yield _line("error", f"{step['error'].get('type')}: {step['error'].get('text')}", "red")
    if step["transfer"]:
        moved = step["transfer"]
        reason = f" ({moved['reason']})" if moved.get("reason") else ""
        yield _line("transfer", f"to {moved['to']}{reason}, decided by {moved['decided_by']}", "magenta")
    if step["text"]:
        yield _line("said", step["text"])
    for place in step["cut"]:
        yield _line("cut", place, "yellow")


def _line(what: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"  {safe(what)}: ", "dim"), (safe(" ".join(text.split())), style))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line[:SHORT_CHARS] + ("…" if len(line) > SHORT_CHARS else "")


def asked_for(what: str | None, run_id: str | None) -> tuple[str, str | None]:
    """What `frontdesk runs ...` is to do (list, show or replay), and with which id.

    Raises CommandFailed for words that make no command.
    """
    if what in ("show", "replay"):
        if not (run_id or "").strip():
            raise CommandFailed(
                f"frontdesk runs {what} needs the id of a run; `frontdesk runs` lists them", ExitCode.USAGE
            )
        return what, run_id
    if run_id is not None:
        raise CommandFailed(
            f"frontdesk runs takes the id of a conversation, `show RUN` or `replay RUN`, not {what!r} {run_id!r}",
            ExitCode.USAGE,
        )
    if what is not None and not what.strip():
        raise CommandFailed("CONVERSATION is empty; leave it out for the runs of all", ExitCode.USAGE)
    return "list", what
