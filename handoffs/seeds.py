"""What the new owner is shown of the work before it (`history:` of its agent file), as one note for its history.

`messages` and its like cost nothing but time in this process; `full` reads the other agents' histories, `summary` may
ask a model, `function` runs the operator's own code. Whatever fails falls back to the last messages.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from handoffs import foreign_work, summary
from handoffs.errors import Problem
from handoffs.history import Line, lines_of, note, quote, visible
from handoffs.masking import Replace, masked_brief, masker
from handoffs.roster import AgentSpec, Roster
from handoffs.state import RouterState
from handoffs.team import Team
from handoffs.toolbox import TOOLS, load_module
from handoffs.transfer import Brief
from sessions.errors import StoreError
from sessions.model import Event, Item
from sessions.store import Store

log = logging.getLogger("frontdesk.seeds")

NOT_YET = 1 << 62  # the place in the log of a message that the coming commit will write: after all there is
FUNCTION_S = 5.0  # for an operator's own history function; the customer waits meanwhile
MAX_TEXTS = 200  # of a history function; what is more is left out, the oldest first
MAX_STORED = 8000  # bytes of a seed in the log; the whole of it is in the agent's history

HistoryFunction = Callable[[list[Line], Brief], Any]


@dataclass(frozen=True)
class Past:
    """What is known of a conversation at a change of owner.

    `newest_first` gives events of the log, new ones first, as far as the one at `back_to`; what is older is read.

    `fresh` are lines that are not in those events yet, oldest first; `pending` the places of the messages that the new
    owner gets as its input; `own` the items of agents whose history is at hand; `value` gives a shared value.
    """

    store: Store
    team: Team
    conversation_id: str
    newest_first: Callable[[], Iterable[Event]]
    back_to: int
    seen: Mapping[str, int]
    pending: Collection[int]
    value: Callable[[str], Any]
    fresh: Sequence[Line] = ()
    own: Mapping[str, Sequence[Item]] | None = None

    def lines(self) -> Iterator[Line]:
        """Every customer-visible message that is at hand, newest first."""
        yield from reversed(self.fresh)
        yield from lines_of(self.newest_first())


@dataclass(frozen=True)
class Handing:
    """What the old owner passes on with the conversation; `sender` empty hides who that is."""

    sender: str
    reason: str
    brief: Brief
    intro: str = ""


async def seed_for(past: Past, to: AgentSpec, handing: Handing, state: RouterState) -> tuple[Item, RouterState]:
    """The note for the new owner, and the router's state with a summary that may have grown."""
    masks = Masks.of(past, to)
    past, shown = await _with_shown(past, to)
    entries: list[str] | None = None
    so_far = ""
    if to.history.mode == "full":
        entries = await _full(past, to, shown, masks)
    elif to.history.mode == "function":
        entries = await _by_function(past, to, shown, handing.brief, masks)
    elif to.history.mode == "summary":
        state, so_far = await _summed_up(past, to, shown, state)
    item = note(
        sender=handing.sender,
        intro=handing.intro,
        reason=masks.foreign(handing.reason),
        brief=masked_brief(handing.brief, masks.foreign),
        lines=() if entries is not None else [masks.line(line) for line in shown],
        summary=so_far,
        retold=entries or (),
    )
    return item, state


async def _with_shown(past: Past, to: AgentSpec) -> tuple[Past, list[Line]]:
    """The lines that the agent's mode shows, and the past with them: the log is read when those at hand are too few."""
    known = past.seen.get(to.id, 0)
    shown = visible(past.lines(), to.history, seen=known, pending=past.pending)
    if to.history.mode == "none" or len(shown) >= to.history.last or past.back_to <= known + 1:
        return past, shown
    try:
        events = await past.store.newest(past.conversation_id)
    except StoreError as error:
        log.warning("%s: the older messages could not be read: %s", past.conversation_id, error)
        return past, shown
    newest = events[0].seq if events else 0
    fresh = [line for line in past.fresh if line.seq > newest]  # the others are in what was read
    further = replace(past, newest_first=lambda: events, back_to=events[-1].seq if events else 0, fresh=fresh)
    return further, visible(further.lines(), to.history, seen=known, pending=further.pending)


def stored(seed: Item, readable: Iterable[str]) -> dict[str, Any]:
    """The seed and the names of the values that were shown with it, for `handoff.completed`: at most 8 KB."""
    text = str(seed["content"])
    if len(text) * 4 > MAX_STORED:  # a character has at most four bytes
        data = text.encode()
        text = text if len(data) <= MAX_STORED else data[:MAX_STORED].decode(errors="ignore") + " [...]"
    return {"seed": [text], "values": list(readable)}


@dataclass(frozen=True)
class Masks:
    """How sensitive values are masked for one agent: everywhere, but not in the customer's words if it may read them"""

    foreign: Replace
    customers: Replace

    @classmethod
    def of(cls, past: Past, to: AgentSpec) -> Masks:
        roster = past.team.roster
        readable = {*to.values.read, *to.values.write}
        return cls(masker(roster, past.value), masker(roster, past.value, readable=readable))

    def line(self, line: Line) -> Line:
        text = (self.customers if line.by == "customer" else self.foreign)(line.text)
        return line if text is line.text else replace(line, text=text)


