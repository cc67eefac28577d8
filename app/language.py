"""Which language to answer in. No guessing by a model: the browser's language, corrected by the script of the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
LATIN_WORD: Final = re.compile(r"[A-Za-z]{2,}")
WORDS_OF_A_SENTENCE: Final = 3  # fewer may be a name, a code or a brand inside any language


def offered(wish: str | None, languages: Sequence[str]) -> str:
    """The desk's language nearest to `wish` (`zh-CN` finds `zh`); its first one when none is near."""
    for code in (wish or "", (wish or "").partition("-")[0]):
        for language in languages:
            if code and language.lower() == code.lower():
                return language
    return languages[0]


def of_text(text: str, wish: str | None, languages: Sequence[str]) -> str:
    """The language of a message: Chinese characters mean Chinese, a Latin sentence is not Chinese, else `wish`."""
    chosen = offered(wish, languages)
    chinese = next((code for code in languages if code.lower().partition("-")[0] == "zh"), None)
    if chinese is None:
        return chosen
    if HAN.search(text):
        return chinese
    if chosen == chinese and len(LATIN_WORD.findall(text)) >= WORDS_OF_A_SENTENCE:
        return next((code for code in languages if code != chinese), chosen)
    return chosen
