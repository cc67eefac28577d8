"""The roster: the validated set of agents and routes in force. Plain frozen models; nothing is read or imported here.

`AgentSettings` and `DeskSpec` are what an operator may write; `AgentSpec` and `Roster` add what the loader knows.
Field names are those of the agent files (docs/reference/agent-files.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from handoffs.conditions import Condition, parse
from handoffs.hours import Hours

if TYPE_CHECKING:
    from agents import Agent

ID = re.compile(r"[a-z][a-z0-9_]{0,40}")
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
RESERVED_IDS = frozenset({"ai", "human", "queue", "nobody", "customer", "system", "default"})
HUMAN = "human:"  # a target `human:support` is the queue `support` of desk.yaml
ANNOUNCE = {"en": "You're now talking to {name}.", "zh": "现在由{name}为您服务。"}  # when desk.yaml has no announce


def _text(value: Any) -> Any:
    """Accept a text, or a map of language -> text; say so in words an operator understands."""
    if isinstance(value, str):
        if not value.strip():
            raise PydanticCustomError("empty_text", "expected a text, got an empty one")
        return value
    if not isinstance(value, Mapping) or not value:
        raise PydanticCustomError("text", "expected a text, or one text per language such as {en: Billing, zh: 账单}")
    for language, text in value.items():
        if not isinstance(language, str) or not LANGUAGE.fullmatch(language):
            raise PydanticCustomError(
                "language", "{got} is not a language code such as en, zh or pt-BR", {"got": repr(language)}
            )
        if not isinstance(text, str) or not text.strip():
            raise PydanticCustomError(
                "text", "expected a text for {language}, got {got}", {"language": language, "got": repr(text)}
            )
    return dict(value)


def _id(value: Any) -> Any:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise PydanticCustomError(
            "id", "expected an id of small letters, digits and _ that starts with a letter, such as order_help"
        )
    return value


def _target(value: Any) -> Any:
    if not isinstance(value, str) or not ID.fullmatch(value.removeprefix(HUMAN)):
        raise PydanticCustomError("target", "expected an agent id such as billing, or a queue such as human:support")
    return value


def _condition(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("condition", "expected a condition such as `risk is high`")
    try:
        parse(value)
    except ValueError as error:
        raise PydanticCustomError("condition", "{why}, got {got}", {"why": str(error), "got": repr(value)}) from None
    return value


def _then(value: Any) -> Any:
    """Accept a plain target for `{to: target}`."""
    return {"to": _target(value)} if isinstance(value, str) else value


Text = Annotated[str | Mapping[str, str], BeforeValidator(_text)]
Id = Annotated[str, BeforeValidator(_id)]
Target = Annotated[str, BeforeValidator(_target)]


class Model(BaseModel):
    """Unknown keys are errors, and nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class History(Model):
    """What an agent sees of the others' work when it takes over. `last` counts customer-visible messages.

    `function` names a Python function in the agent's history.py or tools.py, for `mode: function`.
    """

    mode: Literal["none", "last", "messages", "summary", "full", "function"] = "messages"
    last: int = Field(default=12, ge=0, le=200)
    function: str | None = None

    @field_validator("function")
    @classmethod
    def _function_has_its_mode(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("mode", "function") != "function":
            raise PydanticCustomError(
                "history", "only `mode: function` uses a function; the mode is {mode}", {"mode": info.data["mode"]}
            )
        return value


class Step(Model):
    """One step of a plan: `to` speaks next, if `when` (a condition, see handoffs.conditions) holds or is not there.

    A `hidden` step leaves no trace for the next agent: neither who sent it and why, nor the transfer's record.
    """

    to: Target
    when: Annotated[str, BeforeValidator(_condition)] | None = None
    hidden: bool = False

    @property
    def condition(self) -> Condition | None:
        """`when`, ready to be asked."""
        return parse(self.when) if self.when else None

    @property
    def values(self) -> tuple[str, ...]:
        """The shared values that the condition asks about."""
        return tuple(test.subject for test in self.condition.tests if not test.is_label) if self.condition else ()


Then = Annotated[Step, BeforeValidator(_then)]


_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_VALID_MS = 30 * _UNITS["d"]  # the store keeps no question open for longer


def _duration(value: Any) -> Any:
    found = re.fullmatch(r"([0-9]{1,6})([smhd])", value) if isinstance(value, str) else None
    if found is None or not 0 < int(found[1]) * _UNITS[found[2]] <= _MAX_VALID_MS:
        raise PydanticCustomError("duration", "expected a time such as 90s, 30m, 12h or 2d, at most 30d")
    return value


class ApprovalSettings(Model):
    """How somebody is asked before a call is made. `default` counts when nobody has decided within `valid`.

    `text` is said to the customer when the question is put. Messages that come meanwhile are answered after the
    decision; with `waiting: line` the customer also reads `line`, once.
    """

    valid: Annotated[str, BeforeValidator(_duration)] = "30m"
    default: Literal["refused", "granted"] = "refused"
    waiting: Literal["queue", "line"] = "queue"
    text: Text | None = None
    line: Text | None = None

    @property
    def valid_ms(self) -> int:
        """`valid` in milliseconds."""
        return int(self.valid[:-1]) * _UNITS[self.valid[-1]]


class ValueAccess(Model):
    """The shared values (keys of desk.yaml `values:`) that an agent may read and write."""

    read: tuple[Id, ...] = ()
    write: tuple[Id, ...] = ()


class Burst(Model):
    """What becomes of several messages in a row. `debounce` in ms; `cap`: most messages that one answer is for."""

    policy: Literal["coalesce", "restart", "queue"] = "coalesce"
    debounce: int = Field(default=0, ge=0, le=5000)
    cap: int = Field(default=50, ge=1, le=50)


class AgentLimits(Model):
    """Per turn: calls of the model, and seconds from the first to the last."""

    model_calls: int = Field(default=8, ge=1, le=100)
    seconds: float = Field(default=60, gt=0, le=3600)


class DeskLimits(Model):
    """The loop guard: transfers in one turn, and in one conversation; and how much agents may ask each other.

    `asks_per_turn` counts every request to an agent as a tool, those of asked agents too; `ask_depth` is how long a
    chain may get: 1 means that an asked agent asks nobody.
    """

    transfers_per_turn: int = Field(default=4, ge=1, le=50)
    transfers_per_conversation: int = Field(default=20, ge=1, le=1000)
    asks_per_turn: int = Field(default=12, ge=0, le=200)
    ask_depth: int = Field(default=3, ge=1, le=10)


class QueueSpec(Model):
    """A human queue. `hours` None means that nobody said when people are there (`frontdesk check` warns)."""

    name: Text
    intended_use: Text = "A person, when no agent can help or the customer asks for one."
    hours: Hours | None = None
    closed: Text | None = None
    when_closed: Literal["wait", "refuse"] = "wait"

    def is_open(self, at: datetime) -> bool:
        """Whether people are there at `at` (an aware datetime); without hours: always."""
        return self.hours is None or self.hours.is_open(at)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list, tuple),
    "map": (dict,),
}


