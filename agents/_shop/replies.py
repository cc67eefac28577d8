"""What the shop's tools share: their slots, the customer's language, and how money and days are written."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any

from agents import RunContextWrapper
from frontdesk_agents._shop.db import Order, Shop, order_number
from pydantic import Field

from handoffs.context import TurnContext

Context = RunContextWrapper[TurnContext]

# What customers type: A-10023, a-10023, A 10023, a10023, A - 10023. order_number() makes them all A-10023.
OrderNumber = Annotated[
    str, Field(description="Order number, like A-10023", pattern=r"^[Aa][ -]{0,3}[0-9]{5}$", examples=["A-10023"])
]
Amount = Annotated[
    str, Field(description="Amount in EUR with two decimals, like 49.90", pattern=r"^[0-9]{1,5}[.,][0-9]{2}$")
]
Reason = Annotated[str, Field(description="The reason, in a few words of the customer", min_length=1, max_length=500)]

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
