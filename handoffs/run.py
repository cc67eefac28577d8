"""One agent's run: the SDK's Runner with this agent's own history in, and what it said, did and asked for out.

The history goes in as plain input and the new items come out of the result; the session is not handed to the Runner.
The Runner would read it, save it three times and inspect its methods on each call, which costs 10 to 15 % of a turn
(measured with bench/turns.py); what is remembered is the same, and one commit writes it.
"""

from __future__ import annotations

import asyncio
import copy
import functools
from dataclasses import dataclass
from typing import Any, cast

from agents import Agent, AgentsException, Model, RunConfig, Runner, RunResult
from agents.exceptions import MaxTurnsExceeded
from agents.items import RunItem, TResponseInputItem

from handoffs.approvals import Interruption, Resumed, State, interruption
from handoffs.context import TurnContext
from handoffs.errors import BudgetSpent, ModelFailed
from handoffs.host import closing
from handoffs.lone_transfer import RunOver, end_on_lone_transfer, plain
from handoffs.relay import Relay
from handoffs.roster import AgentSpec
from handoffs.shown_model import ShownModel
from handoffs.transfer import TransferRequest
from sessions.errors import StaleOwner
from sessions.isolated import IsolatedSession
from sessions.model import Item

UNDECIDED = "tool_approval_item"  # the SDK's note that a call waits; no model reads it


