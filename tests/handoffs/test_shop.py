"""The demo desk in agents/: it checks clean, and its tools answer from a real SQLite shop in two languages."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from agents.tool_context import ToolContext

from handoffs.context import TurnContext
from handoffs.lint import check
from handoffs.loader import load_roster
from handoffs.shared_values import AgentValues
from handoffs.toolbox import load_module, load_tools
from sessions.values import ValuesDraft

ROOT = Path(__file__).parents[2]
AGENTS = ROOT / "agents"
ROSTER = load_roster(AGENTS)
TOOLS = load_tools(ROSTER)
CHINESE = re.compile(r"[\u4e00-\u9fff]")


@dataclass
class Customer:
    """One conversation with the demo desk's tools. `said` calls a tool the way the SDK does."""

    data_dir: Path
    language: str = "en"
    turn_id: str = "t_1"
    held: ValuesDraft = field(default_factory=lambda: ValuesDraft({}))

    async def said(self, agent_id: str, tool: str, **arguments: str) -> str:
        context = TurnContext(
            conversation_id="c_1",
            agent_id=agent_id,
            epoch=1,
            language=self.language,
            values=AgentValues(self.held, ROSTER, ROSTER[agent_id]),
            data_dir=self.data_dir,
            turn_id=self.turn_id,
        )
        text = json.dumps(arguments)
        call = ToolContext(context=context, tool_name=tool, tool_call_id="call_1", tool_arguments=text)
        return str(await TOOLS[agent_id][tool].on_invoke_tool(call, text))


@pytest.fixture
def customer(tmp_path: Path) -> Customer:
    return Customer(tmp_path)


def rows(data_dir: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(data_dir / "shop.sqlite3")) as db:
        return db.execute(query).fetchall()


def test_the_demo_desk_has_no_error_and_no_warning() -> None:
    """What we ship is what we ask of operators."""
    assert [str(problem) for problem in check(AGENTS).problems] == []


def test_the_demo_desk_speaks_english_and_chinese() -> None:
    """Names, purposes, announcements and examples exist in both languages, and queues have hours."""
    assert ROSTER.desk.languages == ("en", "zh")
    assert {*ROSTER.agents} == {"triage", "orders", "returns", "billing", "technical"}
    for agent in ROSTER.agents.values():
        chinese = [example for example in agent.examples if CHINESE.search(example)]
        assert len(agent.examples) - len(chinese) >= 10 and len(chinese) >= 6
        assert CHINESE.search(ROSTER.display_name(agent.id, "zh")) and CHINESE.search(
            ROSTER.announcement(agent.id, "zh")
        )
        assert not CHINESE.search(ROSTER.display_name(agent.id, "en") + ROSTER.intended_use(agent.id, "en"))
    assert {*ROSTER.desk.queues} == {"support", "billing"}


def test_instructions_have_their_variables_filled_in() -> None:
    """No placeholder reaches a model."""
    for agent in ROSTER.agents.values():
        assert "Luma & Oak" in agent.instructions
        assert "{" not in agent.instructions


def test_every_specialist_has_knowledge_in_both_languages() -> None:
    """Each English file has a Chinese one with headings to find by."""
    for agent_id in ("orders", "returns", "billing", "technical"):
        files = sorted((AGENTS / agent_id / "knowledge").glob("*.md"))
        english = [file for file in files if not file.name.endswith(".zh.md")]
        assert english
        for file in english:
            chinese = file.with_name(f"{file.stem}.zh.md").read_text(encoding="utf-8")
            assert file.read_text(encoding="utf-8").count("\n## ") >= 5
            assert chinese.count("\n## ") >= 5 and CHINESE.search(chinese)


def test_tools_say_in_customer_words_when_they_are_used_and_slots_carry_patterns() -> None:
    """A model, also the offline one, chooses by the first line and fills slots by pattern and description."""
    for tools in TOOLS.values():
        for tool in tools.values():
            first, *rest = tool.description.splitlines()
            assert len(first) > 30 and CHINESE.search("".join(rest))
            slot = tool.params_json_schema["properties"]["order_number"]
            assert re.fullmatch(slot["pattern"], "A-10023")
            assert "A-10023" in slot["description"]


def test_moving_money_needs_an_approval() -> None:
    """issue_refund is the one tool of the demo that a person confirms."""
    assert {agent.id: agent.approval for agent in ROSTER.agents.values() if agent.approval} == {
        "billing": ("issue_refund",)
    }


