"""Cutting a message into the sentences and clauses that are routed one by one.

USE averages over words, so a request inside greetings disappears when the whole message is scored at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_SENTENCES = 24  # of one turn's messages; more is a pasted document, and each costs 3 ms
MAX_CHARS = 400  # of one sentence; a longer one says nothing to the encoder
_HAN = re.compile(r"[\u3400-\u9fff]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；…])|[\n\r]+|(?<=;)\s+")
_CLAUSE = re.compile(
    r"\s*[,，;；]\s*(?:and|but|also|plus|then|so|或者|并且|而且|还有|另外|以及|同时|然后|顺便|请问)?\s*"
    r"|\s+(?:and|but|also|plus)\s+(?:also\s+|then\s+)?"
    r"|\s*(?:并且|而且|还有|另外|以及|顺便)\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sentence:
    """One sentence of the customer and, when it has several, its clauses of at least three words."""

    text: str
    clauses: tuple[str, ...] = ()


def split(text: str) -> list[Sentence]:
    """The sentences of `text` in reading order, at most 24 of at most 400 characters; [] without letters or digits."""
    parts = [piece for part in _SENTENCE.split(text) if part for piece in _pieces(part.strip())]
    return [Sentence(part, _clauses(part)) for part in parts if re.search(r"\w", part)][:MAX_SENTENCES]


def _pieces(sentence: str) -> list[str]:
    """An overlong sentence in pieces of at most 400 characters, cut at spaces where there are any."""
    return re.findall(rf".{{1,{MAX_CHARS}}}(?:\s+|$)|.{{1,{MAX_CHARS}}}", sentence)[: MAX_SENTENCES + 1]


def _clauses(sentence: str) -> tuple[str, ...]:
    """Clauses that could stand alone, or () when there is only one of them."""
    found = [part.strip(" ,，") for part in _CLAUSE.split(sentence) if part]
    long = tuple(part for part in found if stands_alone(part))
    return long if len(long) > 1 else ()


def stands_alone(text: str) -> bool:
    """Whether a piece of text is long enough to carry an intent: three words, or four Chinese characters."""
    return len(_HAN.findall(text)) >= 4 or len(text.split()) >= 3


def language_of(text: str) -> str | None:
    """`zh` for text with Chinese characters, `en` for other letters, None when there are no letters to tell by."""
    if _HAN.search(text) and not re.search(r"[\u3040-\u30ff]", text):
        return "zh"
    words = re.findall(r"[^\W\d_]{2,}", text)
    return "en" if words else None
