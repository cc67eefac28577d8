"""A specialist's own work on what the customer asked: pick a tool, fill its slots, or look in the knowledge."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.offline.answers import Quote, best_quote, passages_of
from app.offline.situation import Situation
from app.offline.slots import Slot, bare, find
from app.offline.steps import Call
from app.offline.texts import LANGUAGES, asks_about, is_personal, phrase, wishes_for
from app.offline.toolset import SEARCH, OwnTool
from handoffs.ask import answer_in
from handoffs.encoder import Encoder

TOOL_FLOOR = 0.36  # cosine of a request to a tool's name or description; below it a tool is never called
TOOL_SURE = 0.50  # from here a tool goes before the knowledge
LOOK_FIRST = 0.20  # a tool that looks something up may be this much less near than one that changes something
SLOT_BONUS = 0.10  # the request itself carries a value that only this kind of tool asks for


@dataclass(frozen=True)
class Done:
    """A tool answered."""

    text: str


@dataclass(frozen=True)
class Quoted:
    """The knowledge answers."""

    quote: Quote


@dataclass(frozen=True)
class Missing:
    """A tool could be called if the customer gave this slot."""

    slot: Slot


@dataclass(frozen=True)
class Unknown:
    """Neither a tool nor the knowledge has an answer."""


Outcome = Done | Quoted | Missing | Unknown


@dataclass(frozen=True)
class Fit:
    """A tool and how well it fits a request."""

    tool: OwnTool
    score: float


def next_outcome(at: Situation, request: str, encoder: Encoder) -> Outcome | Call:
    """What is known about one request by now, or the call that would tell. Pure but for the encoder."""
    fit = best_tool(at, request, encoder)
    general = fit is None or _policy_question(fit.tool, request)
    sure = fit is not None and (fit.score >= TOOL_SURE or _carries(fit.tool, request))
    if fit and not general and (sure or not at.tools.can_search):
        return _use(at, fit.tool, request)
    if not at.tools.can_search:
        return _use(at, fit.tool, request) if fit and fit.score >= TOOL_SURE else Unknown()
    searched = [call for call in at.talk.called(SEARCH) if call.arguments.get("query") == request]
    if not searched:
        return Call(SEARCH, {"query": request})
    quote = best_quote(request, passages_of(searched[-1].output or ""), at.language, encoder)
    if quote and (fit is None or general or quote.similarity >= fit.score):
        return Quoted(quote)
    return _use(at, fit.tool, request) if fit and (fit.score >= TOOL_SURE or not general) else Unknown()


def best_tool(at: Situation, request: str, encoder: Encoder) -> Fit | None:
    """The own tool that is nearest to the request, if one is near enough.

    One that changes something needs a wish in so many words, and comes after one that looks: when the agent can check
    first and has not done so in an earlier turn, it checks, and the customer decides on the result.
    """
    fits = [_fit(tool, request, encoder) for tool in at.tools.own if tool.only_reads or _wishes(tool, request)]
    near = sorted((fit for fit in fits if fit.score >= TOOL_FLOOR), key=lambda fit: -fit.score)
    best = near[0] if near else None
    if best is None:
        return None
    if best.tool.only_reads:  # looked up already, and now the customer names what only the other tool does
        acts = [fit for fit in near if not fit.tool.only_reads and _names(fit.tool, best.tool, request)]
        return acts[0] if acts and _was_done(at, best.tool, request) and not asks_about(request) else best
    checks = [fit for fit in near if fit.tool.only_reads and not _was_done(at, fit.tool, request)]
    return next((fit for fit in checks if fit.score >= best.score - LOOK_FIRST), best)


def _was_done(at: Situation, tool: OwnTool, request: str) -> bool:
    """Whether the tool was called in an earlier turn with the values that the request is about now."""
    values, _ = fill(at, tool, request)
    told = {slot.name for slot in tool.slots if not slot.is_free_text}
    calls = [call.arguments for call in at.talk.done if call.name == tool.name]
    return any(all(call.get(name) == values.get(name) for name in told) for call in calls)


def _names(tool: OwnTool, other: OwnTool, request: str) -> bool:
    """Whether a request has a word of the tool's name that the other tool's name has not ("refund")."""
    return bool((set(tool.name.split("_")) - set(other.name.split("_"))) & set(re.findall(r"[a-z]+", request.lower())))


def _wishes(tool: OwnTool, request: str) -> bool:
    """Whether a request asks for something to be done: please, I want ..., or the tool's own verb."""
    return wishes_for(request) or tool.name.split("_")[0] in request.lower().split()


def _fit(tool: OwnTool, request: str, encoder: Encoder) -> Fit:
    rows = encoder.encode([request, *tool.texts()])
    score = float((rows[1:] @ rows[0]).max())
    return Fit(tool, score + (SLOT_BONUS if _carries(tool, request) else 0.0))


