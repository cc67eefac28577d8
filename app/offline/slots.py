"""Slot values: finding what a tool's JSON schema asks for in what the customer wrote.

A pattern such as `^A-\\d{5}$` also finds `a 10023` and `A10023`; the value is given back as the pattern spells it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
_NUMBER = re.compile(r"(?<![\w.-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])|(?<![\w.-])\d+(?:[.,]\d{1,2})?(?![\w-])")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_REFERENCE = re.compile(r"(?<![A-Za-z0-9])[A-Z]{1,4}[- ]?\d{3,10}(?![A-Za-z0-9])")
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212_"
_TOKEN = re.compile(
    r"(?P<class>\\[dw]|\[[^\]^\\]+\])(?P<count>\{\d+(?:,\d*)?\}|[+*?])?"
    r"|(?P<literal>\\[-./#]|[A-Za-z0-9\-_/# ])(?P<times>[?])?"
)
FREE_TEXT = frozenset(
    """
    reason description message question query note notes details problem request input text symptom symptoms issue
    comment subject summary
    """.split()  # noqa: SIM905 - easier to read and to edit as text
)


@dataclass(frozen=True)
class Slot:
    """One parameter of a tool, from its JSON schema."""

    name: str
    description: str
    type: str = "string"
    pattern: str = ""
    format: str = ""
    options: tuple[Any, ...] = ()
    required: bool = True
    default: Any = None

    @property
    def is_free_text(self) -> bool:
        """A text in the customer's own words, such as a reason: any sentence of theirs fits."""
        plain = self.type == "string" and not (self.pattern or self.options or self.format)
        return plain and bool(FREE_TEXT & set(self.name.lower().split("_")))


def slots_of(schema: Mapping[str, Any]) -> tuple[Slot, ...]:
    """The parameters of a tool. Strict schemas list every parameter as required: one that may be null is not."""
    required = set(schema.get("required") or ())
    definitions = schema.get("$defs") or {}
    properties = schema.get("properties") or {}
    return tuple(_slot(name, spec, name in required, definitions) for name, spec in properties.items())


def _slot(name: str, spec: Mapping[str, Any], required: bool, definitions: Mapping[str, Any]) -> Slot:
    kinds = [_resolved(kind, definitions) for kind in spec.get("anyOf") or (spec,)]
    filled = [kind for kind in kinds if kind.get("type") != "null"]
    own = {key: value for key, value in spec.items() if key != "anyOf"}
    kind = _resolved({**(filled[0] if filled else {}), **own}, definitions)
    options = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
    return Slot(
        name=name,
        description=str(kind.get("description") or name.replace("_", " ")),
        type=str(kind.get("type") or "string"),
        pattern=str(kind.get("pattern") or ""),
        format="email" if "email" in name.lower() and not kind.get("pattern") else str(kind.get("format") or ""),
        options=tuple(options),
        required=required and len(filled) == len(kinds) and "default" not in spec,
        default=spec.get("default"),
    )


