"""What the shop's tools share: their slots, the customer's language, and how money and days are written."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Annotated, Any

from agents import RunContextWrapper
from frontdesk_agents._shop.db import Order, Payment, Shop, order_number
from pydantic import Field

from handoffs.context import TurnContext
from handoffs.errors import ToolProblem

Context = RunContextWrapper[TurnContext]

# The patterns are for the model (it fills and spells slots by them) and are not checked before the call: a customer who
# writes "a 10023" or a number that nobody has gets a sentence from the tool, not an error.
OrderNumber = Annotated[
    str,
    Field(
        description="Order number, like A-10023 | 订单号，例如 A-10023",
        json_schema_extra={"pattern": r"^A-[0-9]{5}$"},
    ),
]
Amount = Annotated[
    str,
    Field(description="Amount in EUR, like 49.90", json_schema_extra={"pattern": r"^[0-9]{1,5}\.[0-9]{2}$"}),
]
Reason = Annotated[str, Field(description="The reason, in a few words of the customer")]

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def say(ctx: Context, *, en: str, zh: str) -> str:
    """The sentence in the customer's language; English for every language but Chinese."""
    return zh if ctx.context.language.lower().startswith("zh") else en


def money(ctx: Context, cents: int) -> str:
    return say(ctx, en=f"{cents / 100:.2f} EUR", zh=f"{cents / 100:.2f} 欧元")


def cents(amount: str) -> int:
    """ "49.90", "49,90", "EUR 49.90" or "49" -> cents; ToolProblem when it is no amount above zero."""
    match = re.fullmatch(r"(?:EUR|€)?\s*([0-9]{1,5})(?:[.,]([0-9]{2}))?\s*(?:EUR|€)?", amount.strip(), re.IGNORECASE)
    found = int(match[1]) * 100 + int(match[2] or 0) if match else 0
    if not found:
        raise ToolProblem("amount must be more than zero EUR and look like 49.90")
    return found


def method(ctx: Context, payment: Payment) -> str:
    zh = payment.method.replace(" ending ", " 尾号 ").replace("bank transfer", "银行转账")
    return say(ctx, en=payment.method, zh=zh)


def day(ctx: Context, when: date) -> str:
    """3 December, with the year when it is not this one."""
    other_year = when.year != date.today().year
    en = f"{when.day} {_MONTHS[when.month - 1]}" + (f" {when.year}" if other_year else "")
    return say(ctx, en=en, zh=(f"{when.year}年" if other_year else "") + f"{when.month}月{when.day}日")


def products(ctx: Context, order: Order) -> str:
    names = [f"{line.quantity} x {say(ctx, en=line.name_en, zh=line.name_zh)}" for line in order.lines]
    return say(ctx, en=", ", zh="、").join(names)


def find_order(ctx: Context, number: str) -> tuple[Shop, Order | None, str]:
    """The shop, the order, and its number as we write it; an order that exists is remembered as a shared value."""
    shop = Shop.open(ctx.context.data_dir)
    order = shop.order(order_number(number))
    if order is not None:
        remember(ctx, "order_number", order.number)
    return shop, order, order.number if order else order_number(number)


def unknown_order(ctx: Context, number: str) -> str:
    shown = number if number.isascii() and number.replace("-", "").isalnum() else "?"
    return say(
        ctx,
        en=f"I cannot find an order {shown}. Please check the number: "
        "it is in your confirmation e-mail and looks like A-10023.",
        zh=f"我没有找到订单 {shown}。请核对订单号，它在确认邮件里，格式如 A-10023。",
    )


def remember(ctx: Context, key: str, value: str) -> None:
    """Share a value with the other agents; a value that is already so is not written again."""
    if ctx.context.values.get(key) != value:
        ctx.context.values.set(key, value)


def call_key(ctx: Context, tool: str, **arguments: Any) -> str:
    """The key under which a write is done once, also when the turn is run again after a crash."""
    return ctx.context.idempotency_key(tool, json.dumps(arguments, sort_keys=True))
