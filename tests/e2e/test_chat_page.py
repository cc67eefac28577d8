"""The chat page in a real browser, against `frontdesk serve` with the embedded store and the offline model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from agents import Model
from playwright.async_api import expect

from sessions.connect import Backend
from sessions.live import Live
from sessions.store import Store
from tests.app.served import served
from tests.e2e.browser import ANSWER_MS, Chat, Windows
from tests.e2e.server import API_KEY, ServerProcess, free_port
from tests.handoffs.desks import says, script

pytestmark = pytest.mark.browser

CHARGED_TWICE = "I was charged twice for my order A-10023"


async def events_of(server: ServerProcess, kind: str) -> list[str]:
    """Texts of the messages in the newest conversation, by the beginning of who said them."""
    async with httpx2.AsyncClient(base_url=server.url, headers={"X-API-Key": API_KEY}) as client:
        newest = (await client.get("/v1/conversations?limit=1")).json()["conversations"][0]["id"]
        found = (await client.get(f"/v1/conversations/{newest}")).json()
    return [line["text"] for line in found["transcript"] if line["by"].startswith(kind)]


async def test_a_customer_is_triaged_transferred_and_answered(server: ServerProcess, windows: Windows) -> None:
    """The main job: a message goes from triage to billing, in front of the customer, and is answered from the shop."""
    chat = await Chat(await windows.page(), server.url).open()
    await expect(chat.header).to_have_text("Luma & Oak assistant")
    await expect(chat.element.get_by_text("built-in offline model")).to_be_visible()
    await chat.write(f"{CHARGED_TWICE}, and where is my parcel?")
    answer = await chat.answered(1)
    await expect(chat.changes).to_contain_text("You're now talking to Billing.")
    await expect(chat.header).to_have_text("Billing")
    await expect(answer).to_contain_text("charged twice")
    await expect(answer.locator(".kind")).to_have_text("AI")
    await expect(chat.page.locator("#rack li.now")).to_contain_text("Billing")
    await chat.picture("e2e-triage-to-billing")


async def test_a_follow_up_stays_with_the_specialist(server: ServerProcess, windows: Windows) -> None:
    """The owner is sticky: a second message is not triaged again."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write(CHARGED_TWICE)
    await chat.answered(1)
    await chat.write("please refund it")
    await expect(chat.messages).not_to_have_count(2, timeout=ANSWER_MS)
    first = chat.changes.first
    await expect(first).to_contain_text("Billing")
    assert "Luma & Oak assistant" not in await chat.header.inner_text()


async def test_a_reload_shows_the_same_conversation(server: ServerProcess, windows: Windows) -> None:
    """After a reload every message is there once, in order, with the owner of now."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write(CHARGED_TWICE)
    await chat.answered(1)
    before = await chat.texts()
    for _ in range(3):
        await chat.page.reload()
        await chat.connected()
        await chat.answered(1)
        assert await chat.texts() == before
        await expect(chat.header).to_have_text("Billing")


async def test_a_chinese_customer_is_served_in_chinese(server: ServerProcess, windows: Windows) -> None:
    """A Chinese browser reads Chinese texts, names and answers."""
    page = await windows.page(locale="zh-CN")
    chat = await Chat(page, server.url).open()
    await expect(chat.element.get_by_role("button", name="发送")).to_be_visible()
    await chat.write("我的订单 A-10023 被重复扣款了")
    answer = await chat.answered(1)
    await expect(chat.header).to_have_text("账务助手")
    await expect(chat.changes).to_contain_text("现在由账务助手为您服务。")
    assert re.search(r"[\u4e00-\u9fff]{4}", await answer.inner_text())
    await chat.picture("e2e-chinese")


async def test_a_crash_of_the_server_loses_and_doubles_nothing(own_server: ServerProcess, windows: Windows) -> None:
    """kill -9, a message written meanwhile, a new server: the page comes back by itself and sends it once."""
    chat = await Chat(await windows.page(), own_server.url).open()
    await chat.write(CHARGED_TWICE)
    await chat.answered(1)
    own_server.kill()
    await expect(chat.element.get_by_text("Reconnecting")).to_be_visible()
    await chat.write("is anybody there?")
    await expect(chat.messages.last).to_contain_text("Sending")
    own_server.start()
    await chat.connected()
    await chat.answered(2)
    texts = await chat.texts()
    assert texts.count("is anybody there?") == 1
    assert texts[0] == CHARGED_TWICE
    assert await events_of(own_server, "customer") == [CHARGED_TWICE, "is anybody there?"]


async def test_what_was_written_offline_survives_a_reload(own_server: ServerProcess, windows: Windows) -> None:
    """The outbox is kept: a message written without network is sent after a reload, once."""
    page = await windows.page()
    chat = await Chat(page, own_server.url).open()
    await chat.write(CHARGED_TWICE)
    await chat.answered(1)
    own_server.kill()
    await chat.write("written while away")
    await expect(chat.messages.last).to_contain_text("Sending")
    own_server.start()
    await page.reload()
    await chat.connected()
    await expect(chat.messages.filter(has_text="written while away")).to_have_count(1)
    await chat.answered(2)
    assert (await events_of(own_server, "customer")).count("written while away") == 1


async def test_two_tabs_are_one_conversation(server: ServerProcess, windows: Windows) -> None:
    """A second tab of the same visitor shows the same messages and writes into the same conversation."""
    context = await windows.context()
    one = await Chat(await windows.page(context), server.url).open()
    two = await Chat(await windows.page(context), server.url).open()
    await one.write(CHARGED_TWICE)
    await one.answered(1)
    await two.answered(1)
    await two.write("ok")
    await one.answered(2)
    await two.answered(2)
    assert await one.texts() == await two.texts()


async def test_start_over_is_a_new_conversation(server: ServerProcess, windows: Windows) -> None:
    """The window is empty again and triage owns; the old conversation stays in the store."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write(CHARGED_TWICE)
    await chat.answered(1)
    await chat.element.get_by_role("button", name="Start over").click()
    await expect(chat.messages).to_have_count(0)
    await expect(chat.header).to_have_text("Luma & Oak assistant")
    await chat.write("where is my parcel A-10023")
    await chat.answered(1)
    await expect(chat.header).to_have_text("Orders and delivery")