# -- full ------------------------------------------------------------------------------------------------------------


async def _full(past: Past, to: AgentSpec, shown: Sequence[Line], masks: Masks) -> list[str] | None:
    wanted = {line.seq for line in shown}
    lines = [line for line in past.lines() if line.seq in wanted or line.seq in past.pending][::-1]
    try:
        work = await _work(past, to.id)
    except StoreError as error:
        log.warning("%s: the work before %s could not be read: %s", past.conversation_id, to.id, error)
        return None
    return foreign_work.tell(lines, work, silent=past.pending, show=masks.line, mask=masks.foreign)


async def _work(past: Past, to_id: str) -> dict[str, Sequence[Item]]:
    """The histories of the other agents, in the order in which they had the conversation."""
    at_hand = past.own or {}
    others = [agent for agent in sorted(past.seen, key=lambda id_: past.seen[id_]) if agent not in (to_id, *at_hand)]
    found = await asyncio.gather(*(past.store.history(past.conversation_id, agent) for agent in others))
    return {**dict(zip(others, found, strict=True)), **{agent: at_hand[agent] for agent in at_hand if agent != to_id}}


# -- summary ---------------------------------------------------------------------------------------------------------


async def _summed_up(past: Past, to: AgentSpec, shown: Sequence[Line], state: RouterState) -> tuple[RouterState, str]:
    """The summary of what is older than the shown lines; empty when the agent knows it, or no model could say it."""
    first = shown[0].seq if shown else NOT_YET
    known = past.seen.get(to.id, 0)
    lines = await _lines_since(past, min(known, state.summary_seq))
    older = [line for line in lines if line.seq < first and line.seq not in past.pending]
    if not any(line.seq > known for line in older):
        return state, ""
    for_all = masker(past.team.roster, past.value)  # other agents will read this summary too
    masked = [replace(line, text=for_all(line.text)) for line in older]
    grown = await summary.updated(past.team, to, state, masked)
    if grown is None:
        return state, ""
    return grown, for_all(grown.summary)


async def _lines_since(past: Past, seq: int) -> list[Line]:
    """Every line after `seq`, oldest first; the log is read when the events at hand do not go back so far."""
    events = list(takewhile(lambda event: event.seq > seq, past.newest_first()))
    if past.back_to > seq + 1:
        try:
            events = (await past.store.read(past.conversation_id, seq))[::-1]
        except StoreError as error:
            log.warning("%s: the older messages could not be read: %s", past.conversation_id, error)
    old = list(lines_of(reversed(events)))
    return [*old, *(line for line in past.fresh if not old or line.seq > old[-1].seq)]


# -- an operator's own function --------------------------------------------------------------------------------------


async def _by_function(
    past: Past, to: AgentSpec, shown: Sequence[Line], brief: Brief, masks: Masks
) -> list[str] | None:
    try:
        function = history_function(past.team.roster, to)
        lines = [masks.line(line) for line in shown]
        async with asyncio.timeout(FUNCTION_S):
            texts = await _called(function, lines, masked_brief(brief, masks.foreign))
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError("it must give a list of texts")
    except Exception as error:  # an operator's mistake must not cost the customer the transfer
        log.warning("%s: the history function of %s failed: %r", past.conversation_id, to.id, error)
        return None
    return [quote(masks.foreign(text)) for text in texts][-MAX_TEXTS:]


async def _called(function: HistoryFunction, lines: list[Line], brief: Brief) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(lines, brief)
    return await asyncio.to_thread(function, lines, brief)  # it may compute, or read a file


def history_function(roster: Roster, agent: AgentSpec) -> HistoryFunction:
    """The function that `history.function` names; LookupError when there is none, or what its file raises."""
    if agent.sdk is not None and agent.sdk.history is not None:
        return agent.sdk.history  # type: ignore[no-any-return]  # an author's function: its result is checked
    name = agent.history.function or ""
    for module in ("history", "tools"):
        if (agent.folder / f"{module}.py").is_file():
            found = getattr(load_module(roster, f"{agent.id}.{module}"), name, None)
            if callable(found):
                return found  # type: ignore[no-any-return]  # an operator's function: its result is checked
    raise LookupError(f"there is no function `{name}` in {agent.id}/history.py or {agent.id}/{TOOLS}")


def function_problem(roster: Roster, agent: AgentSpec) -> Problem | None:
    """What is wrong with an agent's history function, for `frontdesk check`."""
    if agent.history.mode != "function":
        return None
    line = agent.lines.get("history.function") or agent.lines.get("history", 0)
    if agent.history.function is None:
        return Problem(agent.file, line, "history.function", "`mode: function` needs the name of a function")
    try:
        history_function(roster, agent)
    except LookupError as error:
        return Problem(agent.file, line, "history.function", str(error.args[0]))
    except (Exception, SystemExit) as error:
        message = f"the function cannot be loaded: {type(error).__name__}: {error}"
        return Problem(agent.file, line, "history.function", message)
    return None
