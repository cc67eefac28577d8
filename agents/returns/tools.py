"""What the returns specialist can check and open."""

from __future__ import annotations

from datetime import date, timedelta

from agents import function_tool
from frontdesk_agents._shop.db import RETURN_DAYS, Order, Return, Shop
from frontdesk_agents._shop.replies import (
    Context,
    OrderNumber,
    Reason,
    call_key,
    day,
    find_order,
    remember,
    say,
    unknown_order,
)


@function_tool
def check_return(ctx: Context, order_number: OrderNumber) -> str:
    """Can I still return or exchange my order, until when, and what became of my return?

    我的订单还能退换吗，截止到什么时候，退货进度如何。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    if known := shop.return_of(number):
        return _known_return(ctx, number, known)
    if refusal := _why_not(ctx, shop, order):
        return refusal
    until, kept = day(ctx, _last_day(shop, number)), _not_returnable(ctx, order)
    return say(
        ctx,
        en=f"Yes, order {number} can be returned until {until}{f', except {kept}' if kept else ''}. "
        "Would you like me to open the return?",
        zh=f"可以，订单 {number} 在{until}前（含当天）可以退货{f'（{kept}除外）' if kept else ''}。"
        "需要我为您办理退货吗？",
    )


@function_tool
def open_return(ctx: Context, order_number: OrderNumber, reason: Reason) -> str:
    """Open a return for my order and send me a return label: I want to send it back or exchange it.

    为我的订单办理退货并发送退货标签，我想退货或换货。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    if not shop.return_of(number) and (refusal := _why_not(ctx, shop, order)):
        return refusal
    key = call_key(ctx, "open_return", order_number=number)  # not the reason: a model words it anew
    opened = shop.open_return(number, reason, key)
    remember(ctx, "return_number", opened.number)
    if opened.status != "open":
        return _known_return(ctx, number, opened)
    return say(
        ctx,
        en=f"Return {opened.number} for order {number} is open, and the label is in your e-mail. "
        "Please hand in the parcel within 14 days; we refund within 5 working days after it arrives.",
        zh=f"订单 {number} 的退货 {opened.number} 已办理，退货标签已发送到您的邮箱。"
        "请在 14 天内寄出，我们收到后 5 个工作日内退款。",
    )


def _why_not(ctx: Context, shop: Shop, order: Order) -> str:
    """The sentence that says why this order cannot be returned; empty when it can."""
    if order.status != "delivered":
        return _not_delivered(ctx, order)
    if not any(line.returnable for line in order.lines):
        return say(
            ctx,
            en=f"Order {order.number} cannot be returned: made-to-measure products and gift cards are excluded.",
            zh=f"订单 {order.number} 不能退货：定制商品和礼品卡不支持退货。",
        )
    last = _last_day(shop, order.number)
    if last >= shop.today:
        return ""
    return say(
        ctx,
        en=f"The {RETURN_DAYS} days to return order {order.number} ended on {day(ctx, last)}. "
        "If the product is faulty, the warranty may still cover it.",
        zh=f"订单 {order.number} 的 {RETURN_DAYS} 天退货期已于{day(ctx, last)}结束。"
        "如果商品有故障，可能仍在保修范围内。",
    )


def _not_delivered(ctx: Context, order: Order) -> str:
    if order.status == "cancelled":
        return say(
            ctx,
            en=f"Order {order.number} was cancelled, so there is nothing to send back.",
            zh=f"订单 {order.number} 已取消，无需退货。",
        )
    return say(
        ctx,
        en=f"Order {order.number} has not been delivered yet; "
        f"it can be returned for {RETURN_DAYS} days after delivery.",
        zh=f"订单 {order.number} 还没有送达；送达后 {RETURN_DAYS} 天内可以退货。",
    )


def _known_return(ctx: Context, number: str, known: Return) -> str:
    opened = day(ctx, known.opened_on)
    en = {
        "open": "we are waiting for your parcel, and refund within 5 working days after it arrives",
        "received": "your parcel has arrived, and we refund within 5 working days",
        "refunded": "it is finished and the money was sent back",
    }
    zh = {
        "open": "我们正在等待您寄回的包裹，收到后 5 个工作日内退款",
        "received": "我们已收到包裹，5 个工作日内退款",
        "refunded": "退货已完成，款项已退还",
    }
    return say(
        ctx,
        en=f"Return {known.number} for order {number} was opened on {opened}: {en[known.status]}.",
        zh=f"订单 {number} 的退货 {known.number} 于{opened}办理：{zh[known.status]}。",
    )


def _not_returnable(ctx: Context, order: Order) -> str:
    names = [say(ctx, en=line.name_en, zh=line.name_zh) for line in order.lines if not line.returnable]
    return say(ctx, en=" and ", zh="、").join(names)


def _last_day(shop: Shop, number: str) -> date:
    parcel = shop.parcel(number)
    delivered = parcel.delivered_on if parcel else None
    return (delivered or shop.today) + timedelta(days=RETURN_DAYS)