def _carries(tool: OwnTool, request: str) -> bool:
    return any(slot.pattern and find(slot, [request]) is not None for slot in tool.slots)


def _policy_question(tool: OwnTool, request: str) -> bool:
    """Whether a request asks how things are in general, so that doing something would be the wrong answer."""
    if _carries(tool, request):
        return False
    return asks_about(request) and not (tool.only_reads and is_personal(request))


def _use(at: Situation, tool: OwnTool, request: str) -> Outcome | Call:
    """The tool's result when it was called in this turn, the call when everything is there, else what is missing."""
    arguments, missing = fill(at, tool, request)
    if missing:
        return Missing(missing)
    for call in at.talk.called(tool.name):
        if dict(call.arguments) == arguments:
            return answered(call.output or "") if tool.asks else Done(told(at.language, (call.output or "").strip()))
    return Call(tool.name, arguments)


def told(language: str, output: str) -> str:
    """A tool's result as the customer may read it: of a call that was not approved, without the note of who decided."""
    try:
        found = json.loads(output)
    except ValueError:
        return output
    if isinstance(found, dict) and found.get("done") is False and "approval" in found:
        return phrase(language, "not_decided" if found["approval"] == "expired" else "not_approved")
    return output


def ask(at: Situation, tool: OwnTool, request: str) -> Outcome | Call:
    """What the colleague said about a request, or the call that asks."""
    return _use(at, tool, request)


def answered(output: str) -> Outcome:
    """A colleague's words out of the note that carries them; nothing is known when there is no note: it failed."""
    text = answer_in(output)
    if text is None:
        return Unknown()
    try:
        parts = json.loads(text)
    except ValueError:
        return Done(text)
    return Done("\n".join(f"{key}: {value}" for key, value in parts.items()) if isinstance(parts, dict) else text)


def fill(at: Situation, tool: OwnTool, request: str) -> tuple[dict[str, Any], Slot | None]:
    """Arguments from the conversation, newest first, and the first required slot that nobody has given."""
    new, earlier = tuple(reversed(at.talk.messages)), at.talk.earlier_messages
    now = (request, *new) if request in at.talk.text else (*new, request)  # a new number goes before an old request's
    repeated = request not in at.talk.text and any(request in text for text in earlier)
    everything = (*(new if repeated else now), *earlier, *_told(at), *_results(at))
    arguments: dict[str, Any] = {}
    for slot in tool.slots:
        value = _value(at, slot, request, everything if slot.required else now)
        if value is None and slot.required:
            return arguments, slot
        if value is not None:
            arguments[slot.name] = value
    if tool.asks and "request" in arguments:  # a colleague sees nothing else: a number may stand in another sentence
        arguments["request"] = at.talk.text if request in at.talk.text else f"{request}\n{at.talk.text}"
    return arguments, None


def _value(at: Situation, slot: Slot, request: str, texts: Sequence[str]) -> Any:
    if slot.is_free_text:
        return request if request in at.talk.text else next(iter(at.talk.earlier_messages), request)
    if slot.type == "boolean":
        return False if slot.required else None
    found = find(slot, texts)
    return found if found is not None else _answered(at, slot)


def _answered(at: Situation, slot: Slot) -> str | None:
    """The customer's reply to our own question for this slot: its digits, or any words when there is no pattern."""
    asked = [phrase(code, "slot", what=wanted(slot, code)) for code in LANGUAGES]
    past = [(e.speaker, e.text) for e in at.talk.past if e.speaker != "tool"]
    said = [*past, *(("customer", text) for text in at.talk.messages)]
    for (speaker, question), (answerer, answer) in reversed(list(pairwise(said))):
        if speaker == "agent" and answerer == "customer" and any(text in question for text in asked):
            plain = slot.type == "string" and not (slot.pattern or slot.options or slot.format)
            return answer.strip() if plain else bare(slot, answer)
    return None


def _told(at: Situation) -> list[str]:
    return [text for note in reversed(at.talk.notes) for text in (*note.facts, note.goal)]


def _results(at: Situation) -> list[str]:
    """What tools said, newest first: a number that only the desk knows (an invoice) may be in there."""
    own = {tool.name for tool in at.tools.own}
    calls: Sequence[Any] = (*at.talk.done, *at.talk.calls)
    return [call.output for call in reversed(calls) if call.name in own and call.output]


def wanted(slot: Slot, language: str) -> str:
    """How to ask for a slot: its description; of "Order number | 订单号" the side in the customer's script."""
    sides = [side.strip() for side in slot.description.split("|")]
    chinese = [side for side in sides if any("\u3400" <= c <= "\u9fff" for c in side)]
    other = [side for side in sides if side not in chinese]
    return next(iter(chinese if language == "zh" else other), sides[0])
