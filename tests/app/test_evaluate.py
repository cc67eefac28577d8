"""app.evaluate: data sets played through the real router; scores from counts that can be checked by hand."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from app.evaluate import EvaluationProblem, evaluate_async
from app.evaluation.dataset import START, Message, Played, agent_id, is_example_half, load, round_robin
from app.evaluation.play import Outcome
from app.evaluation.plot import PlotUnavailable, plot
from app.evaluation.report import Report
from app.evaluation.score import Ratio, confusion, dialogue_metrics, has_ping_pong, message_metrics, turns_of
from app.offline.encoder import SentenceEncoder

# Made up for this test, in the form of clinc150 and sgd.
TRAIN = {
    "banking": ["freeze my account", "what is my balance", "transfer money to savings", "my card was declined"],
    "travel": ["book a flight to Rome", "find me a hotel", "do I need a visa", "my luggage is lost"],
}
TEST = [
    ("please freeze the bank account", "banking"),
    ("how much money is in my account", "banking"),
    ("book me a flight to Paris", "travel"),
    ("the airline lost my luggage", "travel"),
    ("why is the sky blue", "oos"),
]
OPENERS = {"Banks_1": TRAIN["banking"], "Flights_1": TRAIN["travel"]}


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


@pytest.fixture
def messages(tmp_path: Path) -> Path:
    rows: list[dict[str, Any]] = [
        {"id": f"t{k}", "text": text, "intent": f"i{k}", "domain": domain, "split": "train"}
        for domain, texts in TRAIN.items()
        for k, text in enumerate(texts)
    ]
    rows += [{"id": f"x{k}", "text": t, "intent": "i", "domain": d, "split": "test"} for k, (t, d) in enumerate(TEST)]
    return write(tmp_path / "flat", rows)


@pytest.fixture
def dialogues(tmp_path: Path) -> Path:
    ids = (f"d{k}" for k in range(1000))
    rows: list[dict[str, Any]] = []
    for owner, texts in OPENERS.items():
        for text in texts:
            name = next(i for i in ids if is_example_half(i))
            turn = {"speaker": "user", "text": text, "owner": owner, "intent": "I", "handoff": "start"}
            rows.append({"id": name, "turns": [turn]})
    played = [
        {"speaker": "user", "text": "freeze my bank account please", "owner": "Banks_1", "handoff": "start"},
        {"speaker": "system", "text": "Done.", "owner": "Banks_1"},
        {"speaker": "user", "text": "ok thanks", "owner": "Banks_1"},
        {"speaker": "user", "text": "now book me a flight to Paris", "owner": "Flights_1", "handoff": "switch"},
        {"speaker": "user", "text": "what is the balance of my account?", "owner": "Banks_1", "handoff": "return"},
    ]
    rows.append({"id": next(i for i in ids if not is_example_half(i)), "turns": played})
    return write(tmp_path / "talks", rows)


async def test_single_messages_are_played_through_the_router(messages: Path, encoder: SentenceEncoder) -> None:
    """Clear messages reach their agent, the foreign one stays; progress counts up; the report is JSON."""
    seen: list[tuple[int, int]] = []
    report = await evaluate_async(
        messages, examples_per_agent=4, progress=lambda done, total: seen.append((done, total)), encoder=encoder
    )
    assert report.metrics["in scope: sent to the right agent"] == Ratio(4, 4)
    assert report.metrics["out of scope: wrongly sent"] == Ratio(0, 1)
    assert seen == [(k, 5) for k in range(1, 6)]
    assert json.loads(report.to_json())["confusion"][START] == {START: 1}


async def test_dialogues_switch_and_return(dialogues: Path, encoder: SentenceEncoder) -> None:
    """A conversation moves at the right turns to the right agents, and not on small talk."""
    report = await evaluate_async(dialogues, examples_per_agent=4, encoder=encoder)
    assert report.metrics["owner right, per customer turn"] == Ratio(4, 4)
    assert report.metrics["dialogue without a wrong owner"] == Ratio(1, 1)
    assert report.metrics["handoff recall: return"] == Ratio(1, 1)
    assert report.metrics["spurious handoffs per stay-turn"] == Ratio(0, 1)


def test_bare_change_marks_are_told_apart(dialogues: Path) -> None:
    """Sets that mark a change with `true` get start, switch and return from who owned before."""
    path = dialogues / "data.jsonl"
    marked = path.read_text(encoding="utf-8").replace('"handoff": "switch"', '"handoff": true')
    path.write_text(marked.replace('"handoff": "return"', '"handoff": true'), encoding="utf-8")
    data = load(dialogues, examples_per_agent=4, seed=0, limit=None)
    assert [m.handoff for m in data.conversations[0].messages] == ["start", "", "switch", "return"]


async def test_a_plot_is_written(messages: Path, tmp_path: Path, encoder: SentenceEncoder) -> None:
    """The picture is a PNG."""
    report = await evaluate_async(messages, examples_per_agent=4, limit=2, encoder=encoder)
    assert report.conversations == 2
    assert plot(report, tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_plot_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is a clear error."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    empty = Report("x", "messages", {}, "", 0, 0, 0, 0.0, {"m": Ratio(0, 0)}, {})
    with pytest.raises(PlotUnavailable, match=r"frontdesk\[eval\]"):
        plot(empty, tmp_path / "plot.png")


def test_examples_never_come_from_what_is_played(messages: Path, dialogues: Path) -> None:
    """Flat sets: split train against test; dialogues: one half against the other."""
    for folder in (messages, dialogues):
        data = load(folder, examples_per_agent=10, seed=0, limit=None)
        examples = {example for agent in data.roster.agents.values() for example in agent.examples}
        assert examples
        assert not examples & {m.text for c in data.conversations for m in c.messages}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, r"data\.jsonl does not exist"),
        ("", "has no lines"),
        ('{"a": 1}\n', "line 1 has the fields a; expected `text` and `domain`"),
        ('{"text": "x", "domain": "d"}\nnot json', "line 2: not JSON"),
        ("[1]", "line 1: expected a JSON object, got list"),
        ('{"text": "x", "domain": "d", "split": "test"}', "split` train and test"),
        ('{"id": "1", "turns": []}', "no user turn has an `owner`"),
    ],
)
async def test_a_folder_that_is_no_data_set_is_refused(tmp_path: Path, content: str | None, says: str) -> None:
    """The error names the file, the line and what was expected."""
    if content is not None:
        (tmp_path / "data.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(EvaluationProblem, match=says):
        await evaluate_async(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("limit", 0), ("examples_per_agent", -1), ("examples_per_agent", 2000)])
async def test_numbers_out_of_range_are_refused(messages: Path, name: str, value: int) -> None:
    """The error names the argument and the bounds."""
    with pytest.raises(EvaluationProblem, match=name):
        await evaluate_async(messages, **{name: value})  # type: ignore[arg-type]  # one of two int arguments


def test_scores_are_the_counts_they_say() -> None:
    """A dialogue with one missed switch, corrected a turn too late."""
    talk = Played("d", tuple(Message("t", o, h) for o, h in (("a", "start"), ("a", ""), ("b", "switch"), ("b", ""))))
    turns = turns_of(talk, [Outcome(owner, (), "") for owner in ("a", "a", "a", "b")])
    metrics = dialogue_metrics([turns])
    assert metrics["owner right, per customer turn"] == Ratio(3, 4)
    assert metrics["dialogue without a wrong owner"] == Ratio(0, 1)
    assert metrics["handoff precision"] == Ratio(1, 2)
    assert metrics["handoff recall"] == Ratio(1, 2)
    assert metrics["spurious handoffs per stay-turn"] == Ratio(1, 2)
    assert metrics["of them late corrections"] == Ratio(1, 1)
    assert confusion(turns) == {"a": {"a": 2}, "b": {"a": 1, "b": 1}}


def test_questions_count_apart_from_transfers() -> None:
    """Asked, kept and sent are told apart for single messages."""
    talks = [Played(str(k), (Message("t", owner, ""),)) for k, owner in enumerate(("a", "a", "a", START))]
    outcomes = ["a", START, START, "a"]
    turns = [t for talk, o in zip(talks, outcomes, strict=True) for t in turns_of(talk, [Outcome(o, (), "")])]
    metrics = message_metrics(turns, [False, True, False, False], [False, True, False, False])
    assert metrics["in scope: sent to the right agent"] == Ratio(1, 3)
    assert metrics["in scope: asked A or B"] == Ratio(1, 3)
    assert metrics["asked: right one offered"] == Ratio(1, 1)
    assert metrics["in scope: kept without a question"] == Ratio(1, 3)
    assert metrics["out of scope: wrongly sent"] == Ratio(1, 1)


def test_ping_pong_is_there_and_back_without_a_reason() -> None:
    """A-B-A within two messages counts when nothing asked for it."""

    def owners(*names: str, handoff: str = "") -> bool:
        messages = (Message("t", "a", "start"), *(Message("t", "a", handoff) for _ in names[1:]))
        return has_ping_pong(turns_of(Played("d", messages), [Outcome(name, (), "") for name in names]))

    assert owners("a", "b", "a")
    assert not owners("a", "b", "a", handoff="switch")
    assert not owners("a", "a", "b")


def test_labels_become_agent_ids() -> None:
    """Any label gives an id that a roster accepts, always the same."""
    assert agent_id("Hotels_2") == "hotels_2"
    assert agent_id("景点") == agent_id("景点") != agent_id("酒店")


def test_examples_go_round_the_intents() -> None:
    """Two examples of two intents are one of each."""
    drawn = round_robin({"x": ["x1", "x2"], "y": ["y1", "y2"]}, 2, seed=3)
    assert {text[0] for text in drawn} == {"x", "y"}
    assert round_robin({"x": ["x1"]}, 5, seed=3) == ["x1"]