async def test_markup_stays_text(server: ServerProcess, windows: Windows) -> None:
    """What looks like HTML or a script link is shown as it was typed; only web addresses become links."""
    chat = await Chat(await windows.page(), server.url).open()
    hostile = "<img src=x onerror=alert(1)> javascript:alert(1) [x](javascript:alert(1)) https://shop.example/a."
    await chat.write(hostile)
    own = chat.element.locator("li.msg.own")
    await expect(own.locator(".bubble")).to_have_text(hostile)
    await expect(own.locator("img")).to_have_count(0)
    links = await own.locator("a").evaluate_all("nodes => nodes.map(a => [a.href, a.rel])")
    assert links == [["https://shop.example/a", "noopener noreferrer nofollow"]]


async def test_finished_messages_are_announced_and_drafts_are_not(server: ServerProcess, windows: Windows) -> None:
    """The log is a polite live region; what streams is outside of it and hidden from screen readers."""
    chat = await Chat(await windows.page(), server.url).open()
    log = chat.element.get_by_role("log")
    await expect(log).to_have_attribute("aria-live", "polite")
    await expect(log).to_have_attribute("aria-relevant", "additions")
    await expect(chat.element.locator(".drafts")).to_have_attribute("aria-hidden", "true")
    await expect(chat.box).to_have_accessible_name("Write a message")


async def test_an_input_method_may_use_enter(server: ServerProcess, windows: Windows) -> None:
    """Enter that ends a composition does not send; Shift+Enter breaks the line."""
    chat = await Chat(await windows.page(locale="zh-CN"), server.url).open()
    await chat.box.fill("ni hao")
    await chat.box.evaluate(
        "box => box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true}))"
    )
    await expect(chat.messages).to_have_count(0)
    await chat.box.press("Shift+Enter")
    await chat.box.press_sequentially("x")
    await expect(chat.box).to_have_value("ni hao\nx")


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (375, "dark"), (320, "light"), (1280, "dark")])
async def test_the_page_fits_its_window(server: ServerProcess, windows: Windows, width: int, scheme: str) -> None:
    """Nothing scrolls sideways, the box is in view, and what is pressed is large enough to be pressed."""
    page = await windows.page(viewport={"width": width, "height": 720}, color_scheme=scheme)
    chat = await Chat(page, server.url).open()
    await chat.write(f"{CHARGED_TWICE}, {'x' * 200} and where is my parcel?")
    await chat.answered(1)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await expect(chat.box).to_be_in_viewport()
    sizes = await chat.element.locator("button:visible").evaluate_all(
        "nodes => nodes.map(node => Math.min(node.offsetWidth, node.offsetHeight))"
    )
    assert min(sizes) >= 24
    await chat.picture(f"e2e-chat-{width}-{scheme}")


HOST_PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title>
<script type="module" src="{desk}/static/widget/frontdesk-chat.js"></script>
<frontdesk-chat site-key="demo"></frontdesk-chat>"""
HOST_POLICY = (
    "default-src 'none'; script-src {desk}; connect-src {desk} {socket}; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


@asynccontextmanager
async def website(port: int, page: str, policy: str) -> AsyncIterator[None]:
    """A website that has this page everywhere."""
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: {policy}\r\nConnection: close\r\n\r\n"
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write((head + page).encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield


async def test_another_site_embeds_the_widget_under_a_strict_policy(
    backend: Backend, store: Store, live: Live, tmp_path: Path, windows: Windows
) -> None:
    """One script tag on a shop's page: the widget needs no inline style, no eval, only our address in the policy."""
    models: dict[str, Model] = {"triage": script([says("Hello from the desk.")])}
    port = free_port()
    shop_site = f"http://localhost:{port}"  # another origin; Chromium lets only local pages load from 127.0.0.1
    async with served(backend, store, live, tmp_path, models, allowed_origins=(shop_site,)) as desk:
        policy = HOST_POLICY.format(desk=desk.http, socket=f"ws://{desk.address}")
        async with website(port, HOST_PAGE.format(desk=desk.http), policy):
            page = await windows.page()
            await page.goto(f"{shop_site}/")
            chat = Chat(page, shop_site)
            await chat.connected()
            await chat.write("hello")
            await expect(await chat.answered(1)).to_contain_text("Hello from the desk.")
            assert await windows.found() == []
            await page.close()
