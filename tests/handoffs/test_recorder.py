"""Records of runs: what a turn did is written down with its commit, and costs a customer nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents import Model, ModelResponse, RunContextWrapper, Usage, function_tool
from agents.testing import ModelStep, function_call

from handoffs.context import TurnContext
from handoffs.played import answers
from handoffs.record import RunRecord, joined, outputs, tool_calls
from handoffs.recorder import PART_CHARS, TEXT_CHARS, Recorder, digest
from handoffs.roster import Roster
from handoffs.router import CustomerMessage, Router
from handoffs.team import Team
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import ScriptedModels, agent, roster, router_for, says, script, shop, transfer
from tests.support import wait_until


async def ask(router: Router, conversation_id: str, text: str = "hello", message_id: str = "m1") -> list[RunRecord]:
    """Send a customer message, wait until the customer is next, and read the runs."""
    await router.receive(conversation_id, CustomerMessage(message_id, text))
    await wait_until("the turn ends", lambda: router.running == 0)
    return await runs(router.store, conversation_id)


async def runs(store: Store, conversation_id: str) -> list[RunRecord]:
    (rows,) = await store.run_records([conversation_id])
    return joined(conversation_id, rows)


def with_tool(store: Store, live: Live, model: Model, folder: Path, answer: str = "It is on its way.") -> Router:
    """A router whose only agent has the tool `lookup` and may set `order`."""

    @function_tool
    def lookup(ctx: RunContextWrapper[TurnContext], number: str) -> str:
        """Look an order up."""
        ctx.context.values.set("order", number)
        return answer

    desk: Roster = roster(agent("orders", values={"write": ["order"]}), values={"order": {}})
    team = Team.load(desk, ScriptedModels({"orders": model}), data_dir=folder)
    return Router(store, live, replace(team, tools={"orders": (lookup,)}))


async def test_a_turn_is_recorded_whole(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """Who answered what, what the model was given and gave, when, and what it took."""
    step = ModelStep(output=[says("Hello back.")], usage=Usage(requests=1, input_tokens=70, output_tokens=5))
    router = router_for(store, live, shop(), {"triage": script(step)}, tmp_path)

    (run,) = await ask(router, conversation_id)

    (part,) = run.parts
    (call,) = part["calls"]
    assert (part["owner"], part["after"], part["outcome"], part["text"]) == (
        "ai:triage",
        "ai:triage",
        "answered",
        "Hello back.",
    )
    assert [message["text"] for message in run.messages] == ["hello"]
    assert (run.first["turn"], run.first["attempt"], run.first["roster"], part["model"]) == ("1", 1, "test", "triage")
    assert (call["items"], len(call["input"]), len(call["instructions"])) == (1, 16, 16)
    assert call["output"][0]["content"][0]["text"] == "Hello back."
    assert run.usage == {"in": 70, "out": 5, "cached": 0, "reasoning": 0}
    assert part["began"] <= call["at"] <= part["ended"] and call["ms"] >= 0
    assert run.whole and run.error is None


async def test_a_turn_with_a_transfer_is_one_record(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """Two commits, two parts, one run: who handed on, why, and who answered."""
    models = {"triage": script([transfer("billing", reason="money")]), "billing": script([says("Billing here.")])}
    router = router_for(store, live, shop(), models, tmp_path)

    (run,) = await ask(router, conversation_id)

    assert [part["owner"] for part in run.parts] == ["ai:triage", "ai:billing"]
    assert run.transfers == [{"from": "ai:triage", "to": "ai:billing", "decided_by": "model"}]
    assert run.parts[0]["transfer"]["reason"] == "money"
    assert run.whole and run.parts[1]["after"] == "ai:billing"


async def test_tools_are_recorded_with_arguments_and_results(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """What was called with what, what came back, and which values it set."""
    model = script([function_call("lookup", {"number": "A-1"}, call_id="c1")], [says("On its way.")])
    router = with_tool(store, live, model, tmp_path)

    (run,) = await ask(router, conversation_id)

    (call,) = tool_calls(run.parts[0])
    assert (call["name"], json.loads(call["arguments"]), call["result"]) == (
        "lookup",
        {"number": "A-1"},
        "It is on its way.",
    )
    assert run.parts[0]["writes"] == {"order": "A-1"}
    assert len(run.calls) == 2


async def test_refusals_are_recorded(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """A transfer that was denied, with what the model was told."""
    model = script([transfer("nowhere")], [says("Then I answer.")])
    router = router_for(store, live, shop(), {"triage": model}, tmp_path)

    (run,) = await ask(router, conversation_id)

    (refusal,) = run.refusals
    assert refusal["to"] == "nowhere" and refusal["why"].startswith("Not transferred")
    assert run.transfers == []


async def test_a_failure_is_recorded(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """The call that failed, the error, and who has the conversation now."""
    router = router_for(store, live, shop(), {"triage": script(RuntimeError("model is down"))}, tmp_path)

    (run,) = await ask(router, conversation_id)

    (part,) = run.parts
    assert (part["outcome"], part["after"]) == ("failed", "queue:support")
    assert run.error == {"type": "RuntimeError", "text": "model is down"}
    assert part["calls"][0]["error"] == "RuntimeError: model is down"
    assert part["transfer"]["decided_by"] == "failure"


async def test_an_owner_who_lost_the_conversation_records_nothing(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A person takes over while the model thinks: what it would have said is not written down."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> ModelStep:
        reached.set()
        await go_on.wait()
        return ModelStep(output=[says("Too late.")])

    router = router_for(store, live, shop(), {"triage": script(ModelStep.respond(slow))}, tmp_path)
    await router.receive(conversation_id, CustomerMessage("m1", "hello"))
    await reached.wait()
    await store.takeover(conversation_id, "ann", change={})
    go_on.set()
    await wait_until("the turn ends", lambda: router.running == 0)

    assert await runs(store, conversation_id) == []


async def test_a_turn_that_was_given_back_says_why(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """A process that stops in the middle leaves the record of what came to nothing; the next run is another one."""
    reached = asyncio.Event()

    async def stuck(_: Any) -> ModelStep:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    stopping = router_for(store, live, shop(), {"triage": script(ModelStep.respond(stuck))}, tmp_path)
    await stopping.receive(conversation_id, CustomerMessage("m1", "hello"))
    await reached.wait()
    await stopping.stop(0)
    (broken,) = await runs(store, conversation_id)

    heir = router_for(store, live, shop(), {"triage": script([says("Here.")])}, tmp_path)
    await heir.start()
    await wait_until("the heir answers", lambda: _count(store, conversation_id, 2))
    await heir.stop()
    _, answered = await runs(store, conversation_id)

    assert (broken.parts[0]["outcome"], broken.error) == (
        "broken",
        {"type": "Broken", "text": "the process that worked on it stopped"},
    )
    assert [message["text"] for message in broken.messages] == ["hello"]
    assert (answered.parts[0]["outcome"], answered.first["attempt"]) == ("answered", 2)


async def _count(store: Store, conversation_id: str, wanted: int) -> bool:
    return len(await runs(store, conversation_id)) == wanted


async def test_a_huge_result_is_cut_and_named(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """A record has a limit; what is cut is listed, and the run is not called whole."""
    model = script([function_call("lookup", {"number": "A-1"}, call_id="c1")], [says("Done.")])
    router = with_tool(store, live, model, tmp_path, answer="x" * 2 * PART_CHARS)

    (run,) = await ask(router, conversation_id)

    (result,) = run.parts[0]["results"]
    assert run.parts[0]["cut"] == ["results.0.output"]
    assert len(result["output"]) < TEXT_CHARS + 100 and "more characters are not recorded" in result["output"]
    assert not run.whole
    assert run.parts[0]["text"] == "Done."


def test_what_cannot_be_recorded_breaks_nothing() -> None:
    """A record is never the reason why a customer gets no answer."""

    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no words for this")

    recorder = Recorder(run="7", turn="1", attempt=1, roster="r", worker="w", meta={}, values={})
    recorder.begin(())
    recorder.heard("", ({"type": "function_call_output", "call_id": "c1", "output": Odd()},), (), None)

    kept = json.loads(recorder.part("answered", "ai:a", "ai:a").text)

    assert (kept["run"], kept["part"], kept["cut"]) == ("7", 0, ["*"])


def test_a_part_of_many_long_texts_keeps_its_outline() -> None:
    """When cutting is not enough, who and when stay."""
    recorder = Recorder(run="7", turn="1", attempt=1, roster="r", worker="w", meta={}, values={})
    recorder.begin(())
    items = tuple(
        {"type": "function_call_output", "call_id": str(n), "output": "x" * TEXT_CHARS}
        for n in range(PART_CHARS // TEXT_CHARS + 1)
    )
    recorder.heard("", items, (), None)

    text = recorder.part("answered", "ai:a", "ai:b").text

    kept = json.loads(text)
    assert len(text) < PART_CHARS
    assert (kept["owner"], kept["after"], kept["turn"], kept["cut"]) == ("ai:a", "ai:b", "1", ["*"])


def test_a_digest_is_of_what_went_in_not_of_what_came_after() -> None:
    """The list of items grows after the call; the record says what the model saw."""
    items: list[Any] = [{"role": "user", "content": "hello"}]
    recorder = Recorder(run="7", turn="1", attempt=1, roster="r", worker="w", meta={}, values={})
    recorder.begin(())
    recorder.call("Help.", items).answered(ModelResponse(output=[says("Hi.")], usage=Usage(), response_id=None))
    items.append({"role": "assistant", "content": "Hi."})

    (call,) = json.loads(recorder.part("answered", "ai:a", "ai:a").text)["calls"]

    assert (call["items"], call["input"]) == (1, digest(b'[{"role":"user","content":"hello"}]'))


def test_what_a_run_threw_away_is_counted_and_not_replayed() -> None:
    """handoffs.md 2.8: the customer went on and the owner began again: its tokens count, its words do not."""
    recorder = Recorder(run="7", turn="1", attempt=1, roster="r", worker="w", meta={}, values={})
    recorder.begin(())
    spent = Usage(requests=1, input_tokens=10, output_tokens=1)
    recorder.call("Help.", []).answered(ModelResponse(output=[says("Too early.")], usage=spent, response_id=None))
    recorder.again(())
    recorder.call("Help.", []).answered(ModelResponse(output=[says("Hi.")], usage=spent, response_id=None))

    (run,) = joined("c_x", [json.loads(recorder.part("answered", "ai:a", "ai:a").text)])

    assert run.usage["in"] == 20 and run.whole
    assert [item["content"][0]["text"] for item in outputs(run.parts[0])] == ["Hi."]
    assert [call["output"][0]["content"][0]["text"] for call in answers(run.parts[0])] == ["Hi."]


async def test_a_desk_can_keep_no_records(store: Store, live: Live, conversation_id: str, tmp_path: Path) -> None:
    """With `runs_keep` 0 there is none, and turns go on as ever."""
    silent = Store(store.backend, runs_keep=0)
    router = router_for(silent, live, shop(), {"triage": script([says("Hello.")])}, tmp_path)

    assert await ask(router, conversation_id) == []
    assert (await store.get(conversation_id)).owner == Owner.ai("triage")
