"""The desk page and the chat page beside each other: a person steps in, answers and hands back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, Route, expect

from sessions.connect import Backend
from sessions.live import Live
from sessions.store import Store
from tests.app import served as served_desk
from tests.e2e.browser import ANSWER_MS, ARTIFACTS, Chat, Windows
from tests.e2e.server import API_KEY, ServerProcess
from tests.handoffs.gated_model import GatedModel
from tests.support import wait_until

pytestmark = pytest.mark.browser

NEWEST = ".group.ai li button"  # the newest conversation is the first one that agents have
AT_THE_END = (
    "(node) => node.scrollHeight > node.clientHeight && node.scrollHeight - node.scrollTop - node.clientHeight < 2"
)


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


async def test_a_person_approves_a_refund_and_the_agent_goes_on(server: ServerProcess, windows: Windows) -> None:
    """The call waits at the desk with its arguments; after a click it is made and the agent tells the customer."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for order A-10015")
    await chat.answered(1)
    await chat.write("please refund the second payment")
    await expect(chat.element.get_by_text("A person has to agree to this first.")).to_be_visible(timeout=ANSWER_MS)

    desk = await windows.page()
    await enter(desk, server.url, "Ann Lee")
    await desk.locator(NEWEST).filter(has_text="Needs a decision").first.click()
    waiting = desk.get_by_role("list", name="Needs a decision")
    await expect(waiting).to_contain_text("issue_refund")
    await expect(waiting).to_contain_text("A-10015")
    await desk.get_by_role("button", name="Approve").click()

    await expect(chat.element.get_by_text("The refund of 74.80 EUR")).to_be_visible(timeout=ANSWER_MS)
    await expect(waiting).to_be_hidden()
    await expect(chat.header).to_have_text("Billing")


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