def _resolved(spec: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(spec.get("$ref") or "").rpartition("/")[2]
    return {**definitions.get(reference, {}), **spec} if reference else spec


def find(slot: Slot, texts: Iterable[str]) -> Any:
    """The slot's value in the first text that holds one (give the newest text first); None when no text does."""
    for text in texts:
        value = _find_in(slot, unicodedata.normalize("NFKC", text))
        if value is not None:
            return value
    return None


def without(slot: Slot, text: str) -> str:
    """`text` (NFKC) without everything that looks like the slot's value, however it is spelled."""
    patterns = {"email": _EMAIL, "date": _DATE}
    pattern = (tolerant(slot.pattern) or _compiled(slot.pattern)) if slot.pattern else patterns.get(slot.format)
    normal = unicodedata.normalize("NFKC", text)
    return pattern.sub(" ", normal) if pattern else normal


def _find_in(slot: Slot, text: str) -> Any:
    if slot.options:
        return _option(slot, text)
    if slot.pattern:
        return _by_pattern(slot.pattern, text)
    if slot.format == "email":
        return _first(_EMAIL, text)
    if slot.format == "date":
        return _first(_DATE, text)
    if slot.type in ("integer", "number"):
        return _number(slot, text)
    return None


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[0] if found else None


def _option(slot: Slot, text: str) -> Any:
    folded = text.casefold()
    named = [o for o in slot.options if _word(str(o).replace("_", " ").casefold(), folded)]
    return max(named, key=lambda option: len(str(option)), default=None)


def _word(word: str, text: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", text))


def _number(slot: Slot, text: str) -> int | float | None:
    for found in _NUMBER.finditer(text):
        digits = found[0]
        digits = digits.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits) else digits
        value = float(digits.replace(",", "."))
        if slot.type == "number":
            return value
        if value.is_integer():
            return int(value)
    return None


def _by_pattern(pattern: str, text: str) -> str | None:
    exact = _compiled(pattern)
    loose = tolerant(pattern)
    for candidate in loose.finditer(text) if loose else ():
        value = _spelled(pattern, candidate)
        if exact is None or exact.fullmatch(value):
            return value
    if loose or exact is None:
        return None
    found = re.search(rf"(?<![A-Za-z0-9])(?:{exact.pattern})(?![A-Za-z0-9])", text)
    return found[0] if found else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """The schema's pattern without its anchors; None when Python cannot compile it (JSON Schema's dialect differs)."""
    try:
        return re.compile(pattern.removeprefix("^").removesuffix("$"))
    except re.error:
        return None


@lru_cache(maxsize=256)
def tolerant(pattern: str) -> re.Pattern[str] | None:
    """A pattern that ignores case and is lax about dashes and spaces; None when `pattern` is more than a plain code."""
    tokens = _tokens(pattern)
    if not tokens:
        return None
    parts = []
    for kind, value in tokens:
        if kind == "literal":
            parts.append(_lax(value))
        else:
            parts.append(f"({value})")
    body = "".join(parts).removesuffix(r"\s?")
    return re.compile(rf"(?<![A-Za-z0-9]){body}(?![A-Za-z0-9])", re.IGNORECASE | re.ASCII)


def _lax(literal: str) -> str:
    """A literal as people type it: any dash or none, a decimal comma, a space after it."""
    if literal in _DASHES or literal == " ":
        return rf"[\s{re.escape(_DASHES)}]{{0,3}}"
    return "[.,]" if literal == "." else re.escape(literal) + r"\s?"


def _tokens(pattern: str) -> list[tuple[str, str]]:
    """The pattern as literals and classes; [] when it has groups, alternatives or anything else."""
    body = pattern.removeprefix("^").removesuffix("$")
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(body):
        found = _TOKEN.match(body, at)
        if not found or found["times"]:
            return []
        if found["class"]:
            tokens.append(("class", found["class"] + (found["count"] or "")))
        else:
            tokens.append(("literal", found["literal"].removeprefix("\\")))
        at = found.end()
    return tokens


def _spelled(pattern: str, found: re.Match[str]) -> str:
    """The match written as the pattern writes it: its literals, its capitals, no stray spaces."""
    groups = iter(found.groups())
    spelled = "".join(value if kind == "literal" else next(groups) for kind, value in _tokens(pattern))
    exact = _compiled(pattern)
    fits = (v for v in (spelled, spelled.upper(), spelled.lower()) if exact is None or exact.fullmatch(v))
    return next(fits, spelled)


def bare(slot: Slot, text: str) -> str | None:
    """The value when `text` has only its variable part: `10023` for `^A-\\d{5}$`. For answers to our own question."""
    tokens = _tokens(slot.pattern) if slot.pattern else []
    classes = [value for kind, value in tokens if kind == "class"]
    if not classes or len(classes) == len(tokens):
        return None
    body = "".join(f"({part})" for part in classes)
    found = re.search(rf"(?<!\w){body}(?!\w)", unicodedata.normalize("NFKC", text), re.ASCII)
    return _spelled(slot.pattern, found) if found else None


def without_references(text: str) -> str:
    """`text` without codes and addresses: they say nothing about the subject and disturb the encoder."""
    bare_text = _EMAIL.sub(" ", _REFERENCE.sub(" ", text))
    return " ".join(bare_text.split()) if re.search(r"\w", bare_text) else text


def references(text: str) -> list[str]:
    """Codes and e-mail addresses that a message mentions, for the facts of a brief when no schema is at hand."""
    normal = unicodedata.normalize("NFKC", text)
    return list(dict.fromkeys([*_REFERENCE.findall(normal), *_EMAIL.findall(normal)]))
