"""Declared arguments and results of an asked agent: a strict JSON schema for models, and a check of what they send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, cast

from agents import AgentOutputSchemaBase, ModelBehaviorError
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic asks for this one below Python 3.12

from handoffs.roster import Declared

_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "list": list[str]}


class Unfit(ValueError):
    """What came does not fit what is declared; the text says which field, and what is wrong with it."""


class Shape:
    """The checked form of one `arguments:` or `result:`. `schema` is strict: every field required, null where optional.

    Built on pydantic: made once for an agent, then shared.
    """

    def __init__(self, name: str, fields: Mapping[str, Declared]) -> None:
        made = cast(Any, TypedDict)(name, {key: _annotation(field) for key, field in fields.items()})
        made.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, regex_engine="python-re")
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(made)
        self.name = name
        self.schema: dict[str, Any] = {
            "type": "object",
            "properties": {key: _schema(field) for key, field in fields.items()},
            "required": list(fields),
            "additionalProperties": False,
        }

    def read(self, text: str) -> dict[str, Any]:
        """The fields in a JSON text, those that are null left out. Unfit when it does not fit."""
        try:
            found = self._adapter.validate_json(text or "{}")
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or self.name
            raise Unfit(f"{where}: {first['msg']}") from None
        return {key: value for key, value in found.items() if value is not None}


class DeclaredResult(AgentOutputSchemaBase):
    """A `result:` as the SDK's output type: the model is held to it, and what it sends is checked."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def is_plain_text(self) -> bool:
        return False

    def name(self) -> str:
        return self._shape.name

    def json_schema(self) -> dict[str, Any]:
        return self._shape.schema

    def is_strict_json_schema(self) -> bool:
        return True

    def validate_json(self, json_str: str) -> Any:
        """The result; ModelBehaviorError (caused by Unfit) when it does not fit."""
        try:
            return self._shape.read(json_str)
        except Unfit as why:
            raise ModelBehaviorError(f"the result does not fit: {why}") from why


def _annotation(field: Declared) -> Any:
    kind = Literal[field.allowed] if field.allowed else _TYPES[field.type]
    if field.pattern and field.type == "string" and not field.allowed:
        kind = Annotated[str, Field(pattern=_whole(field.pattern))]
    return kind if field.required else NotRequired[kind | None]


def _schema(field: Declared) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": field.type}
    if field.type == "list":
        kind = {"type": "array", "items": {"type": "string"}}
    if field.allowed:
        kind["enum"] = list(field.allowed)
    elif field.pattern and field.type == "string":
        kind["pattern"] = _whole(field.pattern)
    if not field.required:
        kind = {"anyOf": [kind, {"type": "null"}]}
    return {**kind, "description": field.description} if field.description else kind


def _whole(pattern: str) -> str:
    """The pattern for a whole text, as the contract of a shared value means it too."""
    return f"^{pattern}$" if "|" not in pattern else f"^(?:{pattern})$"
