"""Approvals through the router, over a real Valkey: design/handoffs.md section 8, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handoffs.approvals import decide
from handoffs.roster import Step
from handoffs.router import CustomerMessage, Person
from handoffs.waiting import Wish, approval_id, named
from sessions.errors import ApprovalVoid
from sessions.keys import Keys
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.approving import Counted, asked, calls, desk, desk_router, said, types, write
from tests.handoffs.desks import agent, roster, says, script, transfer
from tests.support import wait_until


async def test_call_waits_for_a_person_and_the_conversation_stays_with_the_agent(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: the tool does not run, what was said so far is said, the turn rests, nobody else owns."""
    counted = Counted(tmp_path)
    model = script([says("I'll ask for it."), calls("refund", order="A-1")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)

    await write(router, conversation_id, "refund A-1 please")

    (approval,) = await asked(store, conversation_id)
    now = await store.get(conversation_id)
    events = await store.read(conversation_id)
    assert counted.executions == []
    assert (now.owner, now.worker, now.waiting) == (Owner.ai("billing"), "", 1)
    assert approval.call == {"tool": "refund", "arguments": {"order": "A-1"}, "agent": "billing", "approver": "people"}
    assert types(events) == ["msg.created", "msg.created", "notice", "approval.asked"]
    assert [event.data["text"] for event in events[1:3]] == [
        "I'll ask for it.",
        "A person has to agree to this first. You get the answer here as soon as they have decided.",
    ]


async def test_granted_call_is_made_once_and_the_agent_goes_on_with_its_result(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: approve releases exactly that call; calls that ran before it are not run again."""
    counted = Counted(tmp_path)
    model = script(
        [calls("look_up", order="A-1")],
        [says("I'll ask for it."), calls("refund", order="A-1")],
        [says("Done: refunded.")],
    )
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1 please")
    (approval,) = await asked(store, conversation_id)

    await store.decide_approval(conversation_id, approval.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "Done: refunded.")
    await router.stop()

    assert counted.executions == ["look_up A-1", "refund A-1"]
    assert "Refunded A-1, number 2." in json.dumps(model.calls[2].input)
    assert types(events)[1:] == [
        *("tool.called", "msg.created", "notice", "approval.asked", "approval.decided", "approval.used"),
        *("tool.called", "msg.created"),
    ]
    assert [event.data["tool"] for event in events if event.type == "tool.called"] == ["look_up", "refund"]
    now = await store.get(conversation_id)
    assert (now.waiting, now.meta["labels"], "rest" in now.meta) == (0, {"approval.refund": "granted"}, False)
    history = await store.history(conversation_id, "billing")
    assert [item.get("type", item.get("role")) for item in history] == [
        *("user", "function_call", "function_call_output", "message", "function_call", "function_call_output"),
        "message",
    ]
    assert "Refunded" in str(history[5]["output"])


async def test_denied_call_is_not_made_and_the_agent_reads_why(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: deny returns a labelled result, the run is not killed; a person's note is data in JSON."""
    counted = Counted(tmp_path)
    model = script([calls("refund", order="A-1")], [says("Sorry, not possible.")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "refused", by="human:ann", note='too "late"')
    events = await said(store, conversation_id, "Sorry, not possible.")
    await router.stop()

    result = [item["output"] for item in model.calls[1].input if item.get("type") == "function_call_output"]
    assert [json.loads(text) for text in result] == [{"done": False, "approval": "refused", "note": 'too "late"'}]
    assert counted.executions == []
    assert "tool.called" not in types(events)
    decided = next(event for event in events if event.type == "approval.decided")
    assert decided.data == {"approval": approval.approval_id, "verdict": "refused", "note": 'too "late"'}
    assert (await store.get(conversation_id)).meta["labels"] == {"approval.refund": "refused"}


async def test_route_branches_on_what_was_decided(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: the label of the answer picks the next step of a plan."""
    model = script([calls("refund", order="A-1")], [says("Not possible, a colleague explains.")])
    then = (Step(to="human:support", when="approval.refund == refused"),)
    router = desk_router(store, live, desk(then=then), Counted(tmp_path), {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "refused", by="human:ann")
    await wait_until("people own it", lambda: owner_is(store, conversation_id, Owner.queue("support")))
    await router.stop()


@pytest.mark.parametrize(
    ("default", "executions", "label"), [("refused", [], "expired"), ("granted", ["refund A-1"], "granted")]
)
async def test_nobody_decides_in_time_and_the_default_counts(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, default: str, executions: list[str], label: str
) -> None:
    """handoffs.md 8: expires with a default; the sweep of any process applies it and the agent goes on."""
    counted = Counted(tmp_path)
    model = script([calls("refund", order="A-1")], [says("That was it.")])
    settings = {"valid": "1s", "default": default}
    router = desk_router(store, live, desk(approvals=settings), counted, {"billing": model}, tmp_path)
    await router.start()

    await router.receive(conversation_id, CustomerMessage("m1", "refund A-1"))
    events = await said(store, conversation_id, "That was it.")
    await wait_until("the turn ends", lambda: router.running == 0)
    await router.stop()

    assert counted.executions == executions
    decided = [event for event in events if event.type == "approval.decided"]
    assert [(event.by, event.data["verdict"], event.data["late"]) for event in decided] == [("system", default, True)]
    assert (await store.get(conversation_id)).meta["labels"] == {"approval.refund": label}


async def test_one_of_two_calls_is_released_and_the_other_waits_under_its_id(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: exactly the approved call; the link to the other question stays good."""
    counted = Counted(tmp_path)
    model = script([calls("refund", order="A-1"), calls("refund", order="A-2")], [says("Both are settled.")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund both")
    ids = {one.call["arguments"]["order"]: one.approval_id for one in await asked(store, conversation_id)}

    await decide(store, conversation_id, ids["A-2"], "granted", by="human:ann")
    await wait_until("the second is refunded", lambda: counted.executions == ["refund A-2"])
    await wait_until("the turn rests", lambda: router.running == 0)
    (other,) = await asked(store, conversation_id)
    await decide(store, conversation_id, other.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "Both are settled.")
    await router.stop()

    assert other.approval_id == ids["A-1"]
    assert counted.executions == ["refund A-2", "refund A-1"]
    assert types(events).count("approval.asked") == 2
    assert types(events).count("notice") == 1


async def test_same_call_again_in_one_turn_is_asked_again(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: single use; an equal call later needs a second word, under an id of its own."""
    counted = Counted(tmp_path)
    model = script([calls("refund", order="A-1")], [calls("refund", order="A-1")], [says("Twice.")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1 twice")
    (first,) = await asked(store, conversation_id)
    await decide(store, conversation_id, first.approval_id, "granted", by="human:ann")
    await wait_until("the first is made", lambda: len(counted.executions) == 1 and router.running == 0)

    (second,) = await asked(store, conversation_id)
    assert second.approval_id != first.approval_id
    await decide(store, conversation_id, second.approval_id, "granted", by="human:ann")
    await said(store, conversation_id, "Twice.")
    await router.stop()
    assert counted.executions == ["refund A-1", "refund A-1"]


async def test_approval_comes_before_a_transfer_of_the_same_response(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 3: the refund is decided while billing owns; then orders gets the customer's message."""
    counted = Counted(tmp_path)
    models = {
        "billing": script([calls("refund", order="A-1"), transfer("orders")]),
        "orders": script([says("Orders here.")]),
    }
    router = desk_router(store, live, desk(), counted, models, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1, and where is A-2?")
    (approval,) = await asked(store, conversation_id)
    waiting = (await store.get(conversation_id)).owner

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "Orders here.")
    await wait_until("the turn ends", lambda: router.running == 0)
    await router.stop()

    assert (waiting, counted.executions) == (Owner.ai("billing"), ["refund A-1"])
    order = [name for name in types(events) if name in ("approval.used", "owner.changed", "handoff.completed")]
    assert order == ["approval.used", "owner.changed", "handoff.completed"]
    assert "where is A-2" in json.dumps(models["orders"].calls[0].input)
    assert (await store.get(conversation_id)).waiting == 0


async def test_refused_call_keeps_the_transfer_of_the_same_response_from_happening(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: the model decided on both at once; when one is denied it is asked again."""
    model = script([calls("refund", order="A-1"), transfer("orders")], [says("It was denied.")])
    router = desk_router(store, live, desk(), Counted(tmp_path), {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1, and where is A-2?")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "refused", by="human:ann")
    events = await said(store, conversation_id, "It was denied.")
    await router.stop()

    assert "owner.changed" not in types(events)
    assert "the transfer to orders" in json.dumps(model.calls[1].input)


async def test_takeover_makes_it_void_and_the_agent_goes_on_without_it(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8: bound to the agent and its epoch; after a hand back the message is answered, the call not made."""
    counted = Counted(tmp_path)
    model = script([calls("look_up", order="A-1"), calls("refund", order="A-1")], [says("Hello again.")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)
    ann = Person("ann", "Ann")

    taken = await router.take(conversation_id, person=ann)
    with pytest.raises(ApprovalVoid, match="human:ann owns the conversation now"):
        await decide(store, conversation_id, approval.approval_id, "granted", by="human:bob")
    await router.hand_back(conversation_id, taken.token, ann, "billing", "please answer")
    await said(store, conversation_id, "Hello again.")
    await wait_until("the turn ends", lambda: router.running == 0)
    with pytest.raises(ApprovalVoid):
        await decide(store, conversation_id, approval.approval_id, "granted", by="human:bob")
    await router.stop()

    assert counted.executions == ["look_up A-1"]
    now = await store.get(conversation_id)
    assert (now.waiting, "rest" in now.meta) == (0, False)
    assert await store.resting(conversation_id, []) == ([], "")
    read = json.dumps(model.calls[1].input)
    assert "A-1 was charged twice." in read and "somebody has to decide" in read  # what ran is known, what did not too


@pytest.mark.parametrize(("waiting", "lines"), [("queue", 0), ("line", 1)])
async def test_messages_during_the_wait_are_answered_after_the_decision(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, waiting: str, lines: int
) -> None:
    """handoffs.md 8: queued by every route, with one holding line if the route wants it; nothing is lost."""
    model = script([calls("refund", order="A-1")], [says("Refunded.")], [says("And it arrives tomorrow.")])
    roster_ = desk(approvals={"waiting": waiting, "line": "One moment please."})
    router = desk_router(store, live, roster_, Counted(tmp_path), {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)

    await write(router, conversation_id, "how long does it take?", "m2")
    await write(router, conversation_id, "and where is my parcel?", "m3")
    before = len(model.calls)
    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    events = await said(store, conversation_id, "And it arrives tomorrow.")
    await wait_until("the turn ends", lambda: router.running == 0)
    await router.stop()

    assert before == 1
    assert [e.data["text"] for e in events if e.type == "notice"][1:] == ["One moment please."] * lines
    told = [item["content"] for item in model.calls[2].input if item.get("role") == "user"]
    assert told == ["refund A-1", "how long does it take?", "and where is my parcel?"]
    assert (await store.get(conversation_id)).waiting == 0
    assert types(events).index("approval.decided") < types(events).index("approval.used")


async def test_run_that_cannot_be_taken_up_goes_to_people_and_the_customer_is_told(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 11: a saved state that the SDK cannot read (an upgrade) has a defined next owner."""
    counted = Counted(tmp_path)
    model = script([calls("refund", order="A-1")])
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)
    await store.backend.cmd.set(Keys.of(conversation_id).rest, '{"$schemaVersion": "99.0"}')

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await router.start()
    await wait_until("people own it", lambda: owner_is(store, conversation_id, Owner.queue("support")))
    await router.stop()

    events = await store.read(conversation_id)
    assert counted.executions == []
    assert "Sorry" in next(e for e in events if e.type == "owner.changed").data["text"]
    assert "could not be taken up" in next(e for e in events if e.type == "turn.failed").data["why"]


async def test_model_that_fails_after_the_call_leaves_its_result_with_the_agent(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8, 9 and 11: the call was made, the model is down: people take over, and nothing is made again."""
    counted = Counted(tmp_path)
    model = script([calls("look_up", order="A-1"), calls("refund", order="A-1")], RuntimeError("the model is down"))
    router = desk_router(store, live, desk(), counted, {"billing": model}, tmp_path)
    await router.start()
    await write(router, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await wait_until("people own it", lambda: owner_is(store, conversation_id, Owner.queue("support")))
    await router.stop()

    assert counted.executions == ["look_up A-1", "refund A-1"]
    history = json.dumps(await store.history(conversation_id, "billing"))
    assert history.count("Refunded A-1") == 1 and history.count("was charged twice") == 1
    assert "somebody has to decide" not in history


async def test_agent_that_left_the_roster_meanwhile_has_a_successor(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 8 and 11: the decision wakes a conversation whose agent is gone; its successor answers."""
    counted = Counted(tmp_path)
    asking = desk_router(store, live, desk(), counted, {"billing": script([calls("refund", order="A-1")])}, tmp_path)
    await write(asking, conversation_id, "refund A-1")
    (approval,) = await asked(store, conversation_id)
    smaller = roster(agent("orders", transfer_to=("human:support",)), successors={"billing": "orders"})
    heir = desk_router(store, live, smaller, counted, {"orders": script([says("Orders here.")])}, tmp_path)

    await decide(store, conversation_id, approval.approval_id, "granted", by="human:ann")
    await heir.start()
    await said(store, conversation_id, "Orders here.")
    await wait_until("the turn ends", lambda: heir.running == 0)
    await heir.stop()

    now = await store.get(conversation_id)
    assert (counted.executions, now.owner, now.waiting) == ([], Owner.ai("orders"), 0)
    assert "rest" not in now.meta


async def test_saved_run_holds_neither_context_nor_secrets(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """What is kept for the next worker is the SDK's state without the context that tools get."""
    router = desk_router(
        store, live, desk(), Counted(tmp_path), {"billing": script([calls("refund", order="A-1")])}, tmp_path
    )
    await write(router, conversation_id, "refund A-1")

    _, saved = await store.resting(conversation_id, [])

    assert "A-1" in saved
    assert str(tmp_path) not in saved and "data_dir" not in saved


def test_id_is_worked_out_again_from_the_same_facts() -> None:
    """handoffs.md 8: a stable id: conversation, tenure, turn, agent, tool, arguments, n-th; spaces do not matter."""
    wish = Wish(call_id="c1", tool="refund", agent="billing", arguments='{"order": "A-1", "amount": 2}')
    same = Wish(call_id="c9", tool="refund", agent="billing", arguments='{"amount":2,"order":"A-1"}')
    other = Wish(call_id="c1", tool="refund", agent="billing", arguments='{"order": "A-2", "amount": 2}')

    id_ = approval_id(wish, "c:1:1", 1)

    assert approval_id(same, "c:1:1", 1) == id_
    assert len({id_, approval_id(other, "c:1:1", 1), approval_id(wish, "c:2:1", 1), approval_id(wish, "c:1:1", 2)}) == 4
    assert [call.approval_id for call in named([wish, same], None, "c:1:1", ())] == [
        id_,
        approval_id(wish, "c:1:1", 2),
    ]


async def owner_is(store: Store, conversation_id: str, owner: Owner) -> bool:
    return (await store.get(conversation_id)).owner == owner
