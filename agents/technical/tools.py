"""What the technical specialist can look up."""

from __future__ import annotations

from datetime import date

from agents import function_tool
from frontdesk_agents._shop.db import Line, Shop
from frontdesk_agents._shop.replies import Context, OrderNumber, day, find_order, say, unknown_order


@function_tool
def check_warranty(ctx: Context, order_number: OrderNumber) -> str:
    """Is my product still under warranty or guarantee, and until when is it covered?

    我的商品还在保修期内吗，保修到什么时候。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    delivered = _delivered_on(shop, number)
    if delivered is None:
        return say(
            ctx,
            en=f"Order {number} has not been delivered; the warranty starts on the day of delivery.",
            zh=f"订单 {number} 还没有送达，保修期从送达当天开始计算。",
        )
    covered = [line for line in order.lines if line.warranty_months]
    if not covered:
        return say(
            ctx,
            en=f"The products of order {number} have no warranty, because gift cards are not covered.",
            zh=f"订单 {number} 中的商品不在保修范围内。",
        )
    return _answer(ctx, shop, number, covered, delivered)


def _answer(ctx: Context, shop: Shop, number: str, covered: list[Line], delivered: date) -> str:
    """One sentence for the order; with different warranties, the longest."""
    until = max(_add_months(delivered, line.warranty_months) for line in covered)
    names = say(ctx, en=" and ", zh="、").join(say(ctx, en=line.name_en, zh=line.name_zh) for line in covered)
    last = day(ctx, until)
    if until >= shop.today:
        return say(
            ctx,
            en=f"Yes, order {number} ({names}) is under warranty until {last}.",
            zh=f"是的，订单 {number}（{names}）的保修期到{last}。",
        )
    return say(
        ctx,
        en=f"The warranty of order {number} ({names}) ended on {last}.",
        zh=f"订单 {number}（{names}）的保修期已于{last}结束。",
    )


def _delivered_on(shop: Shop, number: str) -> date | None:
    parcel = shop.parcel(number)
    return parcel.delivered_on if parcel else None


def _add_months(start: date, months: int) -> date:
    """The same day of the month later; the 31st becomes the last day of a shorter month."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    for last in (start.day, 30, 29, 28):
        try:
            return date(year, month + 1, min(start.day, last))
        except ValueError:
            continue
    raise AssertionError("every month has 28 days")
