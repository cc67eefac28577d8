"""The desk page and the chat page beside each other: a person steps in, answers and hands back."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from sessions.connect import Backend
from sessions.live import Live
from sessions.store import Store
from tests.app import served as served_desk
from tests.e2e.browser import ANSWER_MS, ARTIFACTS, Chat, Windows
from tests.e2e.server import API_KEY, ServerProcess
from tests.handoffs.gated_model import GatedModel

pytestmark = pytest.mark.browser

NEWEST = ".group.ai li button"  # the newest conversation is the first one that agents have


async def enter(page: Page, url: str, name: str, key: str = API_KEY) -> None:
    """Open the desk with the key in the fragment."""
    await page.goto(f"{url}/desk#key={key}")
    await page.get_by_label("Your name").fill(name)
    await page.get_by_role("button", name="Open the desk").click()


async def test_the_key_does_not_stay_in_the_address(own_server: ServerProcess, windows: Windows) -> None:
    """`#key=` is taken once and removed; a reload still knows it, another tab does not."""
    page = await windows.page()
    await page.goto(f"{own_server.url}/desk#key={API_KEY}")
    await expect(page.get_by_label("Your name")).to_be_visible()
    assert page.url == f"{own_server.url}/desk"
    await page.get_by_label("Your name").fill("Ann Lee")
    await page.get_by_role("button", name="Open the desk").click()
    await expect(page.get_by_text("No conversations yet.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("No conversations yet.")).to_be_visible()
    other = await windows.page(page.context)
    await other.goto(f"{own_server.url}/desk")
    await expect(other.get_by_label("API key")).to_have_value("")


async def test_a_wrong_key_is_said_in_words(server: ServerProcess, windows: Windows) -> None:
    """Who has another key stays outside and is told why."""
    page = await windows.page()
    await enter(page, server.url, "Ann Lee", key="not-the-key")
    await expect(page.get_by_role("alert")).to_have_text("This key does not open the desk.")


async def test_a_person_takes_over_answers_and_hands_back(server: ServerProcess, windows: Windows) -> None:
    """The customer sees a person, marked as one, and then the agent again; the desk sees the brief."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for my order A-10023")
    await chat.answered(1)

    desk = await windows.page()
    await enter(desk, server.url, "Ann Lee")
    await desk.locator(NEWEST).first.click()
    await expect(desk.locator(".change .brief").first).to_contain_text("A-10023")
    await expect(desk.get_by_text("Take over to write to the customer.")).to_be_visible()
    await desk.get_by_role("button", name="Take over").click()
    await expect(chat.header).to_have_text("Ann Lee")
    await expect(chat.changes.last).to_contain_text("You're now talking to Ann Lee, a person.")

    await chat.box.press_sequentially("Is this", delay=20)
    await expect(desk.get_by_text("The customer is typing")).to_be_visible()
    await chat.box.fill("")
    await desk.get_by_label("Write to the customer").fill("Hello, this is Ann.")
    await desk.get_by_label("Write to the customer").press("Enter")
    said = chat.element.locator("li.msg.human")
    await expect(said).to_contain_text("Hello, this is Ann.")
    await expect(said.locator(".kind")).to_have_text("Person")
    await chat.write("thank you Ann")
    await expect(desk.locator(".said.customer").last).to_contain_text("thank you Ann")
    await chat.picture("e2e-takeover-chat")
    await desk.screenshot(path=ARTIFACTS / "e2e-takeover-desk.png")

    await desk.get_by_role("button", name="Hand back").click()
    await desk.locator("dialog select").select_option("billing")
    await desk.get_by_label("Note").fill("Refund promised for tomorrow.")
    await desk.locator("dialog").get_by_role("button", name="Hand back").click()
    await expect(chat.header).to_have_text("Billing")
    await expect(desk.locator(".change").last).to_contain_text("Refund promised for tomorrow.")
    await expect(chat.element.get_by_text("Refund promised")).to_have_count(0)


async def test_two_people_cannot_both_hold_it(server: ServerProcess, windows: Windows) -> None:
    """The second one is asked first; the first one is told when the conversation is gone, and nothing is sent."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for my order A-10023")
    await chat.answered(1)
    ann, bob = await windows.page(), await windows.page()
    for page, name in ((ann, "Ann"), (bob, "Bob")):
        await enter(page, server.url, name)
        await page.locator(NEWEST).first.click()
    await ann.get_by_role("button", name="Take over").click()
    await expect(ann.get_by_label("Write to the customer")).to_be_visible()
    await bob.get_by_role("button", name="Take over").click()
    await bob.get_by_role("button", name="Take it anyway").click()
    await expect(chat.header).to_have_text("Bob")
    await expect(ann.get_by_text("Take over to write to the customer.")).to_be_visible()


async def test_a_takeover_in_the_middle_of_an_answer_takes_the_draft_back(
    backend: Backend, store: Store, live: Live, tmp_path: Path, windows: Windows
) -> None:
    """What an agent was writing disappears from the customer's window the moment a person takes over."""
    model = GatedModel("This answer will never be finished. " * 5, hold_after=60)
    async with served_desk.served(backend, store, live, tmp_path, {"triage": model}) as running:
        chat = await Chat(await windows.page(), running.http).open()
        await chat.write("hello")
        draft = chat.element.locator(".msg.draft")
        await expect(draft).to_contain_text("This answer will never", timeout=ANSWER_MS)

        again = await Chat(await windows.page(chat.page.context), running.http).open()
        await expect(again.element.locator(".msg.draft")).to_contain_text("This answer will never")

        desk = await windows.page()
        await enter(desk, running.http, "Ann Lee", key=served_desk.API_KEY)
        await desk.locator(NEWEST).first.click()
        await expect(desk.locator(".draft")).to_contain_text("This answer will never")
        await desk.get_by_role("button", name="Take over").click()
        await expect(draft).to_have_count(0)
        await expect(chat.header).to_have_text("Ann Lee")
        model.gate.set()
        await expect(chat.element.get_by_text("never be finished")).to_have_count(0)
        await expect(again.element.locator(".msg.draft")).to_have_count(0)
        await chat.page.goto("about:blank")
        await again.page.goto("about:blank")
        await desk.goto("about:blank")


async def test_the_desk_fits_a_phone(server: ServerProcess, windows: Windows) -> None:
    """List and conversation are one after the other, and nothing scrolls sideways."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for my order A-10023")
    await chat.answered(1)
    desk = await windows.page(viewport={"width": 375, "height": 720}, color_scheme="dark")
    await enter(desk, server.url, "Ann Lee")
    await desk.locator(NEWEST).first.click()
    await expect(desk.locator(".timeline")).to_be_visible()
    await expect(desk.locator(".side")).to_be_hidden()
    assert await desk.evaluate("document.documentElement.scrollWidth") <= 375
    await desk.screenshot(path=ARTIFACTS / "e2e-desk-375-dark.png")
    await desk.get_by_role("button", name="All conversations").click()
    await expect(desk.locator(".side")).to_be_visible()