def _compiles(value: str | None) -> str | None:
    try:
        re.compile(value or "")
    except re.error as error:
        raise PydanticCustomError("pattern", "this is not a regular expression: {why}", {"why": str(error)}) from None
    return value


class ValueContract(Model):
    """What a shared value may be. `sensitive` values are masked in logs, prompts of others and exports.

    `lifetime` says how long it is kept: until the turn rests, with the conversation, or for all of a visitor's.
    """

    type: Literal["string", "integer", "number", "boolean", "list", "map"] = "string"
    description: str = ""
    pattern: str | None = None
    allowed: tuple[str | int | float | bool, ...] = ()
    max_length: int = Field(default=2000, ge=1, le=100_000)
    sensitive: bool = False
    lifetime: Literal["turn", "conversation", "customer"] = "conversation"

    _pattern_compiles = field_validator("pattern")(_compiles)

    def why_not(self, value: Any) -> str | None:
        """None when `value` fits; else a sentence with what came and what is allowed (raise ValueInvalid with it)."""
        if not isinstance(value, _TYPES[self.type]) or (isinstance(value, bool) and self.type != "boolean"):
            return f"expected {self.type}, got {type(value).__name__}"
        if self.allowed and value not in self.allowed:
            return f"expected one of {', '.join(map(str, self.allowed))}"
        if isinstance(value, str) and self.pattern and not re.fullmatch(self.pattern, value):
            return f"expected a text that matches {self.pattern}"
        if isinstance(value, str | list | tuple | dict) and len(value) > self.max_length:
            return f"expected at most {self.max_length} characters or entries, got {len(value)}"
        return None