EXPECTED = [
    ("A-10023", "billing", "find_duplicate_charge", "charged twice: 2 payments of 94.80 EUR", "扣款 2 次"),
    ("A-10015", "billing", "find_duplicate_charge", "charged twice: 2 payments of 74.80 EUR", "扣款 2 次"),
    ("A-10090", "billing", "find_duplicate_charge", "charged 3 times", "扣款 3 次"),
    ("A-10031", "billing", "find_duplicate_charge", "no double charge", "没有重复扣款"),
    ("A-10119", "billing", "find_duplicate_charge", "was refunded on", "退还"),
    ("A-10104", "billing", "find_duplicate_charge", "41.80 EUR was refunded", "退还"),
    ("A-10023", "billing", "lookup_invoice", "Invoice INV-10023", "发票 INV-10023"),
    ("A-10023", "orders", "track_parcel", "on its way with", "正在由"),
    ("A-10031", "orders", "track_parcel", "was delivered on", "送达"),
    ("A-10047", "orders", "track_parcel", "is late", "延误"),
    ("A-10064", "orders", "track_parcel", "still being prepared", "仍在备货"),
    ("A-10104", "orders", "track_parcel", "was cancelled", "已取消"),
    ("A-10064", "orders", "lookup_order", "can still be changed", "还可以修改"),
    ("A-10023", "orders", "lookup_order", "1 x Luma desk lamp", "Luma 台灯"),
    ("A-10031", "returns", "check_return", "can be returned until", "可以退货"),
    ("A-10058", "returns", "check_return", "ended on", "已于"),
    ("A-10072", "returns", "check_return", "Return R-20001", "退货 R-20001"),
    ("A-10085", "returns", "check_return", "finished", "退货已完成"),
    ("A-10023", "returns", "check_return", "not been delivered yet", "还没有送达"),
    ("A-10104", "returns", "check_return", "nothing to send back", "无需退货"),
    ("A-10112", "returns", "check_return", "cannot be returned", "不能退货"),
    ("A-10058", "technical", "check_warranty", "under warranty until", "保修期到"),
    ("A-10096", "technical", "check_warranty", "ended on", "已于"),
    ("A-10023", "technical", "check_warranty", "not been delivered", "还没有送达"),
]


@pytest.mark.parametrize(("order", "agent_id", "tool", "english", "chinese"), EXPECTED)
async def test_the_documented_orders_are_as_documented(
    customer: Customer, order: str, agent_id: str, tool: str, english: str, chinese: str
) -> None:
    """The orders listed at the top of seed.py answer as it says, in both languages, in at most three sentences."""
    said = await customer.said(agent_id, tool, order_number=order)
    assert english in said and order in said
    assert len(re.findall(r"[.?!](?:\s|$)", said)) <= 4
    customer.language = "zh-CN"
    said = await customer.said(agent_id, tool, order_number=order)
    assert chinese in said and order in said


@pytest.mark.parametrize("typed", ["a-10023", "A10023", "a 10023", " A - 10023 ", "Ａ－１００２３", "A–10023"])
async def test_an_order_number_is_understood_as_customers_type_it(customer: Customer, typed: str) -> None:
    """Lower case, missing or odd dashes, spaces, full-width digits."""
    said = await customer.said("orders", "track_parcel", order_number=typed)
    assert "order A-10023" in said
    assert customer.held.get("order_number") == "A-10023"


@pytest.mark.parametrize(
    "typed",
    ["A-99999", "", "10023", "' OR '1'='1", "A-10023'; DROP TABLE orders; --", "A-10023\x00", "x" * 5000, "A-१००२३"],
)
async def test_an_unknown_or_hostile_order_number_gets_a_friendly_sentence(customer: Customer, typed: str) -> None:
    """No exception, no other customer's order, nothing changed, and no echo of what was typed unless it is plain."""
    for agent_id, tools in TOOLS.items():
        for name, tool in tools.items():
            slots = {"amount": "10.00", "reason": "x"}
            arguments = {key: slots[key] for key in tool.params_json_schema["properties"] if key in slots}
            said = await customer.said(agent_id, name, order_number=typed, **arguments)
            assert said.startswith("I cannot find an order")
            assert "DROP" not in said and len(said) < 250
    assert rows(customer.data_dir, "SELECT count(*) FROM orders") == [(120,)]
    assert "order_number" not in customer.held


async def test_a_return_is_opened_once(customer: Customer) -> None:
    """The same call in the same turn, and a new wish in a later turn, find the return that is there."""
    first = await customer.said("returns", "open_return", order_number="A-10031", reason="too small")
    again = await customer.said("returns", "open_return", order_number="a-10031", reason="it is too small")
    customer.turn_id = "t_2"
    later = await customer.said("returns", "open_return", order_number="A-10031", reason="other")
    assert first == again == later
    assert "R-20003" in first
    assert customer.held.get("return_number") == "R-20003"
    assert rows(customer.data_dir, "SELECT count(*) FROM returns WHERE order_number = 'A-10031'") == [(1,)]


@pytest.mark.parametrize("order", ["A-10058", "A-10112", "A-10023", "A-10104"])
async def test_a_return_that_is_not_allowed_is_not_opened(customer: Customer, order: str) -> None:
    """Out of the window, excluded, not delivered, cancelled: the rule is in code, not in a prompt."""
    await customer.said("returns", "open_return", order_number=order, reason="x")
    assert rows(customer.data_dir, f"SELECT * FROM returns WHERE order_number = '{order}'") == []  # noqa: S608 - a test


