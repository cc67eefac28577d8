"""The language of a page: the browser's wish among those that the desk offers. (Messages: handoffs.state tells.)"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")


def offered(wish: str | None, languages: Sequence[str]) -> str:
    """The desk's language nearest to `wish` (`zh-CN` finds `zh`); its first one when none is near."""
    for code in (wish or "", (wish or "").partition("-")[0]):
        for language in languages:
            if code and language.lower() == code.lower():
                return language
    return languages[0]
