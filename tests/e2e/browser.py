"""Debian's Chromium, and a page object for the chat: what a customer sees and does."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests.support import SCALE

ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--disable-background-networking", "--disable-gpu"]
ANSWER_MS = 20_000 * SCALE
CONNECT_MS = 45_000 * SCALE  # the page's back-off grows to 30 s while no server is there
WATCH_POLICY = """
  window.violations = [];
  document.addEventListener("securitypolicyviolation", (event) =>
    window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def chromium() -> str | None:
    """Where Chromium is on this machine; None when it is nowhere."""
    named = os.environ.get("FRONTDESK_TEST_CHROMIUM", "")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """A headless browser for one test."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        await browser.close()


@dataclass
class Windows:
    """Opens windows in one browser and remembers what went wrong in any of them."""

    browser: Browser
    problems: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    async def context(self, **options: Any) -> BrowserContext:
        """A visitor with an empty profile."""
        options = {"locale": "en-US", "viewport": {"width": 1280, "height": 800}, **options}
        context = await self.browser.new_context(**options)
        await context.add_init_script(WATCH_POLICY)
        return context

    async def page(self, context: BrowserContext | None = None, **options: Any) -> Page:
        """A window of a new visitor, or another one of the same."""
        page = await (context or await self.context(**options)).new_page()
        page.set_default_timeout(ANSWER_MS)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", lambda message: print(f"[{message.type}] {message.text}"))  # shown when a test fails
        self.pages.append(page)
        return page

    async def found(self) -> list[str]:
        """Script errors and policy violations in all windows."""
        seen = list(self.problems)
        for page in self.pages:
            if not page.is_closed():
                seen += await page.evaluate("window.violations ?? []")
        return seen


class Chat:
    """The chat page as a customer uses it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.element = page.locator("frontdesk-chat")
        self.box = self.element.locator("textarea")
        self.messages = self.element.locator("li.msg")
        self.changes = self.element.locator("li.change")
        self.header = self.element.locator("header .tag")

    async def open(self) -> Chat:
        await self.page.goto(f"{self.url}/")
        await self.connected()
        return self

    async def connected(self) -> None:
        await expect(self.element).to_have_attribute("state", "open", timeout=CONNECT_MS)

    async def write(self, text: str) -> None:
        await self.box.fill(text)
        await self.box.press("Enter")

    async def answered(self, count: int) -> Locator:
        """The newest answer, when there are `count` of them."""
        answers = self.element.locator("ol.log li.msg.ai")
        await expect(answers).to_have_count(count, timeout=ANSWER_MS)
        return answers.last

    async def texts(self) -> list[str]:
        """The bubbles, in order."""
        return await self.element.locator("ol.log li.msg .bubble").all_inner_texts()

    async def picture(self, name: str) -> None:
        """A screenshot for people, in test-artifacts/."""
        ARTIFACTS.mkdir(exist_ok=True)
        await self.page.screenshot(path=ARTIFACTS / f"{name}.png")
