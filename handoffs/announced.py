"""Announced but not called: an answer that says "I'm transferring you" while nobody was asked to take over.

English, Chinese and German. Only a plain announcement counts: an offer, a condition, a question or a refusal does not,
and a transfer of money is none.
"""

from __future__ import annotations

import re

MAX_QUOTE = 300  # characters of the sentence in the log

# An answer without any of these is not looked at further: nearly every answer, for a microsecond or two
_STEMS_EN = ("transfer", "connect", "pass", "hand", "forward", "redirect", "put you", "putting you")
_STEMS_ZH = ("转", "接通")
_STEMS_DE = ("verbind", "verbund", "leite", "gebe", "gestellt", "stelle sie", "reiche sie", "reiche dich")
_SENTENCE = re.compile(r"(?<=[.!?;。！？；\n])\s*")

_WHERE_EN = r"(?=\s+(?:to|with|over|on|now|right|straight|through|back|directly|there|right\s+away)\b|\s*[.,!:;…]|\s*$)"
_EN = re.compile(
    rf"""(?:
      \b(?:i|we)(?:['’]ll|\s+will|['’]m\s+going\s+to|\s+am\s+going\s+to|['’]re\s+going\s+to|\s+are\s+going\s+to|\s+have\s+to)
        \s+(?:(?:now|just|gladly|happily|quickly|go\s+ahead\s+and)\s+)*
        (?:transfer|connect|pass|hand|forward|redirect|put(?=\s+you\s+through))
        \s+(?:you|this\s+(?:chat|conversation)|the\s+(?:chat|conversation)|your\s+(?:chat|conversation)){_WHERE_EN}
      |
      \b(?:i|we)(?:['’]m|\s+am|['’]re|\s+are)\s+(?:(?:now|just|already)\s+)*
        (?:transferring|connecting|passing|handing|forwarding|redirecting|putting(?=\s+you\s+through))
        \s+(?:you|this\s+(?:chat|conversation)|the\s+(?:chat|conversation)|your\s+(?:chat|conversation)){_WHERE_EN}
      |
      \b(?:let\s+me|allow\s+me\s+to)\s+(?:(?:now|just|quickly)\s+)*(?:transfer|connect|pass|hand|forward|redirect|put(?=\s+you\s+through))
        \s+you{_WHERE_EN}
      |
      ^\W*(?:transferring|connecting|passing|forwarding)\s+you{_WHERE_EN}
      |
      \byou(?:['’]re|\s+are|\s+will|['’]ll)\s+(?:now\s+)?(?:being|be)\s+(?:now\s+)?
        (?:transferred|connected|passed|handed|forwarded|redirected)\b
    )""",
    re.VERBOSE,
)
_NOT_EN = re.compile(
    r"\?\s*$|\b(?:if|unless|once|when|whenever|before|after|until|would|could|should|shall|may|might|whether|cannot|"
    r"can['’]?t|not|never|won['’]?t|money|payment|funds|refund\s+amount|earlier|yesterday)\b",
)

_ZH = re.compile(
    r"(?:正在|马上|现在|这就|立即|立刻|即将|我会|我将|我来|我去|我先|我把|我帮|我给|我为|我|将)"
    r"[^。！？?，,]{0,6}?(?:为|帮|给|把|将)?(?:您|你)?[^。！？?，,]{0,6}?"
    r"(?:转接|转到|转给|转至|转交|转回|转人工|接通)"
)
_NOT_ZH = re.compile(
    r"[?？]\s*$|吗|不|无法|没法|没有|如果|如需|若|是否|要不要|需要我|可以|能够|的话|之后|以后|"
    r"转账|转款|汇款|款项|金额|退款|账户|账号|银行卡|钱|元"
)

_DE = re.compile(
    r"""(?:
      \bich\s+(?:verbinde|leite|übergebe|gebe|reiche|stelle)\s+(?:sie|dich|dieses\s+gespräch|diesen\s+chat)\b
        (?=.*\b(?:weiter|durch|mit|an|zu|zum|zur)\b)
      |
      \bich\s+(?:werde|darf|will)\s+(?:sie|dich)\b.*\b(?:verbinden|weiterleiten|übergeben|durchstellen|weitergeben)\b
      |
      \bsie\s+werden\b.*\b(?:verbunden|weitergeleitet|durchgestellt|übergeben)\b
    )""",
    re.VERBOSE,
)
_NOT_DE = re.compile(
    r"\?\s*$|\b(?:nicht|kein\w*|nie|kann|könnte\w*|möchte\w*|soll\w*|falls|wenn|sobald|ob|würde\w*|geld|betrag)\b"
)
_RULES = ((_STEMS_EN, _EN, _NOT_EN), (_STEMS_ZH, _ZH, _NOT_ZH), (_STEMS_DE, _DE, _NOT_DE))


def announced(text: str) -> str:
    """The sentence of `text` that announces a transfer of the conversation; empty when there is none."""
    low = text.lower()
    rules = [rule for rule in _RULES if any(stem in low for stem in rule[0])]
    for sentence in _SENTENCE.split(text) if rules else ():
        lowered = sentence.lower()
        for stems, says, denies in rules:
            if any(stem in lowered for stem in stems) and says.search(lowered) and not denies.search(lowered):
                return sentence.strip()[:MAX_QUOTE]
    return ""
