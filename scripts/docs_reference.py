"""Write the parts of docs/reference/ that come from code: `python -m scripts.docs_reference`.

A page marks them with `<!-- generated: NAME -->` and `<!-- /generated -->`; what stands around them is written by hand.
tests/contract/test_docs.py fails when a page is not what this writes.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from app import protocol
from app.api_errors import CODES, STATUS
from app.cli import cli
from app.commands.output import EXIT_CODE_HELP
from app.main import create_app
from app.settings import Settings
from scripts import handoffs_reference

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MARKED = re.compile(r"(?s)<!-- generated: ([a-z-]+) -->\n.*?<!-- /generated -->")
Schema = Mapping[str, Any]


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; a `|` inside a cell is escaped."""
    head = list(headings)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


# --- the command line -----------------------------------------------------------------------------------------------

NO_ROW = ("help", "install_completion", "show_completion")
TAKES: Mapping[object, str] = {str: "a text", Path: "a path", int: "a whole number", float: "a number"}


def commands() -> Mapping[str, Any]:
    """The commands of `frontdesk`, as the parser has them."""
    found: Mapping[str, Any] = typer.main.get_command(cli).commands  # type: ignore[attr-defined]  # it is a group
    return found


def command_line() -> str:
    """One section per command: usage, what it does, arguments and options."""
    head = "`frontdesk COMMAND --help` prints the same. Options before the command:\n\n"
    parts = [head, _options(typer.main.get_command(cli).params)]
    parts += [_command(name, command) for name, command in commands().items()]
    codes = re.findall(r"(\d+) (.+?)(?:, (?=\d)|\.$)", EXIT_CODE_HELP.removeprefix("Exit codes: "))
    parts.append("\n## Exit codes\n\n" + table(("code", "meaning"), codes))
    return "".join(parts)


def _command(name: str, command: Any) -> str:
    arguments = [_placeholder(p) for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["frontdesk", name, *arguments, "[OPTIONS]"])
    return f"\n## frontdesk {name}\n\n`{usage}`\n\n{_flat(command.help)}\n\n{_options(command.params)}"


def _placeholder(parameter: Any) -> str:
    shown = str(parameter.metavar or parameter.name).upper()
    return shown if parameter.required else f"[{shown}]"


def _options(parameters: Iterable[Any]) -> str:
    rows = [
        (
            _placeholder(p)
            if p.param_type_name == "argument"
            else ", ".join(f"`{opt}`" for opt in (*p.opts, *p.secondary_opts)),
            _takes(p),
            "" if p.default in (None, False) else f"`{p.opts[0] if p.default is True else p.default}`",
            _flat(p.help),
        )
        for p in parameters
        if p.name not in NO_ROW
    ]
    return table(("option", "takes", "default", "what it does"), rows) if rows else "It takes no options.\n"


def _takes(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "nothing"
    low, high = parameter.min, parameter.max
    limits = f", {low:g} to {high:g}" if None not in (low, high) else f", at least {low:g}" if low is not None else ""
    kind = parameter.type_descriptor.annotation
    return TAKES.get(kind, str(getattr(kind, "__name__", kind))) + limits


def _flat(text: str | None) -> str:
    return " ".join((text or "").split())


# --- HTTP -----------------------------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """The OpenAPI description of the real application. Nothing is opened for it."""
    with tempfile.TemporaryDirectory() as folder:
        return create_app(Settings(data_dir=Path(folder))).openapi()


def http() -> str:
    """One section per endpoint, then every body by name."""
    api = openapi()
    parts = [_endpoint(path, method, op) for path, ops in api["paths"].items() for method, op in ops.items()]
    schemas: Mapping[str, Schema] = api["components"]["schemas"]
    parts.append("\n## Bodies\n")
    parts += [_body(name, schema) for name, schema in schemas.items() if "ValidationError" not in name]
    return "".join(parts).lstrip("\n")


def error_codes() -> str:
    """Every `error.code` with its status."""
    found = {code: status for status, code in STATUS.values()}
    source = "".join(path.read_text() for path in sorted((ROOT / "app").glob("*.py")))
    found |= {code: int(status) for status, code in re.findall(r"\b(?:Refused|answer)\((\d{3}), \"(\w+)\"", source)}
    found |= {code: status for status, code in CODES.items() if code not in found}
    rows = sorted((str(status), f"`{code}`") for code, status in found.items())
    return table(("status", "code"), rows)


def _endpoint(path: str, method: str, op: Schema) -> str:
    key = "with the desk's key" if op.get("security") else "open"
    lines = [f"\n## {method.upper()} {path}\n\n{_flat(op.get('description') or op.get('summary'))} ({key})\n"]
    asked = [(p["name"], p["in"], schema_words(p["schema"]), _default(p["schema"])) for p in op.get("parameters", ())]
    if asked:
        rows = ((f"`{name}`", place, words, default) for name, place, words, default in asked)
        lines.append("\n" + table(("parameter", "in", "type", "default"), rows))
    if "requestBody" in op:
        lines.append(f"\nRequest: {schema_words(_json(op['requestBody']))}.")
    answers = [_answer(status, answer) for status, answer in op["responses"].items() if status < "400"]
    refusals = sorted(status for status in op["responses"] if status >= "400")
    lines.append(f"\nAnswer: {'; '.join(answers)}.")
    lines.append(f" Refusals: {', '.join(refusals)}.\n" if refusals else "\n")
    return "".join(lines)


def _answer(status: str, answer: Schema) -> str:
    if "text/event-stream" in answer.get("content", {}):
        return f"{status} a stream of server-sent events"
    return f"{status} {schema_words(_json(answer))}"


def _json(holder: Schema) -> Schema:
    found: Schema = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return found


def _body(name: str, schema: Schema) -> str:
    text = _flat(schema.get("description"))
    return f"\n### {name}\n\n" + (f"{text}\n\n" if text else "") + fields(schema)


def fields(schema: Schema) -> str:
    """The properties of a JSON schema as a table."""
    needed = schema.get("required", ())
    rows = [
        (f"`{name}`", schema_words(found), "required" if name in needed else _default(found), _flat(_about(found)))
        for name, found in schema.get("properties", {}).items()
    ]
    return table(("field", "type", "default", "meaning"), rows) if rows else "No fields.\n"


def _about(schema: Schema) -> str:
    return str(
        schema.get("description") or next((o["description"] for o in _choices(schema) if "description" in o), "")
    )


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if "const" in schema or default is None or isinstance(default, dict):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _choices(schema: Schema) -> list[Schema]:
    return [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]


def schema_words(schema: Schema) -> str:
    """The type of a JSON schema in words, with its limits."""
    if choices := _choices(schema):
        return " or ".join(schema_words(choice) for choice in choices)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return "list of " + schema_words(schema.get("items", {})) if "items" in schema else "list"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "object"}
    return ", ".join([words.get(str(schema.get("type")), str(schema.get("type", "anything"))), *_limits(schema)])


