"""Languages are read from the script of what the customer writes."""

from __future__ import annotations

import pytest

from handoffs.router import known_language
from handoffs.state import RouterState, detect_language

BOTH = ("en", "zh")


@pytest.mark.parametrize(
    ("text", "current", "found"),
    [
        ("I was charged twice", "", "en"),
        ("我被重复扣款了", "", "zh"),
        ("我的订单 A-10023 在哪里", "en", "zh"),
        ("A-10023", "zh", "zh"),
        ("ok", "zh", "zh"),
        ("ok", "", "en"),
        ("please go on in English now", "zh", "en"),
        ("Wo ist mein Paket?", "", "en"),
        ("", "zh", "zh"),
    ],
)
def test_language_follows_the_customer(text: str, current: str, found: str) -> None:
    """Clear text decides; numbers and short words leave it as it was."""
    assert detect_language(text, BOTH, current) == found


def test_browser_wish_is_matched_to_the_desk() -> None:
    """zh-CN finds zh; what the desk does not have is no wish."""
    assert known_language(BOTH, "zh-CN") == "zh"
    assert known_language(("pt-BR",), "pt") == "pt-BR"
    assert known_language(BOTH, "fr") == ""


def test_state_survives_the_store_and_forgets_the_turn() -> None:
    """What is dumped is read back; the trail ends with the turn, the count does not."""
    state = RouterState(language="zh").moved("a", "b")

    assert RouterState.of(state.dump()) == state
    assert (state.rested().trail, state.rested().transfers) == ((), 1)
    assert RouterState.of({"something": "newer"}) == RouterState()
