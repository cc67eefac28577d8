"""Everything the offline model says, one module per language, each with the same keys (a test pins that)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from app.offline.texts import en, zh


class Wording(Protocol):
    """What a language's module holds."""

    COMMA: str
    OR: str
    PHRASES: dict[str, str]
    REMARKS: dict[str, tuple[str, ...]]  # kind of remark -> phrasings
    FIRST: tuple[str, ...]
    SECOND: tuple[str, ...]
    NEITHER: tuple[str, ...]
    FILLERS: frozenset[str]
    POLICY: tuple[str, ...]  # patterns of a question about how things are
    WISH: tuple[str, ...]  # patterns of a wish that something be done
    PERSONAL: tuple[str, ...]  # patterns of words for what is the customer's own
    HUMAN: tuple[str, ...]  # patterns of a wish for a human


LANGUAGES: dict[str, Wording] = {"en": en, "zh": zh}


def wording(language: str) -> Wording:
    """The language's module; English for a language the model does not speak."""
    return LANGUAGES.get(language, LANGUAGES["en"])


def phrase(language: str, key: str, **values: str) -> str:
    """The sentence `key` in `language` (English when there is none), with `{names}` filled in."""
    text = wording(language).PHRASES[key]  # no str.format: a customer's text may hold braces
    return re.sub(r"\{(\w+)\}", lambda name: values.get(name[1], name[0]), text)


def find(key: str, text: str) -> dict[str, str] | None:
    """The values that filled sentence `key` when it occurs in `text`, in any language; None when it does not.

    This is how the model knows what it asked last: from its own words in the history, as any model would.
    """
    for module in LANGUAGES.values():
        found = _pattern(module.PHRASES[key]).search(text)
        if found:
            return found.groupdict()
    return None


def is_own(sentence: str) -> bool:
    """Whether a sentence is one of this module's, filled in or not."""
    plain = any(sentence in text for wording in LANGUAGES.values() for text in wording.PHRASES.values())
    return plain or any(find(key, sentence) is not None for key in ("ask", "offer_transfer", "offer_person"))


@lru_cache(maxsize=256)
def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    pieces = [re.escape(part) if k % 2 == 0 else f"(?P<{part}>.+?)" for k, part in enumerate(parts)]
    return re.compile("".join(pieces), re.DOTALL)


def joined(language: str, names: list[str]) -> str:
    """`A, B or C` in the language."""
    module = wording(language)
    if len(names) < 2:
        return "".join(names)
    return module.COMMA.join(names[:-1]) + module.OR + names[-1]


def wishes_human(text: str) -> bool:
    """Whether a text asks for a person in so many words ("talk to a human", "转人工")."""
    return _any("HUMAN", text)


def asks_about(text: str) -> bool:
    """Whether a text asks how things are (how long, what if, may I) and so does not ask for something to be done."""
    return _any("POLICY", text)


def wishes_for(text: str) -> bool:
    """Whether a text asks for something to be done ("please ...", "I want ...", "帮我 ...")."""
    return _any("WISH", text)


def is_personal(text: str) -> bool:
    """Whether a text is about something of the customer's own ("my order", "我的包裹")."""
    return _any("PERSONAL", text)


def _any(name: str, text: str) -> bool:
    return any(re.search(pattern, text, re.IGNORECASE) for w in LANGUAGES.values() for pattern in getattr(w, name))