def _limits(schema: Schema) -> Iterator[str]:
    low, high = schema.get("minLength"), schema.get("maxLength")
    if high is not None:
        yield f"{low} to {high} characters" if low else f"at most {high} characters"
    if schema.get("pattern") == r"\S":
        yield "not blank"
    elif "pattern" in schema:
        yield f"matches `{schema['pattern']}`"
    if "maximum" in schema:
        yield f"{schema.get('minimum', 0)} to {_big(schema['maximum'])}"
    elif "minimum" in schema:
        yield f"at least {schema['minimum']:g}"


def _big(number: int) -> str:
    return "2^53 - 1" if number == protocol.MAX_SEQ else str(number)


# --- the widget's protocol ------------------------------------------------------------------------------------------


def client_frames() -> str:
    """The frames a client may send."""
    return _frames(protocol.json_schema()["client"])


def server_frames() -> str:
    """The frames a server sends."""
    return _frames(protocol.json_schema()["server"])


def frame_parts() -> str:
    """What frames are made of."""
    parts: tuple[type[BaseModel], ...] = (protocol.Party, protocol.Draft, protocol.Limits, protocol.ModelInfo)
    return "".join(_body(part.__name__, part.model_json_schema()) for part in parts).lstrip("\n")


def _frames(frames: Mapping[str, Schema]) -> str:
    sections = (f"\n### {kind}\n{_about_frame(schema)}\n{fields(schema)}" for kind, schema in frames.items())
    return "".join(sections).lstrip("\n")


def _about_frame(schema: Schema) -> str:
    text = _flat(schema.get("description"))
    return f"\n{text}\n" if text else ""


# --- handoffs -------------------------------------------------------------------------------------------------------


def handoff_settings() -> str:
    """One section per block of settings that concerns handoffs."""
    sections = (
        f"\n### {name}\n\n{_flat(model.__doc__)}\n\n{_short_fields(model.model_json_schema())}"
        for name, model in handoffs_reference.settings()
    )
    return "".join(sections).lstrip("\n")


def _short_fields(schema: Schema) -> str:
    """`fields` for settings, whose meanings are in their model's docstring."""
    needed = schema.get("required", ())
    rows = [
        (f"`{name}`", schema_words(found), "required" if name in needed else _default(found).replace("``", "empty"))
        for name, found in schema["properties"].items()
    ]
    return table(("field", "type", "default"), rows)


# --- pages ----------------------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], str]] = {
    "cli": command_line,
    "http": http,
    "error-codes": error_codes,
    "client-frames": client_frames,
    "server-frames": server_frames,
    "frame-parts": frame_parts,
    "handoff-steps": lambda: table(("record", "when"), handoffs_reference.steps()),
    "handoff-info": lambda: table(("field", "type"), handoffs_reference.info()),
    "handoff-brief": lambda: table(("part", "type"), handoffs_reference.brief()),
    "handoff-refusals": lambda: table(("wish", "what the model reads"), handoffs_reference.refusals()),
    "handoff-guards": lambda: table(("limit", "reason"), handoffs_reference.guards()),
    "handoff-decided-by": lambda: table(("`decided_by`", "who"), handoffs_reference.decided_by()),
    "handoff-failures": lambda: table(("cause", "`why`"), handoffs_reference.failures()),
    "handoff-alarms": lambda: table(("counter", "counts how often"), handoffs_reference.alarms()),
    "handoff-how": lambda: handoffs_reference.how_to_write() + "\n",
    "handoff-conditions": lambda: table(("test", "true when"), handoffs_reference.conditions()),
    "handoff-settings": handoff_settings,
    "handoff-sentences": lambda: table(("sentence", "en", "zh"), handoffs_reference.sentences()),
}


def generated(page: str) -> str:
    """`page` with every marked part as the code has it now; KeyError for a part that there is not."""
    return MARKED.sub(
        lambda found: f"<!-- generated: {found[1]} -->\n{PARTS[found[1]]()}<!-- /generated -->",
        page,
    )


def main() -> None:
    """Write all pages anew."""
    for path in sorted(DOCS.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        after = generated(before)
        if after != before:
            path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
