"""Answers from knowledge: the best sentences of a passage, word for word, with its source. Nothing is made up."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.offline.sentences import language_of
from handoffs.encoder import Encoder

FLOOR = 0.52  # cosine; of 46 own questions on the demo desk 22 of 24 answerable pass, and 2 of 22 others
WHOLE_CHARS = 320  # a passage this short is quoted whole
QUOTE_SENTENCES = 3
NEAR_BEST = 0.75  # of the best sentence's cosine; further ones are left out
_MARKUP = re.compile(r"\*\*|__|`|^\s*(?:[-*+]|\d+\.)\s+|^#+\s*", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“(])|(?<=[。！？])|\n+")


@dataclass(frozen=True)
class Quote:
    """Sentences of one passage. `similarity` is the cosine of the question to its heading or best sentence."""

    text: str
    source: str
    similarity: float


@dataclass(frozen=True)
class Found:
    """One passage of a search result."""

    source: str
    text: str


def passages_of(output: str) -> list[Found]:
    """The passages of a search_knowledge result; [] when it is not such a result."""
    try:
        found = json.loads(output)["passages"]
        return [Found(str(p["source"]), str(p["text"])) for p in found if str(p["text"]).strip()]
    except (ValueError, KeyError, TypeError):
        return []


def best_quote(question: str, passages: Sequence[Found], language: str, encoder: Encoder) -> Quote | None:
    """The sentences to answer `question` with: of the first passage that is near enough, in the customer's language if
    there is one; None when no passage is near enough."""
    quotes = [quote for passage in passages if (quote := _quote(question, passage, encoder)) is not None]
    near = [quote for quote in quotes if quote.similarity >= FLOOR]
    readable = [quote for quote in near if language_of(quote.text) == language]
    return next(iter(readable or near), None)


def _quote(question: str, passage: Found, encoder: Encoder) -> Quote | None:
    text = clean(passage.text)
    sentences = [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]
    if not sentences:
        return None
    heading = passage.source.rpartition("#")[2]  # often the question itself, in the desk's words
    rows = encoder.encode([question, *sentences, heading, f"{heading}. {text}"])
    cosines = rows[1:] @ rows[0]
    kept = _kept(sentences, cosines[: len(sentences)], len(text))
    joiner = "" if language_of(text) == "zh" else " "
    return Quote(joiner.join(kept), passage.source, float(cosines.max()))


def _kept(sentences: list[str], cosines: np.ndarray[tuple[int], np.dtype[np.float32]], chars: int) -> list[str]:
    """A short passage whole; of a long one the best sentences, in their own order."""
    if chars <= WHOLE_CHARS:
        return sentences
    order = np.argsort(-cosines)[:QUOTE_SENTENCES]
    limit = NEAR_BEST * float(cosines.max())
    return [sentences[k] for k in sorted(int(k) for k in order if cosines[k] >= limit)]


def clean(markdown: str) -> str:
    """Markdown as plain text: no emphasis, bullets, headings or link targets; soft line breaks joined."""
    text = _LINK.sub(r"\1", markdown)
    lines = [line.rstrip() for line in text.splitlines()]
    blocks: list[str] = []
    for line in lines:
        starts = not line.strip() or re.match(r"\s*([-*+]|\d+\.)\s|#", line) is not None
        if blocks and blocks[-1] and not starts:
            glue = "" if language_of(blocks[-1]) == "zh" else " "
            blocks[-1] += glue + line.strip()
        else:
            blocks.append(line)
    return _MARKUP.sub("", "\n".join(block for block in blocks if block.strip())).strip()
