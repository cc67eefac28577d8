"""What the orders specialist can look up."""

from __future__ import annotations

from agents import function_tool
from frontdesk_agents._shop.db import Order, Parcel
from frontdesk_agents._shop.replies import (
    Context,
    OrderNumber,
    day,
    find_order,
    money,
    products,
    say,
    unknown_order,
)


@function_tool
def lookup_order(ctx: Context, order_number: OrderNumber) -> str:
    """What is the status of my order, what did I order, is it confirmed, can I still change or cancel it?

    查询订单状态和订单内容，是否已确认，还能不能修改或取消。
    """
    _, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    what, total, placed = products(ctx, order), money(ctx, order.total_cents), day(ctx, order.placed_on)
    return say(
        ctx,
        en=f"Order {number} of {placed} ({what}; {total}) {_STATUS_EN[order.status]}",
        zh=f"订单 {number}（{placed}下单：{what}，共 {total}）{_STATUS_ZH[order.status]}",
    )


@function_tool
def track_parcel(ctx: Context, order_number: OrderNumber) -> str:
    """Where is my parcel, when will it be delivered, why is my delivery late or not moving?

    查询包裹到哪里了，什么时候送达，为什么物流延误或没有更新。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    parcel = shop.parcel(number)
    if parcel is None:
        return _not_sent(ctx, order)
    if parcel.delivered_on is not None:
        when = day(ctx, parcel.delivered_on)
        return say(
            ctx,
            en=f"The parcel of order {number} was delivered on {when} by {parcel.carrier} "
            f"(tracking number {parcel.tracking}).",
            zh=f"订单 {number} 的包裹已于{when}由 {parcel.carrier} 送达（运单号 {parcel.tracking}）。",
        )
    return _late(ctx, number, parcel) if parcel.is_late(shop.today) else _on_its_way(ctx, number, parcel)


def _not_sent(ctx: Context, order: Order) -> str:
    if order.status == "cancelled":
        return say(
            ctx,
            en=f"Order {order.number} was cancelled, so no parcel was sent.",
            zh=f"订单 {order.number} 已取消，没有发出包裹。",
        )
    return say(
        ctx,
        en=f"Order {order.number} is still being prepared; you get an e-mail with the tracking number when it is sent.",
        zh=f"订单 {order.number} 仍在备货，发货后您会收到带运单号的邮件。",
    )


def _on_its_way(ctx: Context, number: str, parcel: Parcel) -> str:
    last, expected = parcel.events[-1], day(ctx, parcel.expected_on)
    seen = day(ctx, last.happened_on)
    return say(
        ctx,
        en=f"The parcel of order {number} is on its way with {parcel.carrier} (tracking number {parcel.tracking}): "
        f"on {seen} it {last.text_en}. "
        f"We expect it on {expected}.",
        zh=f"订单 {number} 的包裹正在由 {parcel.carrier} 配送（运单号 {parcel.tracking}）：{seen}{last.text_zh}，"
        f"预计{expected}送达。",
    )


def _late(ctx: Context, number: str, parcel: Parcel) -> str:
    last, expected = parcel.events[-1], day(ctx, parcel.expected_on)
    seen = day(ctx, last.happened_on)
    return say(
        ctx,
        en=f"I am sorry, the parcel of order {number} is late: we expected it on {expected}. "
        f"The last news from {parcel.carrier} is that it {last.text_en} on {seen} (tracking number {parcel.tracking}). "
        "We can start a search with the carrier, which takes up to 8 working days.",
        zh=f"很抱歉，订单 {number} 的包裹延误了：原定{expected}送达，{parcel.carrier} 最近一次更新是{seen}"
        f"（{last.text_zh}，运单号 {parcel.tracking}）。我们可以向承运商发起查件，最多需要 8 个工作日。",
    )


_STATUS_EN = {
    "preparing": "is being prepared and can still be changed or cancelled.",
    "shipped": "has been sent and can no longer be changed.",
    "delivered": "has been delivered.",
    "cancelled": "was cancelled.",
}
_STATUS_ZH = {
    "preparing": "正在备货，还可以修改或取消。",
    "shipped": "已发货，不能再修改。",
    "delivered": "已送达。",
    "cancelled": "已取消。",
}
