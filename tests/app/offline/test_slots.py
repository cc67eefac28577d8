"""app.offline.slots: finding what a schema asks for in what people write."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from agents import function_tool
from pydantic import Field

from app.offline.slots import Slot, bare, find, references, slots_of, without_references

ORDER = Slot("order_number", "Order number", pattern=r"^A-\d{5}$")
AMOUNT = Slot("amount", "Amount", pattern=r"^[0-9]{1,5}\.[0-9]{2}$")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A-10023", "A-10023"),
        ("my order a 10023 please", "A-10023"),
        ("A10023", "A-10023"),
        ("订单号是Ａ－１００２３。", "A-10023"),
        ("A–10023?", "A-10023"),
        ("A-100234", None),
        ("XA-10023", None),
        ("10023", None),
        ("", None),
    ],
)
def test_a_code_is_found_as_people_spell_it(text: str, value: str | None) -> None:
    """Case, dashes, spaces and full-width forms do not matter; the value is spelled as the pattern says."""
    assert find(ORDER, [text]) == value


def test_the_newest_text_wins() -> None:
    """Texts are searched in the order given, newest first."""
    assert find(ORDER, ["no number", "A-10002 or A-10003", "A-10001"]) == "A-10002"


@pytest.mark.parametrize(
    ("slot", "text", "value"),
    [
        (AMOUNT, "please refund 49,90 euros", "49.90"),
        (Slot("invoice", "", pattern=r"^(INV|RE)-\d{4}$"), "see INV-1234 now", "INV-1234"),
        (Slot("email", "", format="email"), "write to me: bob.k@mail.example.org, thanks", "bob.k@mail.example.org"),
        (Slot("day", "", format="date"), "on 2026-12-24 please", "2026-12-24"),
        (Slot("count", "", type="integer"), "I want 3 of A-10023", 3),
        (Slot("sum", "", type="number"), "about 1,234.50 euros", 1234.5),
        (Slot("size", "", options=("small", "extra_large")), "an Extra Large one", "extra_large"),
        (Slot("size", "", options=("small", "extra_large")), "any", None),
        (Slot("name", ""), "my name is Bob", None),
        (Slot("odd", "", pattern=r"^\p{L}+$"), "what JSON Schema allows and Python does not", None),
    ],
)
def test_each_kind_of_slot_is_found(slot: Slot, text: str, value: Any) -> None:
    """Amounts, e-mail addresses, dates, numbers and listed options are found; a plain text is not guessed."""
    assert find(slot, [text]) == value


def test_only_digits_answer_our_own_question() -> None:
    """The part of a code that varies is enough after we asked for it."""
    assert bare(ORDER, "it's 10023, thanks") == "A-10023"
    assert bare(ORDER, "123") is None
    assert bare(AMOUNT, "49") is None


def test_slots_are_read_from_the_sdks_own_schema() -> None:
    """Patterns, descriptions, enums and what may be left out come from the strict schema of a function tool."""

    @function_tool
    def move(
        order: Annotated[str, Field(description="Order", pattern=r"^A-\d{5}$")],
        speed: Literal["fast", "slow"],
        reason: str,
        floor: int | None = None,
    ) -> str:
        """Move it."""
        return f"{order}{speed}{reason}{floor}"

    order, speed, reason, floor = slots_of(move.params_json_schema)
    assert (order.pattern, order.description, order.required) == (r"^A-\d{5}$", "Order", True)
    assert speed.options == ("fast", "slow")
    assert reason.is_free_text and not order.is_free_text
    assert (floor.type, floor.required) == ("integer", False)


def test_references_are_told_from_words() -> None:
    """Codes and addresses become facts, and are left out of what is routed."""
    assert references("A-10023 for Bob@mail.example") == ["A-10023", "Bob@mail.example"]
    assert without_references("where is A-10023 now") == "where is now"
    assert without_references("A-10023") == "A-10023"
