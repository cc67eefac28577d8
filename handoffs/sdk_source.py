"""What a roster keeps of an agent that was made with the OpenAI Agents SDK, and the context that its code sees."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agents import Agent, Handoff, RunContextWrapper

from handoffs.context import TurnContext

MakeContext = Callable[[TurnContext], Any]
Say = Callable[[Any], str]
C = TypeVar("C", bound=RunContextWrapper[Any])


@dataclass(frozen=True, eq=False)
class SdkAgent:
    """One agent as it was given to `Roster.from_agents`, never changed.

    `handoffs` are its Handoff objects by target id; `make_context` makes what its code gets as `ctx.context`, once per
    run; `say` gives the customer's text for an output of its `output_type`; `history` is its own history function.
    """

    agent: Agent[Any]
    handoffs: Mapping[str, Handoff[Any, Any]] = field(default_factory=dict)
    make_context: MakeContext | None = None
    say: Say | None = None
    history: Callable[..., Any] | None = None

    def text_of(self, output: Any, said: str) -> str:
        """What the customer reads of a run that ended with `output`, where its messages `said` something.

        An output of `output_type` is told by `say`. A text that no message holds is a tool's (`stop_on_first_tool`,
        for example): it comes after the messages.
        """
        if self.say is not None and not isinstance(output, str):
            return self.say(output)
        text = "" if output is None else str(output).strip()
        return said if text in said else "\n\n".join(part for part in (said, text) if part)

    def seen(self, ctx: C) -> C:
        """`ctx` as the agent's own code expects it: with its own context object instead of ours."""
        if self.make_context is None or not isinstance(ctx.context, TurnContext):
            return ctx
        turn = ctx.context
        if turn.app is None:
            turn.app = self.make_context(turn)
        own = copy.copy(ctx)
        own.context = turn.app
        return own

    def own(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of the agent's author, whose first argument is a context, called with the context it expects."""
        if self.make_context is None:
            return function

        @functools.wraps(function)
        def call(ctx: RunContextWrapper[Any], *args: Any, **kwargs: Any) -> Any:
            return function(self.seen(ctx), *args, **kwargs)

        return call

    def knows(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of the author, called with (context, agent, ...): the context and the agent that they know."""

        def call(ctx: RunContextWrapper[Any], _: Agent[Any], *args: Any, **kwargs: Any) -> Any:
            return function(self.seen(ctx), self.agent, *args, **kwargs)

        return call
