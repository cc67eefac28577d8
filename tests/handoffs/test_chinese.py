"""Agents, instructions, tools and customers in Chinese and in mixed languages: from files and from SDK agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, FunctionTool, Model
from agents.testing import function_call

from handoffs.errors import RosterInvalid
from handoffs.lint import check
from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.sdk_agents import id_of
from sessions.live import Live
from sessions.model import Owner
from sessions.store import Store
from tests.handoffs.desks import router_for, says, script, transfer
from tests.handoffs.folders import write
from tests.handoffs.test_router import ask, texts

FILES: dict[str, str | bytes] = {
    "desk.yaml": """\
        name: 绿叶商店
        start: triage
        languages: [zh, en]
        variables: {shop_name: 绿叶商店}
        queues:
          support: {name: {zh: 人工客服, en: Support}, hours: always}
        values:
          order_number: {pattern: "订单-[0-9]{4}"}
        """,
    "triage/agent.md": """\
        ---
        name: 前台
        intended_use: 了解客户需要什么
        transfer_to: [billing, after_sales, human:support]
        ---
        你为{shop_name}的客户服务。JSON 示例：{"键": "值"}
        """,
    "billing/agent.md": """\
        ---
        name: 账单
        intended_use: 发票、付款和退款
        examples: [我被重复扣款了]
        transfer_to: [after_sales, human:support]
        values: {read: [order_number], write: [order_number]}
        tools: [look_up]
        ---
        你负责账单。
        """,
    "billing/tools.py": '''\
        from agents import RunContextWrapper, function_tool

        @function_tool
        def look_up(ctx: RunContextWrapper, order: str) -> str:
            """查询订单的付款情况"""
            ctx.context.values.set("order_number", order)
            return f"{order}：已付款两次"
        ''',
    "after_sales/agent.md": """\
        ---
        name: 售后
        intended_use: 退货、换货和维修
        examples: [我要退货]
        transfer_to: [billing, human:support]
        ---
        你负责售后。
        """,
}
IN_CHINESE = "我正在为您转接人工客服：人工客服。他们能看到您之前的消息，您可以继续在这里留言。"


@pytest.fixture
def desk(tmp_path: Path) -> Roster:
    return load_roster(write(tmp_path / "agents", FILES))


def test_a_desk_in_chinese_has_nothing_wrong_with_it(tmp_path: Path) -> None:
    """handoffs.md 2.1: names, texts, examples, variables and tools in Chinese pass `frontdesk check`."""
    found = check(write(tmp_path / "agents", FILES))
    assert found.errors == ()
    assert found.tools is not None and found.tools.defined["billing"] == ["look_up"]


async def test_agents_from_files_with_chinese_names_are_told_apart(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster
) -> None:
    """handoffs.md 2.1: `账单` and `售后` are two targets with their own descriptions, and each is reached."""
    triage = script([transfer("billing", reason="重复扣款", facts=["订单-1001 付了两次"])])
    billing = script([transfer("after_sales", reason="客户要退货")])
    after = script([says("您好，我来处理退货。")])
    models: dict[str, Model] = {"triage": triage, "billing": billing, "after_sales": after}

    events = await ask(
        router_for(store, live, desk, models, tmp_path), conversation_id, "订单-1001 扣了两次款，我要退货"
    )

    offered = next(tool for tool in triage.calls[0].tools if isinstance(tool, FunctionTool))
    assert offered.params_json_schema["properties"]["agent_id"]["enum"] == ["billing", "after_sales", "human:support"]
    assert "- billing: 发票、付款和退款" in offered.description
    assert [e.data["text"] for e in events if e.type == "owner.changed"] == [
        "现在由账单为您服务。",
        "现在由售后为您服务。",
    ]
    assert texts(events, "ai:after_sales") == ["您好，我来处理退货。"]
    assert "订单-1001 付了两次" in str(billing.calls[0].input) and "客户要退货" in str(after.calls[0].input)


async def test_chinese_instructions_reach_the_model_unchanged(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster
) -> None:
    """agent-files.md: declared names are filled in; any other brace is just text, also around Chinese."""
    triage = script([says("您好")])

    await ask(router_for(store, live, desk, {"triage": triage}, tmp_path), conversation_id, "你好")

    text = str(triage.calls[0].system_instructions)
    assert text.startswith('你为绿叶商店的客户服务。JSON 示例：{"键": "值"}')
    assert "You speak to the customer as 前台." in text


async def test_tool_with_chinese_description_arguments_and_values_works(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster
) -> None:
    """handoffs.md 4: a Chinese value passes its contract, is stored as it is and is known to the next model call."""
    billing = script(
        [function_call("look_up", {"order": "订单-1001"}, call_id="c1")], [says("付了两次。")], [says("好")]
    )
    models: dict[str, Model] = {"triage": script([transfer("billing")]), "billing": billing}
    router = router_for(store, live, desk, models, tmp_path)

    await ask(router, conversation_id, "订单-1001 付款了吗")
    await ask(router, conversation_id, "那就退款吧", "m2")

    assert "订单-1001：已付款两次" in str(billing.calls[1].input)
    assert '- order_number: "订单-1001"' in str(billing.calls[2].system_instructions)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("我要找人工", "我正在为您转接人工客服：人工客服。他们能看到您之前的消息，您可以继续在这里留言。"),
        (
            "我的 iPhone 15 Pro 订单没到",
            "我正在为您转接人工客服：人工客服。他们能看到您之前的消息，您可以继续在这里留言。",
        ),
        (
            "I would like to talk to a person please",
            "I'm passing you to a person: Support. They see what you wrote, and you can go on writing here.",
        ),
    ],
    ids=["chinese", "mixed", "english"],
)
async def test_the_desk_speaks_the_language_of_the_message(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster, text: str, sentence: str
) -> None:
    """handoffs.md 10: Chinese with product names in Latin letters is Chinese; names follow the language."""
    router = router_for(store, live, desk, {"triage": script([transfer("human:support")])}, tmp_path)

    events = await ask(router, conversation_id, text)

    assert [event.data["text"] for event in events if event.type == "owner.changed"] == [sentence]


async def test_a_customer_may_change_the_language_in_the_middle(
    store: Store, live: Live, conversation_id: str, tmp_path: Path, desk: Roster
) -> None:
    """handoffs.md 2.6: the owner stays, and what the desk says follows the last message."""
    models: dict[str, Model] = {
        "triage": script([says("Hello!")], [transfer("billing")]),
        "billing": script([says("您好")]),
    }
    router = router_for(store, live, desk, models, tmp_path)

    await ask(router, conversation_id, "hello, is anybody there?")
    events = await ask(router, conversation_id, "我被重复扣款了", "m2")

    assert next(e for e in events if e.type == "owner.changed").data["text"] == "现在由账单为您服务。"


def test_a_folder_with_a_chinese_name_is_refused_and_the_way_out_is_told(tmp_path: Path) -> None:
    """agent-files.md: the id is ASCII, the display name is free; the error says which is which."""
    with pytest.raises(RosterInvalid, match=r"账单/.*the folder is the agent's id.*the display name is `name:`"):
        load_roster(write(tmp_path, {"账单/agent.md": str(FILES["billing/agent.md"])}))


async def test_sdk_agents_with_mixed_names_take_over_from_each_other(
    store: Store, live: Live, conversation_id: str, tmp_path: Path
) -> None:
    """handoffs.md 2.1: `Billing 账单`, `Billing 售后` and `Billing` are three ids."""
    names = ["Billing 账单", "Billing 售后", "Billing"]
    ids = [id_of(name) for name in names]
    last = script([says("到了")])
    agents = [Agent[Any](name=name, instructions="帮忙。", model=last) for name in names]
    triage = Agent[Any](name="前台", handoffs=[*agents], model=script([transfer(ids[1])]))
    roster = Roster.from_agents(triage, languages=("zh",))

    events = await ask(router_for(store, live, roster, {}, tmp_path), conversation_id, "我要退货")

    assert len(set(ids)) == 3 and all(id_.startswith("billing") and id_.isascii() for id_ in ids)
    assert (await store.get(conversation_id)).owner == Owner.ai(ids[1])
    assert next(e for e in events if e.type == "owner.changed").data["text"] == "现在由Billing 售后为您服务。"