@dataclass(frozen=True, slots=True)
class Said:
    """What one run gave: text for the customer, a transfer, both, or a failure. `shown`: characters seen as a draft."""

    message_id: str
    text: str = ""
    request: TransferRequest | None = None
    refusals: tuple[dict[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    error: Exception | None = None
    shown: int = 0
    waits: Interruption | None = None
    made: int = 0  # items that the run has made so far


class AgentRun:
    """One run of one agent. `stop` may be called from anywhere: the model is cancelled and nothing more is shown."""

    def __init__(
        self, agent: Agent[TurnContext], spec: AgentSpec, context: TurnContext, relay: Relay, config: RunConfig
    ) -> None:
        self._agent = agent
        self._spec = spec
        self._context = context
        self._relay = relay
        settle = functools.partial(end_on_lone_transfer, context) if plain(agent) else None
        window = relay if may_be_shown(agent) else Unseen()
        self._model = ShownModel(model_of(agent, config), window, context.recorder, settle)
        self._config = copy.copy(config)  # dataclasses.replace would check every field again
        self._config.model = self._model
        self._running: asyncio.Task[Any] | None = None
        self._stopped = False

    def stop(self) -> None:
        """Cancel the model; `speak` returns soon, with whatever there was."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def speak(self, session: IsolatedSession, asked: list[Item], resumed: Resumed | None = None) -> Said:
        """Let the agent answer `asked`. Its new items go to the session's buffer. Errors come back in `Said.error`.

        A `resumed` run goes on where it stopped: it gives all of its items once more, and what it says now.
        """
        told = resumed.told if resumed else 0
        error: Exception | None = None
        waits: Interruption | None = None
        text = ""
        new: list[Item] = []
        try:
            result = await self._run(resumed.state if resumed else [*await session.get_items(), *asked])
            if result is not None:
                waits = interruption(result)
                new = as_items(result.new_items)
                text = self._text(result, new[told:])
        except RunOver as over:
            new = [*since(self._model.asked, asked[-1:]), *over.items]
        except StaleOwner:
            raise
        except Exception as failure:  # whatever a model, a tool or the SDK does, the customer gets a defined next owner
            error = self._named(failure)
            new = as_items(made_before(failure)) or since(self._model.asked, asked[-1:])
        finally:
            await self._relay.close()
        if error is None and waits is None and (self._context.spoken or self._context.postscript):
            text, more = closing(self._context, text or said_in(new[told:]))
            new = [*new, *more]
        await session.add_items([*asked, *new])
        text = text or said_in(new[told:]) or self._relay.text.strip()
        if error is None and self._context.request is None and waits is None and not text:
            error = ModelFailed(self._spec.id, "it said nothing")
        return Said(
            self._relay.message_id,
            text,
            self._context.request,
            tuple(self._context.refusals),
            called(new) if waits is None and resumed is None else made_calls(new, told, resumed),
            error,
            self._relay.sent,
            waits,
            len(new),
        )

    async def _run(self, items: list[Item] | State) -> RunResult | None:
        """The Runner's result; None when `stop` ended it. BudgetSpent when the time is over."""
        if self._stopped:
            return None
        task = self._running = cast("asyncio.Task[Any]", asyncio.current_task())
        try:
            async with asyncio.timeout(self._spec.limits.seconds) as limit:
                return await Runner.run(
                    self._agent,
                    cast("list[TResponseInputItem] | State", items),
                    context=self._context,
                    max_turns=self._spec.limits.model_calls,
                    run_config=self._config,
                )
        except TimeoutError:
            if not limit.expired():
                raise  # a tool's or a server's own
            raise BudgetSpent(self._spec.id, what="seconds", limit=self._spec.limits.seconds) from None
        except asyncio.CancelledError:
            if not self._stopped or task.cancelling() > 1:
                raise  # not by `stop`, or not by `stop` alone
            return None
        finally:
            self._running = None
            if self._stopped:
                task.uncancel()

    def _text(self, result: RunResult, new: list[Item]) -> str:
        """What the customer reads: the messages; of an SDK agent also an output that no message holds."""
        said = said_in(new)
        if self._spec.sdk is None or self._context.request is not None or result.interruptions:
            return said
        return str(self._spec.sdk.text_of(result.final_output, said))

    def _named(self, failure: Exception) -> Exception:
        if isinstance(failure, MaxTurnsExceeded):
            return BudgetSpent(self._spec.id, what="model_calls", limit=self._spec.limits.model_calls)
        return failure


class Unseen:
    """A window that shows nothing: the customer reads the whole answer, or none."""

    def write(self, piece: str) -> None:
        """Drop the piece."""


def may_be_shown(agent: Agent[Any]) -> bool:
    """Whether the pieces of an answer are what the customer reads in the end."""
    return agent.output_type in (None, str) and not agent.output_guardrails


def model_of(agent: Agent[Any], config: RunConfig) -> Model:
    """The model that the Runner would choose for `agent`."""
    return agent.model if isinstance(agent.model, Model) else config.model_provider.get_model(agent.model)


def as_items(made: list[RunItem]) -> list[Item]:
    """What a run made, as it is kept and shown to the model again."""
    return [cast("dict[str, Any]", item.to_input_item()) for item in made if item.type != UNDECIDED]


def made_before(failure: Exception) -> list[RunItem]:
    """What a failed run had made, as far as the SDK tells."""
    data = failure.run_data if isinstance(failure, AgentsException) else None
    return data.new_items if data is not None else []


def called(items: list[Item]) -> tuple[str, ...]:
    """The names of the tools that these items call."""
    return tuple(str(item.get("name", "?")) for item in items if str(item.get("type", "")).endswith("_call"))


def made_calls(items: list[Item], told: int, resumed: Resumed | None) -> tuple[str, ...]:
    """The same, of calls whose results stand behind the first `told` items: not those that wait or were refused."""
    results = {item["call_id"] for item in items[told:] if item.get("type") == "function_call_output"}
    results -= resumed.not_made if resumed else set()
    return called([item for item in items if item.get("call_id") in results])


def since(read: list[Item], last: list[Item]) -> list[Item]:
    """What stands behind the `last` question in what a model read: the calls, with their results, of a broken run."""
    for index in range(len(read), 0, -1):
        if [read[index - 1]] == last:
            return read[index:]
    return []


def said_in(made: list[Item]) -> str:
    """The text of all messages of a run."""
    contents = [item.get("content") for item in made if item.get("role") == "assistant"]
    parts = ("".join(str(part.get("text", "")) for part in parts) for parts in contents if isinstance(parts, list))
    return "\n\n".join(part.strip() for part in parts if part.strip())
