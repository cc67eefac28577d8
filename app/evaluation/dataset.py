"""Data sets as desks: labelled messages become conversations, their labels become agents.

Two forms are understood (data.jsonl, one JSON object a line). Flat: `text`, `domain`, `split` (train, dev, test), as in
CLINC150. Dialogues: `turns` with `speaker`, `text` and, on a user turn, `owner` and `handoff`, as in SGD.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handoffs.roster import AgentSpec, DeskLimits, DeskSpec, Roster
from sessions.errors import FrontdeskError

START = "reception"  # the triage agent of every evaluation desk; what is out of scope must stay there
MAX_LINE_BYTES = 1_000_000


class EvaluationProblem(FrontdeskError):
    """The folder cannot be evaluated; says which file, which line, what was expected."""


@dataclass(frozen=True)
class Message:
    """One customer message and who must own the conversation after it; `owner` None is not scored.

    `handoff` is `start`, `switch` or `return` where the owner has to change, else empty.
    """

    text: str
    owner: str | None
    handoff: str = ""


@dataclass(frozen=True)
class Played:
    """One conversation to play."""

    id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class DataSet:
    """A desk and the conversations to play on it. `kind` is `messages` or `dialogues`; `note` names the splits."""

    name: str
    kind: str
    roster: Roster
    conversations: tuple[Played, ...]
    note: str


def load(folder: Path, *, examples_per_agent: int, seed: int, limit: int | None) -> DataSet:
    """Read a folder; the examples of an agent come from other items than those that are played.

    Raises EvaluationProblem for a folder that is not a data set of a known form.
    """
    rows = read_rows(folder / "data.jsonl")
    if "turns" in rows[0]:
        return _dialogues(folder, rows, examples_per_agent, seed, limit)
    if {"text", "domain"} <= rows[0].keys():
        return _messages(folder, rows, examples_per_agent, seed, limit)
    raise EvaluationProblem(
        f"{folder / 'data.jsonl'}: line 1 has the fields {', '.join(rows[0])}; expected `text` and `domain` (with "
        "`split`), as in clinc150, or `turns`, as in sgd"
    )


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file, one a line. EvaluationProblem names the line that is none."""
    if not path.is_file():
        raise EvaluationProblem(f"{path} does not exist; expected a folder with a data.jsonl")
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                rows.append(_row(path, number, line))
    if not rows:
        raise EvaluationProblem(f"{path} has no lines")
    return rows


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise EvaluationProblem(f"{path}: line {number}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise EvaluationProblem(f"{path}: line {number}: expected a JSON object, got {type(found).__name__}")
    return found


# -- flat sets ---------------------------------------------------------------------------------------------------------


def _messages(folder: Path, rows: list[dict[str, Any]], k: int, seed: int, limit: int | None) -> DataSet:
    train = [row for row in rows if row.get("split") == "train" and row["domain"] != "oos"]
    test = [row for row in rows if row.get("split") == "test"]
    if not train or not test:
        raise EvaluationProblem(f"{folder / 'data.jsonl'}: needs items with `split` train and test")
    domains = sorted({str(row["domain"]) for row in train})
    cards = {domain: _words(_intents(train, domain)) for domain in domains}
    pools = {d: _by_intent([r for r in train if r["domain"] == d], "intent", "text") for d in domains}
    roster = desk(folder.name, cards, {d: round_robin(pools[d], k, seed) for d in domains})
    played = tuple(
        Played(str(row.get("id", number)), (_single(row),)) for number, row in enumerate(sample(test, limit, seed))
    )
    note = f"{k} examples an agent from split train, one intent after the other; played: split test with out of scope"
    return DataSet(folder.name, "messages", roster, played, note)


def _single(row: Mapping[str, Any]) -> Message:
    domain = str(row["domain"])
    return (
        Message(str(row["text"]), START, "")
        if domain == "oos"
        else Message(str(row["text"]), agent_id(domain), "start")
    )


def _intents(rows: Iterable[Mapping[str, Any]], domain: str) -> list[str]:
    return sorted({str(row["intent"]) for row in rows if row["domain"] == domain and row.get("intent")})


def _words(names: Sequence[str]) -> str:
    """`card_declined` and so on as the clauses of a description."""
    return ", ".join(name.replace("_", " ") for name in names)


# -- dialogues ---------------------------------------------------------------------------------------------------------


def _dialogues(folder: Path, rows: list[dict[str, Any]], k: int, seed: int, limit: int | None) -> DataSet:
    train = [row for row in rows if is_example_half(str(row["id"]))]
    played = [row for row in rows if not is_example_half(str(row["id"]))]
    owners = sorted({str(turn["owner"]) for row in rows for turn in _user_turns(row) if turn.get("owner")})
    if not owners or not train or not played:
        raise EvaluationProblem(f"{folder / 'data.jsonl'}: no user turn has an `owner`")
    first = [turn for row in train for turn in _user_turns(row) if turn.get("handoff")]
    pools = {o: _by_intent([t for t in first if t.get("owner") == o], "intent", "text") for o in owners}
    cards = {owner: _card(folder, owner) for owner in owners}
    roster = desk(folder.name, cards, {o: round_robin(pools[o], k, seed) for o in owners})
    conversations = tuple(_conversation(row) for row in sample(played, limit, seed))
    note = (
        f"up to {k} examples an agent: messages that opened or changed the subject, from the dialogues of the example "
        "half (sha256 of the id is even); played: the other half"
    )
    return DataSet(folder.name, "dialogues", roster, conversations, note)


def is_example_half(dialogue_id: str) -> bool:
    """Whether examples and thresholds may come from this dialogue; the other half is only ever played."""
    return hashlib.sha256(dialogue_id.encode()).digest()[0] % 2 == 0


def _conversation(row: Mapping[str, Any]) -> Played:
    messages: list[Message] = []
    seen: set[str] = set()
    for turn in _user_turns(row):
        owner = agent_id(str(turn["owner"])) if turn.get("owner") else None
        messages.append(Message(str(turn["text"]), owner, _handoff(turn, owner, seen)))
        seen |= {owner} if owner else set()
    return Played(str(row["id"]), tuple(messages))


def _handoff(turn: Mapping[str, Any], owner: str | None, seen: set[str]) -> str:
    """The label as written; sets that only say that something changed (CrossWOZ) get theirs from who owned before."""
    label = turn.get("handoff") or ""
    if owner and not seen:
        return "start"
    if label is True:
        return "return" if owner in seen else "switch"
    return str(label)


def _user_turns(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [turn for turn in row["turns"] if turn.get("speaker") == "user" and str(turn.get("text", "")).strip()]


def _card(folder: Path, owner: str) -> str:
    """The description of a service from services.jsonl, in its original wording; else its name in words."""
    path = folder / "services.jsonl"
    for card in read_rows(path) if path.is_file() else ():
        if card.get("service") == owner and card.get("variant") == "original":
            intents = [str(intent.get("description", "")) for intent in card.get("intents", ())]
            return "; ".join([str(card.get("description", "")), *intents])
    return re.sub(r"[_\d]+", " ", owner).strip() or owner


# -- shared ------------------------------------------------------------------------------------------------------------


def desk(name: str, cards: Mapping[str, str], examples: Mapping[str, Sequence[str]]) -> Roster:
    """A desk with one triage agent and one agent a label; everybody may transfer to every specialist."""
    ids = {label: agent_id(label) for label in cards}
    specialists = [
        AgentSpec(
            id=ids[label],
            name=label,
            intended_use=card,
            examples=tuple(examples[label]),
            transfer_to=tuple(other for other in ids.values() if other != ids[label]),
        )
        for label, card in cards.items()
    ]
    reception = AgentSpec(id=START, intended_use="Finds out who can help.", transfer_to=tuple(ids.values()))
    limits = DeskLimits(transfers_per_turn=4, transfers_per_conversation=1000)
    settings = DeskSpec(name=name, start=START, languages=("en", "zh"), limits=limits)
    version = hashlib.sha256(repr([(a.id, a.intended_use, a.examples) for a in specialists]).encode()).hexdigest()[:16]
    return Roster(desk=settings, agents={agent.id: agent for agent in (reception, *specialists)}, version=version)


def agent_id(label: str) -> str:
    """A label as an agent id: `Hotels_2` -> `hotels_2`; a label in other letters gets a stable code."""
    plain = re.sub(r"[^a-z0-9_]+", "_", label.lower()).strip("_")[:40]
    if re.fullmatch(r"[a-z][a-z0-9_]*", plain):
        return plain
    return "topic_" + hashlib.sha256(label.encode()).hexdigest()[:8]


def round_robin(pools: Mapping[str, list[str]], k: int, seed: int) -> list[str]:
    """Up to `k` texts, one intent after the other, as somebody who writes examples for each thing an agent does."""
    chance = random.Random(seed)  # noqa: S311  # a draw that can be repeated, not a secret
    names = sorted(pools)
    chance.shuffle(names)
    for name in names:
        chance.shuffle(pools[name])
    longest = max((len(pool) for pool in pools.values()), default=0)
    ordered = [pools[name][place] for place in range(longest) for name in names if place < len(pools[name])]
    return list(dict.fromkeys(ordered))[:k]


def sample(rows: Sequence[dict[str, Any]], limit: int | None, seed: int) -> list[dict[str, Any]]:
    """All rows, or `limit` of them drawn by `seed`, in their own order."""
    if limit is None or limit >= len(rows):
        return list(rows)
    chosen = random.Random(seed).sample(range(len(rows)), limit)  # noqa: S311  # as above
    return [rows[place] for place in sorted(chosen)]


def _by_intent(rows: Iterable[Mapping[str, Any]], intent: str, text: str) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {}
    for row in rows:
        pools.setdefault(str(row.get(intent, "")), []).append(str(row[text]))
    return pools
