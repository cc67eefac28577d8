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
    cents,
    day,
    find_order,
    method,
    money,
    remember,
    say,
    unknown_order,
)


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
        return _charged_once(ctx, order, payments[0]) + _refunded(ctx, refunds)
    too_much -= sum(refund.amount_cents for refund in refunds)
    if too_much <= 0:
        return _already_refunded(ctx, number, refunds[-1])
    return _charged_again(ctx, number, payments, too_much)


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
    wanted = cents(amount)
    key = call_key(ctx, "issue_refund", order_number=number, cents=wanted)  # not the reason: a model words it anew
    try:
        refund = shop.refund_overcharge(number, wanted, reason, key)
    except RefundTooHigh as error:
        return _too_high(ctx, number, error.available_cents)
    remember(ctx, "refund_reference", refund.reference)
    paid_back = money(ctx, refund.amount_cents)
    return say(
        ctx,
        en=f"The refund of {paid_back} for order {number} is on its way (reference {refund.reference}). "
        "Card refunds usually arrive within 5 to 7 working days.",
        zh=f"订单 {number} 的 {paid_back}退款已发出（编号 {refund.reference}），"
        "银行卡退款通常在 5 到 7 个工作日内到账。",
    )


def _charged_again(ctx: Context, number: str, payments: list[Payment], too_much: int) -> str:
    first, times = payments[0], len(payments)
    amount, when, how = money(ctx, first.amount_cents), day(ctx, first.paid_on), method(ctx, first)
    twice = "twice" if times == 2 else f"{times} times"
    return say(
        ctx,
        en=f"Yes, order {number} was charged {twice}: {times} payments of {amount} on {when} by {how}. "
        f"{money(ctx, too_much)} is too much and can be refunded.",
        zh=f"是的，订单 {number} 被扣款 {times} 次：{when}通过 {how} 付款 {times} 笔，每笔 {amount}。"
        f"多收的 {money(ctx, too_much)}可以退还。",
    )


def _charged_once(ctx: Context, order: Order, payment: Payment) -> str:
    amount, when, how = money(ctx, payment.amount_cents), day(ctx, payment.paid_on), method(ctx, payment)
    return say(
        ctx,
        en=f"I see one payment for order {order.number}: {amount} on {when} by {how}, so no double charge. "
        "A second, pending entry is usually a reservation by the bank that disappears within 7 days.",
        zh=f"订单 {order.number} 只有一笔付款：{when}通过 {how} 支付 {amount}，没有重复扣款。"
        "如果看到另一笔待处理的记录，通常是银行预授权，7 天内会自动消失。",
    )


def _refunded(ctx: Context, refunds: list[Refund]) -> str:
    """What was paid back already, as one more sentence; empty when nothing was."""
    if not refunds:
        return ""
    amount, when = money(ctx, sum(refund.amount_cents for refund in refunds)), day(ctx, refunds[-1].made_on)
    return say(
        ctx,
        en=f" {amount} was refunded on {when} (reference {refunds[-1].reference}).",
        zh=f"{amount}已于{when}退还（编号 {refunds[-1].reference}）。",
    )


def _already_refunded(ctx: Context, number: str, refund: Refund) -> str:
    amount, when = money(ctx, refund.amount_cents), day(ctx, refund.made_on)
    return say(
        ctx,
        en=f"Order {number} was charged twice, and the second payment of {amount} was refunded on {when} "
        f"(reference {refund.reference}). Card refunds usually arrive within 5 to 7 working days.",
        zh=f"订单 {number} 曾被重复扣款，多收的 {amount}已于{when}退还（编号 {refund.reference}），"
        "银行卡退款通常在 5 到 7 个工作日内到账。",
    )


def _too_high(ctx: Context, number: str, available_cents: int) -> str:
    if available_cents <= 0:
        return say(
            ctx,
            en=f"Nothing was charged too much for order {number}, so I cannot refund it here; a person has to decide.",
            zh=f"订单 {number} 没有多扣的款项，我无法直接退款，需要人工处理。",
        )
    left = money(ctx, available_cents)
    return say(
        ctx,
        en=f"That is more than was charged too much for order {number}: {left} can be refunded.",
        zh=f"这超过了订单 {number} 多扣的金额，最多可退 {left}。",
    )