class Declared(Model):
    """One argument that an asked agent takes, or one part of its result. A `list` holds texts."""

    type: Literal["string", "integer", "number", "boolean", "list"] = "string"
    description: str = ""
    allowed: tuple[str | int | float | bool, ...] = ()
    pattern: str | None = None
    required: bool = True

    _pattern_compiles = field_validator("pattern")(_compiles)

    @field_validator("allowed")
    @classmethod
    def _allowed_are_of_the_type(cls, value: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        kind = info.data.get("type", "string")
        of_type = [entry for entry in value if kind != "list" and ValueContract(type=kind).why_not(entry) is None]
        if len(of_type) != len(value):
            why = "a list cannot have them" if kind == "list" else f"expected values of the type {kind}"
            raise PydanticCustomError("allowed", "{why}, got {got}", {"why": why, "got": ", ".join(map(repr, value))})
        return value


class DeskSpec(Model):
    """desk.yaml. `on_error` is the owner after a failure for agents that name none; by default the first queue."""

    name: Text
    start: Id
    languages: tuple[str, ...] = ("en",)
    queues: Mapping[Id, QueueSpec] = Field(default_factory=dict)
    values: Mapping[Id, ValueContract] = Field(default_factory=dict)
    limits: DeskLimits = DeskLimits()
    variables: Mapping[Id, str] = Field(default_factory=dict)
    on_error: Target | None = None
    approvals: ApprovalSettings = ApprovalSettings()
    announce: Text = Field(default_factory=lambda: dict(ANNOUNCE))
    successors: Mapping[Id, Target] = Field(default_factory=dict)

    @field_validator("languages")
    @classmethod
    def _languages_are_codes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [code for code in value if not LANGUAGE.fullmatch(code)]
        if wrong or not value:
            raise PydanticCustomError(
                "language", "expected language codes such as [en, zh], got {got}", {"got": ", ".join(wrong) or "none"}
            )
        return value

    @field_validator("variables")
    @classmethod
    def _name_is_taken(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        if "name" in value:
            raise PydanticCustomError("variable", "`name` is taken: in announce, {name} is the agent's name")
        return value


class Host(Model):
    """An agent that has `specialists` answer. Answers of several become one by its model, or follow each other."""

    specialists: tuple[Id, ...] = Field(min_length=1)
    combine: Literal["summarize", "concat"] = "summarize"


class Delegate(Model):
    """Agents that look into parts of this one's work, and how often each part is tried."""

    to: tuple[Id, ...] = Field(min_length=1)
    attempts: int = Field(default=2, ge=1, le=3)


class AgentSettings(Model):
    """The front matter of an agent.md: the route. Only `intended_use` has no default."""

    intended_use: Text
    name: Text | None = None
    examples: tuple[str, ...] = ()
    transfer_to: tuple[Target, ...] = ()
    ask: tuple[Id, ...] = ()
    arguments: Mapping[Id, Declared] = Field(default_factory=dict)
    result: Mapping[Id, Declared] = Field(default_factory=dict)
    host: Host | None = None
    delegate: Delegate | None = None
    then: tuple[Then, ...] = ()
    returns_to: Id | None = None
    history: History = History()
    values: ValueAccess = ValueAccess()
    requires: tuple[Id, ...] = ()
    disabled: bool = False
    tools: tuple[str, ...] = ()
    approval: tuple[str, ...] = ()
    confirm: tuple[str, ...] = ()
    approvals: ApprovalSettings | None = None
    read_only: tuple[str, ...] = ()
    guardrails: tuple[str, ...] = ()
    on_guardrail: Literal["on_error", "stay"] = "on_error"
    announced: Literal["record", "ask_again"] = "record"
    limits: AgentLimits = AgentLimits()
    burst: Burst = Burst()
    on_error: Target | None = None
    announce: Text | None = None
    model: str = Field(default="default", min_length=1)


class AgentSpec(AgentSettings):
    """One agent: its settings, its instructions with the variables filled in, its folder, and where things stand.

    `lines` maps a path in the front matter ("transfer_to.1") to its line in agent.md, for error messages.
    """

    id: Id
    instructions: str = ""
    folder: Path = Path()
    lines: Mapping[str, int] = Field(default_factory=dict, repr=False, exclude=True)
    sdk: Any = Field(default=None, repr=False, exclude=True)  # a handoffs.sdk_source.SdkAgent, or None

    @property
    def file(self) -> str:
        """The agent's file as messages name it, relative to the agents folder."""
        return f"{self.id}/agent.md"

    @property
    def colleagues(self) -> tuple[str, ...]:
        """Every agent that this one has answer while it keeps the conversation."""
        specialists = self.host.specialists if self.host else ()
        return tuple(dict.fromkeys((*self.ask, *specialists, *(self.delegate.to if self.delegate else ()))))

    @property
    def targets(self) -> tuple[str, ...]:
        """Every owner that can follow this agent: asked for by the model, by `then`, by `returns_to`."""
        found = (*self.transfer_to, *(step.to for step in self.then), *((self.returns_to,) if self.returns_to else ()))
        return tuple(dict.fromkeys(found))


class Roster(Model):
    """All agents of one desk. `version` is a hash of the content: equal files give an equal version anywhere."""

    desk: DeskSpec
    agents: Mapping[str, AgentSpec]
    version: str = ""
    folder: Path = Path()
    desk_lines: Mapping[str, int] = Field(default_factory=dict, repr=False, exclude=True)

    @classmethod
    def from_agents(cls, start: Agent[Any], *others: Agent[Any], **desk: Any) -> Roster:
        """A roster of OpenAI Agents SDK agents: `start`, all that it can hand off to, `others` and theirs.

        `desk` has the fields of desk.yaml without `start`; `ids={"账单": "billing"}` gives agents the ids of your
        choice; `context=make` gives their code your own context object, made by `make(turn)` once in each run.
        RosterInvalid names every agent and field that cannot be used.
        """
        from handoffs.sdk_agents import roster_of  # loads the SDK: a roster of files needs none of it

        return roster_of(start, *others, **desk)

    def __getitem__(self, agent_id: str) -> AgentSpec:
        """The agent, KeyError when there is none."""
        return self.agents[agent_id]

    def __contains__(self, agent_id: object) -> bool:
        return agent_id in self.agents

    @property
    def start(self) -> AgentSpec:
        """The agent that owns a new conversation."""
        return self.agents[self.desk.start]

    def knows(self, target: str) -> bool:
        """Whether `target` (an agent id, or human:<queue>) exists."""
        if target.startswith(HUMAN):
            return target.removeprefix(HUMAN) in self.desk.queues
        return target in self.agents

    def available(self, target: str) -> bool:
        """Whether `target` exists and is not switched off (`disabled: true`)."""
        return self.knows(target) and (target.startswith(HUMAN) or not self.agents[target].disabled)

    def on_error(self, agent_id: str) -> str:
        """The target that owns the conversation after a failure of this agent: its own, the desk's, the first queue.

        A desk without queues gives the start agent.
        """
        own = self.agents[agent_id].on_error if agent_id in self.agents else None
        first = next((HUMAN + queue for queue in self.desk.queues), self.desk.start)
        return own or self.desk.on_error or first

    def successor(self, agent_id: str) -> str:
        """Who owns the conversations of an agent that is gone or off: by `successors`, else the start agent."""
        seen: set[str] = set()
        while not self.available(agent_id) and agent_id in self.desk.successors and agent_id not in seen:
            seen.add(agent_id)
            agent_id = self.desk.successors[agent_id]
        return agent_id if self.available(agent_id) else self.desk.start

    def text(self, text: str | Mapping[str, str], language: str = "") -> str:
        """`text` in `language` ("zh-CN" finds "zh"); else in the desk's first language; else the first there is."""
        if isinstance(text, str):
            return text
        for code in (language, language.partition("-")[0], *self.desk.languages):
            if code in text:
                return text[code]
        return next(iter(text.values()))

    def display_name(self, ref: str, language: str = "") -> str:
        """The name a customer reads for "billing", "ai:billing", "human:billing" or "queue:billing".

        `human:<id>` of a person (not a queue) and unknown ids give the id itself.
        """
        kind, colon, id_ = ref.partition(":")
        if not colon:
            kind, id_ = "ai", ref
        if kind == "ai" and id_ in self.agents:
            return self.text(self.agents[id_].name or _title(id_), language)
        if kind in ("human", "queue") and id_ in self.desk.queues:
            return self.text(self.desk.queues[id_].name, language)
        return id_

    def intended_use(self, target: str, language: str = "") -> str:
        """What a target is for, as one line for `transfer_to_agent`; empty when there is no such target."""
        if target in self.agents:
            return " ".join(self.text(self.agents[target].intended_use, language).split())
        queue = self.desk.queues.get(target.removeprefix(HUMAN)) if target.startswith(HUMAN) else None
        return " ".join(self.text(queue.intended_use, language).split()) if queue else ""

    def announcement(self, ref: str, language: str = "") -> str:
        """The sentence that tells the customer who they are talking to now; `{name}` and variables filled in."""
        agent = self.agents.get(ref.removeprefix("ai:"))
        text = agent.announce if agent and agent.announce else self.desk.announce
        names = {**self.desk.variables, "name": self.display_name(ref, language)}
        return fill(self.text(text, language), names)


def fill(text: str, variables: Mapping[str, str]) -> str:
    """`text` with each `{declared}` replaced. Any other brace is just text, and a value is never filled again."""
    if not variables:
        return text
    pattern = "|".join(re.escape(name) for name in sorted(variables))
    return re.sub(r"\{(" + pattern + r")\}", lambda match: variables[match[1]], text)


def _title(agent_id: str) -> str:
    return agent_id.replace("_", " ").capitalize()
