"""What the billing specialist can look up, and the refund that a person confirms first."""

from __future__ import annotations

from agents import function_tool
from frontdesk_agents._shop.db import Order, Payment, Refund, RefundTooHigh
from frontdesk_agents._shop.replies import (
    Amount,
    Context,
    OrderNumber,
    Reason,
    call_key,
    day,
    find_order,
    money,
    remember,
    say,
    unknown_order,
)

from handoffs.errors import ToolProblem


@function_tool
def find_duplicate_charge(ctx: Context, order_number: OrderNumber) -> str:
    """Why was I charged twice, is there a double or duplicate payment for my order?

    为什么扣了两次钱，订单是否重复扣款。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    payments, refunds = shop.payments(number), shop.refunds(number)
    too_much = sum(payment.amount_cents for payment in payments) - order.total_cents
    if too_much <= 0:
        return _charged_once(ctx, order, payments[0])
    if refunds:
        return _already_refunded(ctx, number, refunds[-1])
    times, amount, when = len(payments), money(ctx, payments[0].amount_cents), day(ctx, payments[0].paid_on)
    twice = "twice" if times == 2 else f"{times} times"
    return say(
        ctx,
        en=f"Yes, order {number} was charged {twice}: {times} payments of {amount} on {when} by {payments[0].method}. "
        f"{money(ctx, too_much)} is too much and can be refunded.",
        zh=f"是的，订单 {number} 被扣款 {times} 次：{when}通过 {payments[0].method} 付款 {times} 笔，每笔 {amount}。"
        f"多收的 {money(ctx, too_much)} 可以退还。",
    )


@function_tool
def lookup_invoice(ctx: Context, order_number: OrderNumber) -> str:
    """I need the invoice, receipt or bill for my order, with its total and VAT.

    我需要订单的发票或账单，包括总额和增值税。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    invoice = shop.invoice(number)
    if invoice is None:
        return say(ctx, en=f"There is no invoice for order {number} yet.", zh=f"订单 {number} 还没有发票。")
    total, vat, issued = money(ctx, invoice.total_cents), money(ctx, invoice.vat_cents), day(ctx, invoice.issued_on)
    return say(
        ctx,
        en=f"Invoice {invoice.number} for order {number} is from {issued}: {total}, of which {vat} VAT. "
        "You can download it in your account under Orders.",
        zh=f"订单 {number} 的发票 {invoice.number} 开具于{issued}：总额 {total}，其中增值税 {vat}。"
        "您可以在账户的“订单”中下载。",
    )


@function_tool
def issue_refund(ctx: Context, order_number: OrderNumber, amount: Amount, reason: Reason) -> str:
    """Pay back a proven double charge: the exact amount that find_duplicate_charge named, for one order.

    退还已确认的重复扣款，金额以 find_duplicate_charge 的结果为准。
    """
    shop, order, number = find_order(ctx, order_number)
    if order is None:
        return unknown_order(ctx, number)
    cents = int(amount.replace(",", "").replace(".", ""))
    if cents == 0:
        raise ToolProblem("the amount of a refund must be above 0.00")
    key = call_key(ctx, "issue_refund", order_number=number, cents=cents, reason=reason)
    try:
        refund = shop.issue_refund(number, cents, reason, key)
    except RefundTooHigh as error:
        return _too_high(ctx, number, error.available_cents)
    remember(ctx, "refund_reference", refund.reference)
    paid_back = money(ctx, refund.amount_cents)
    return say(
        ctx,
        en=f"The refund of {paid_back} for order {number} is on its way (reference {refund.reference}). "
        "Card refunds usually arrive within 5 to 7 working days.",
        zh=f"订单 {number} 的 {paid_back} 退款已发出（编号 {refund.reference}），"
        "银行卡退款通常在 5 到 7 个工作日内到账。",
    )


def _charged_once(ctx: Context, order: Order, payment: Payment) -> str:
    amount, when = money(ctx, payment.amount_cents), day(ctx, payment.paid_on)
    return say(
        ctx,
        en=f"I see one payment for order {order.number}: {amount} on {when} by {payment.method}, so no double charge. "
        "A second, pending entry is usually a reservation by the bank that disappears within 7 days.",
        zh=f"订单 {order.number} 只有一笔付款：{when}通过 {payment.method} 支付 {amount}，没有重复扣款。"
        "如果看到另一笔待处理的记录，通常是银行预授权，7 天内会自动消失。",
    )


def _already_refunded(ctx: Context, number: str, refund: Refund) -> str:
    amount, when = money(ctx, refund.amount_cents), day(ctx, refund.made_on)
    return say(
        ctx,
        en=f"Order {number} was charged twice, and the second payment of {amount} was refunded on {when} "
        f"(reference {refund.reference}). Card refunds usually arrive within 5 to 7 working days.",
        zh=f"订单 {number} 曾被重复扣款，多收的 {amount} 已于{when}退还（编号 {refund.reference}），"
        "银行卡退款通常在 5 到 7 个工作日内到账。",
    )


def _too_high(ctx: Context, number: str, available_cents: int) -> str:
    left = money(ctx, available_cents)
    return say(
        ctx,
        en=f"That is more than can be refunded for order {number}: {left} is left of what was paid.",
        zh=f"退款金额超过订单 {number} 可退的金额，目前最多可退 {left}。",
    )