async def holding(server: ServerProcess, windows: Windows, name: str) -> tuple[Chat, Page, Locator]:
    """A customer's window, the desk of a person who has just taken the conversation, and the box there."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for my order A-10023")
    await chat.answered(1)
    desk = await windows.page()
    await enter(desk, server.url, name)
    await desk.locator(NEWEST).first.click()
    await desk.get_by_role("button", name="Take over").click()
    box = desk.get_by_label("Write to the customer")
    await expect(box).to_be_editable()
    await expect(desk.locator(".group.mine [aria-current]")).to_be_visible()  # the list has heard of it too
    return chat, desk, box


async def test_a_note_survives_a_hand_back_that_fails(server: ServerProcess, windows: Windows) -> None:
    """Offline and on a server error the dialog stays, with the note and the reason; the second try hands back."""
    chat, desk, _ = await holding(server, windows, "Ann Note")
    await desk.get_by_role("button", name="Hand back").click()
    dialog = desk.locator("dialog")
    note = dialog.get_by_label("Note")
    await note.fill("Refund promised for tomorrow.")
    again = dialog.get_by_role("button", name="Hand back")
    await desk.route("**/release", lambda route: route.abort())
    await again.click()
    await expect(dialog.get_by_role("alert")).to_have_text("The server cannot be reached. Please try again.")
    await desk.route("**/release", lambda route: route.fulfill(status=500, json={}))
    await again.click()
    await expect(dialog.get_by_role("alert")).to_have_text("The server could not do this. Please try again.")
    await expect(note).to_have_value("Refund promised for tomorrow.")
    await desk.unroute("**/release")
    await again.click()
    await expect(dialog).to_be_hidden()
    await expect(desk.locator(".change").last).to_contain_text("Refund promised for tomorrow.")
    await expect(chat.element.get_by_text("Refund promised")).to_have_count(0)


async def test_what_is_written_while_a_message_is_on_its_way_stays(server: ServerProcess, windows: Windows) -> None:
    """Only what was sent leaves the box; the customer gets both texts, each once."""
    chat, desk, box = await holding(server, windows, "Ann Quick")
    gate = asyncio.Event()

    async def slow(route: Route) -> None:
        await gate.wait()
        await route.continue_()

    await desk.route("**/messages", slow)
    await box.fill("The first line.")
    await box.press("Enter")
    await box.press_sequentially("And the second.")
    gate.set()
    await expect(box).to_have_value("And the second.")
    await box.press("Enter")
    await expect(box).to_have_value("")
    said = chat.element.locator("li.msg.human .bubble")
    await expect(said).to_have_text(["The first line.", "And the second."])


async def test_a_text_outlives_a_takeover_and_another_conversation(server: ServerProcess, windows: Windows) -> None:
    """Who loses the conversation while writing keeps the text, is told who has it, and can send it after all."""
    other = await Chat(await windows.page(), server.url).open()
    await other.write("Where is my order A-10024?")
    await other.answered(1)
    chat, ann, box = await holding(server, windows, "Ann Keeps")
    await box.fill("I have looked into")
    await ann.locator(NEWEST).first.click()
    await expect(ann.get_by_text("Take over to write to the customer.")).to_be_visible()
    await expect(box).to_be_hidden()
    await ann.locator(".group.mine li button").first.click()
    await expect(box).to_have_value("I have looked into")
    await expect(box).to_be_editable()

    bob = await windows.page()
    await enter(bob, server.url, "Bob Takes")
    row = bob.locator(".group.human li button", has_text="Ann Keeps")
    await row.click()
    await bob.get_by_role("button", name="Take over").click()
    await bob.get_by_role("button", name="Take it anyway").click()
    kept = ann.get_by_text("Bob Takes holds the conversation now. Your text was not sent; it is kept here:")
    await expect(kept).to_be_visible()
    await expect(box).to_have_value("I have looked into")
    await expect(box).not_to_be_editable()
    await ann.screenshot(path=ARTIFACTS / "e2e-desk-kept-text.png")
    await ann.get_by_role("button", name="Take over").click()
    await ann.get_by_role("button", name="Take it anyway").click()
    await expect(box).to_be_editable()
    await box.press("Enter")
    await expect(chat.element.locator("li.msg.human .bubble")).to_have_text(["I have looked into"])
    await expect(box).to_have_value("")


async def test_the_newest_message_stays_when_a_keyboard_opens(server: ServerProcess, windows: Windows) -> None:
    """A window that loses height keeps its reader at the end, on the chat page and at the desk."""
    chat = await Chat(await windows.page(viewport={"width": 375, "height": 700}), server.url).open()
    for number in range(1, 4):
        await chat.write("I was charged twice for my order A-10023")
        await chat.answered(number)
    desk = await windows.page(viewport={"width": 375, "height": 700})
    await enter(desk, server.url, "Ann Small")
    await desk.locator(NEWEST).first.click()
    await expect(desk.locator(".said").last).to_be_in_viewport()
    await chat.page.set_viewport_size({"width": 375, "height": 400})
    await desk.set_viewport_size({"width": 375, "height": 400})
    await wait_until("the customer is at the end", lambda: chat.element.locator(".scroll").evaluate(AT_THE_END))
    await wait_until("the desk is at the end", lambda: desk.locator(".scroll").evaluate(AT_THE_END))


async def test_a_conversation_that_cannot_be_opened_says_so(server: ServerProcess, windows: Windows) -> None:
    """While the server is away a click gives a notice instead of the old conversation, and a second try opens it."""
    chat = await Chat(await windows.page(), server.url).open()
    await chat.write("I was charged twice for my order A-10023")
    await chat.answered(1)
    desk = await windows.page()
    await enter(desk, server.url, "Ann " + "Longname" * 9)
    leave = await desk.get_by_role("button", name="Leave").bounding_box()
    side = await desk.locator(".side").bounding_box()
    assert leave and side and leave["x"] + leave["width"] <= side["x"] + side["width"]
    await desk.route("**/v1/conversations/*", lambda route: route.abort())
    await desk.locator(NEWEST).first.click()
    notice = desk.get_by_role("alert")
    await expect(notice).to_have_text("The server cannot be reached. Please try again.")
    await desk.unroute("**/v1/conversations/*")
    await desk.get_by_role("button", name="Try again").click()
    await expect(desk.locator(".said").first).to_be_visible()