async def test_a_refund_is_made_once_per_turn_however_it_is_worded(customer: Customer) -> None:
    """A turn that is run again after a crash pays once; the model may word the reason anew."""
    first = await customer.said("billing", "issue_refund", order_number="A-10023", amount="94.80", reason="double")
    again = await customer.said(
        "billing", "issue_refund", order_number="A-10023", amount="94,80", reason="charged twice"
    )
    assert first == again and "94.80 EUR" in first
    assert rows(customer.data_dir, "SELECT count(*) FROM refunds WHERE order_number = 'A-10023'") == [(1,)]
    assert customer.held.get("refund_reference") == "F-30004"


async def test_no_more_is_refunded_than_was_charged_too_much(customer: Customer) -> None:
    """Neither in one call nor over several turns; an order that was charged once gets nothing."""
    too_much = await customer.said("billing", "issue_refund", order_number="A-10023", amount="94.81", reason="x")
    assert "94.80 EUR can be refunded" in too_much
    await customer.said("billing", "issue_refund", order_number="A-10023", amount="94.80", reason="x")
    customer.turn_id = "t_2"
    second = await customer.said("billing", "issue_refund", order_number="A-10023", amount="94.80", reason="x")
    once = await customer.said("billing", "issue_refund", order_number="A-10031", amount="0.01", reason="x")
    assert "a person has to decide" in second and "a person has to decide" in once
    query = "SELECT sum(amount_cents) FROM refunds WHERE order_number IN ('A-10023', 'A-10031')"
    assert rows(customer.data_dir, query) == [(9480,)]


@pytest.mark.parametrize("amount", ["0.00", "-5.00", "many", "1e3", "", "99999999.00", "94.8"])
async def test_an_amount_that_is_none_moves_no_money(customer: Customer, amount: str) -> None:
    """The model gets a problem to correct; nothing is written."""
    await customer.said("billing", "issue_refund", order_number="A-10023", amount=amount, reason="x")
    assert rows(customer.data_dir, "SELECT count(*) FROM refunds WHERE order_number = 'A-10023'") == [(0,)]


def test_eight_processes_make_one_shop_at_once(tmp_path: Path) -> None:
    """All of them answer, and there is one set of data."""
    code = (
        "import sys; from pathlib import Path\n"
        "from handoffs.loader import load_roster\nfrom handoffs.toolbox import load_module\n"
        "db = load_module(load_roster(Path(sys.argv[1])), '_shop.db')\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "print(db.Shop.open(Path(sys.argv[2])).order('A-10023').total_cents)\n"
    )
    command = [sys.executable, "-c", code, str(AGENTS), str(tmp_path)]
    started = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(8)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"  # imports done: now all of them race
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60) for process in started]
    assert [out for out, _ in answers] == ["9480\n"] * 8, answers
    assert rows(tmp_path, "SELECT count(*) FROM orders") == [(120,)]
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_the_shop_is_the_same_on_every_machine(tmp_path: Path) -> None:
    """Forty customers, 120 orders, several double charges, one invoice per order; equal for an equal day."""
    shops = [load_module(ROSTER, "_shop.db").Shop.open(tmp_path / name, today=date(2026, 11, 30)) for name in "ab"]
    tables = (
        "customers",
        "orders",
        "order_lines",
        "parcels",
        "tracking_events",
        "invoices",
        "payments",
        "refunds",
        "returns",
    )
    dumps: list[Mapping[str, Any]] = [
        {table: rows(shop.path.parent, f"SELECT * FROM {table}") for table in tables}  # noqa: S608 - names above
        for shop in shops
    ]
    assert dumps[0] == dumps[1]
    sizes = {table: len(dumps[0][table]) for table in tables}
    assert (sizes["customers"], sizes["orders"], sizes["invoices"]) == (40, 120, 120)
    assert sizes["payments"] == 120 + 5
    assert rows(tmp_path / "a", "PRAGMA journal_mode") == [("wal",)]
    assert rows(tmp_path / "a", "PRAGMA foreign_key_check") == []


def test_the_demo_does_not_grow_old(tmp_path: Path) -> None:
    """Weeks later the seeded days have moved with the calendar; what a customer did keeps its day."""
    shop_class = load_module(ROSTER, "_shop.db").Shop
    first = date(2026, 11, 30)
    shop_class.open(tmp_path, today=first).open_return("A-10031", "too small", "key")
    later = first + timedelta(days=45)
    shop = shop_class.open(tmp_path, today=later)
    assert shop.parcel("A-10023").expected_on == later + timedelta(days=2)
    assert shop.parcel("A-10031").delivered_on == later - timedelta(days=4)
    assert shop.return_of("A-10031").opened_on == first
