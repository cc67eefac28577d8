"""The desk that is shipped in agents/, with the offline model: what a first-time visitor will try."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.offline.encoder import SentenceEncoder
from app.offline.provider import OfflineProvider
from handoffs.knowledge import Knowledge, load_passages
from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.toolbox import load_tools
from tests.app.offline.talk import Talk

AGENTS = Path(__file__).parents[3] / "agents"


@pytest.fixture(scope="module")
def shop() -> Roster:
    return load_roster(AGENTS)


@pytest.fixture
def visit(shop: Roster, encoder: SentenceEncoder, tmp_path: Path) -> Callable[..., Talk]:
    """Starts a conversation with the shop: `visit("zh")`."""
    tools = {agent: list(found.values()) for agent, found in load_tools(shop).items()}
    passages = {agent.id: load_passages(agent.folder / "knowledge") for agent in shop.agents.values()}
    knowledge = {agent: Knowledge(found, encoder) for agent, found in passages.items() if found}
    provider = OfflineProvider(shop, encoder, delay_s=0)
    return lambda language="en": Talk(shop, provider, tmp_path, tools, knowledge, language)


async def test_charged_twice_and_the_parcel(visit: Callable[..., Talk]) -> None:
    """The headline: billing first, its tool once the number is there, then on to orders for the second question."""
    talk = visit()
    first = await talk.say("I was charged twice for my order, and where is my parcel?")
    assert (first.owner, first.transfers[0].brief.open_questions) == ("billing", ("where is my parcel?",))
    second = await talk.say("A-10023")
    assert second.tools() == ["find_duplicate_charge"]
    assert "charged twice" in second.answer and "Orders and delivery" in second.answer
    third = await talk.say("yes please")
    assert (third.owner, third.tools()[-1]) == ("orders", "track_parcel")
    assert "A-10023" in third.answer


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("why was I charged two times", "billing"),
        ("Where's my package? It should have come on Monday.", "orders"),
        ("I'd like to send the vase back", "returns"),
        ("the speaker does not connect to my phone any more", "technical"),
        ("同一个订单扣了我两次钱", "billing"),
        ("我的快递怎么还没到", "orders"),
        ("杯子收到就是碎的", "returns"),
        ("台灯不亮了", "technical"),
        ("Hello!", "triage"),
        ("How is the weather on Mars?", "triage"),
        ("let me talk to a human please", "human:support"),
        ("转人工", "human:support"),
    ],
)
async def test_first_messages_reach_their_agent(visit: Callable[..., Talk], text: str, owner: str) -> None:
    """Phrasings that are in no agent's examples reach the agent they are about, in both languages."""
    talk = visit("zh" if any("\u3400" <= c <= "\u9fff" for c in text) else "en")
    assert (await talk.say(text)).owner == owner


async def test_a_refund_is_only_called_for_when_the_customer_asks(visit: Callable[..., Talk]) -> None:
    """Finding a double charge refunds nothing; the customer's own wish does, with the amount that the tool named."""
    talk = visit()
    found = await talk.say("I was charged twice for order A-10023")
    assert found.tools() == ["transfer_to_agent", "find_duplicate_charge"]
    asked = await talk.say("please refund the second payment")
    assert asked.tools() == ["issue_refund"]
    assert '"order_number": "A-10023"' in asked.calls[0][2]


async def test_a_refund_in_the_words_of_the_check_is_not_the_check_again(visit: Callable[..., Talk]) -> None:
    """What was looked up is not looked up again when the customer names what only the other tool does."""
    talk = visit()
    await talk.say("I was charged twice for order A-10023")
    asked = await talk.say("please refund me the duplicate charge")
    assert asked.tools() == ["issue_refund"]
    other = await talk.say("A-10047")
    assert other.tools() == ["find_duplicate_charge"]  # nothing is refunded for an order that was not checked


async def test_a_new_number_replaces_the_one_in_the_request(visit: Callable[..., Talk]) -> None:
    """A bare number asks the same again about another order, also when the first number was in the request."""
    talk = visit()
    await talk.say("where is my parcel for order A-10023?")
    turn = await talk.say("A-10047")
    assert turn.calls == [("orders", "track_parcel", '{"order_number": "A-10047"}')]


@pytest.mark.parametrize("text", ["nothing works", "a b", "tell me nothing, what about the nothing thing", "bye"])
async def test_the_first_message_is_never_answered_with_a_farewell(visit: Callable[..., Talk], text: str) -> None:
    """Words that are merely like a farewell, and any first words, do not end the conversation."""
    assert "Goodbye" not in (await visit().say(text)).answer


@pytest.mark.parametrize(
    ("text", "leaves"),
    [("bye", True), ("ok thanks, bye", True), ("goodbye!", True), ("nothing works", False), ("a b", False)],
)
async def test_a_farewell_is_a_message_that_says_nothing_else(
    visit: Callable[..., Talk], text: str, leaves: bool
) -> None:
    """Later in a conversation a listed farewell is answered with one; what is only near to it is not."""
    talk = visit()
    await talk.say("Hello!")
    assert ("Goodbye" in (await talk.say(text)).answer) is leaves


@pytest.mark.parametrize(
    "text",
    [
        "I want to complain about your service", "I have a complaint", "我想投诉你们的服务", "我要投诉",
    ],
)  # fmt: skip
async def test_what_a_queue_is_for_goes_to_its_people(visit: Callable[..., Talk], text: str) -> None:
    """The queue's own intended_use names complaints: triage and specialists pass them on, word for word."""
    talk = visit("zh" if any("\u3400" <= c <= "\u9fff" for c in text) else "en")
    turn = await talk.say(text)
    assert (turn.owner, turn.transfers[0].brief.goal) == ("human:support", text)
    talk = visit()
    await talk.say("where is my parcel")
    assert (await talk.say(text)).owner == "human:support"


async def test_a_return_is_checked_first_and_opened_on_yes(visit: Callable[..., Talk]) -> None:
    """Before something is changed the agent looks, and the customer decides on what it found."""
    talk = visit()
    looked = await talk.say("I want to return the vase from order A-10031")
    assert looked.tools() == ["transfer_to_agent", "check_return"]
    assert (await talk.say("yes please")).tools() == ["open_return"]


async def test_one_word_changes_nothing(visit: Callable[..., Talk]) -> None:
    """A subject without a wish, and then a number, look something up and open nothing."""
    talk = visit()
    await talk.say("returns")
    assert "open_return" not in (await talk.say("A-10031")).tools()


async def test_knowledge_is_quoted_in_both_languages(visit: Callable[..., Talk]) -> None:
    """The same question gets the passage of its language, with the source."""
    english = await visit().say("How long is the warranty?")
    assert "24 months" in english.answer and "[source: technical/" in english.answer
    chinese = await visit("zh").say("保修期多长时间？")
    assert "24" in chinese.answer and "[来源：technical/" in chinese.answer


async def test_the_shop_is_fitted_within_a_second(shop: Roster, encoder: SentenceEncoder) -> None:
    """With the weights loaded, the demo desk is ready to route in under a second."""
    encoder.encode(["warm"])
    begun = time.process_time()
    OfflineProvider(shop, encoder, delay_s=0).warm()
    assert time.process_time() - begun < 1.0
