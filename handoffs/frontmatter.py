"""Text of an agent file -> plain data and the line of every key. No files are read here.

YAML is composed to its node tree and turned into plain data by us: that keeps the line of every node, finds every
duplicate key (not only the first), and never builds a Python object from a tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from handoffs.errors import Problem

FENCE = "---"
MAX_DEPTH = 20  # levels; the deepest setting there is needs five
_TAG = "tag:yaml.org,2002:"
_TAGS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq"))
_QUOTES = "put the text in quotes when it contains ': ' or ' #', or starts with {, [, *, & or @"


@dataclass
class Document:
    """What one file holds: `data`, the line of each path ("values.read.0" -> 12), the body and its first line."""

    data: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    body: str = ""
    body_line: int = 0
    problems: list[Problem] = field(default_factory=list)


def decode(file: str, content: bytes) -> tuple[str, list[Problem]]:
    """The text of a file, a byte order mark dropped and line ends made one; a Problem when it is not UTF-8."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = content[error.start]
        return "", [Problem(file, line, "", f"this is not UTF-8 text (byte 0x{byte:02x}); save the file as UTF-8")]
    return text.replace("\r\n", "\n").replace("\r", "\n"), []


def parse_agent_file(file: str, content: bytes) -> Document:
    """Front matter between two `---` lines, then the instructions."""
    text, problems = decode(file, content)
    if problems:
        return Document(problems=problems)
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        return _broken(file, 1, "an agent file starts with a line `---`, then its settings, then another line `---`")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        return _broken(file, 1, "the settings that start here have no closing line `---`")
    document = parse_yaml(file, "\n".join(lines[1:end]), first_line=2)
    document.body = "\n".join(lines[end + 1 :]).strip()
    document.body_line = end + 2
    return document


def parse_yaml_file(file: str, content: bytes) -> Document:
    """A whole file of settings, such as desk.yaml."""
    text, problems = decode(file, content)
    return Document(problems=problems) if problems else parse_yaml(file, text, first_line=1)


def parse_yaml(file: str, text: str, *, first_line: int) -> Document:
    """The settings in `text`, whose first line is line `first_line` of `file`."""
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        return _broken(file, _line_of(error, first_line), _explain(error))
    except YAMLError as error:
        return _broken(file, first_line, f"this is not valid YAML: {' '.join(str(error).split())}")
    except RecursionError:
        return _broken(file, first_line, f"the settings are nested deeper than {MAX_DEPTH} levels")
    if root is None:
        return Document()
    if not isinstance(root, MappingNode):
        return _broken(file, first_line, "expected settings, one `key: value` per line")
    builder = _Builder(file, first_line)
    data = builder.build(root, "", 0)
    return Document(data=data, lines=builder.lines, problems=builder.problems)


class _Builder:
    """Turns the node tree into plain data; remembers lines and collects problems on the way."""

    def __init__(self, file: str, first_line: int) -> None:
        self.file = file
        self.first_line = first_line
        self.lines: dict[str, int] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()
        self._yaml = YAML(typ="safe", pure=True)

    def build(self, node: Node, path: str, depth: int) -> Any:
        self.lines.setdefault(path, self._line(node))
        if id(node) in self._seen:
            return self._refuse(node, path, "&anchors and *aliases are not supported; write the text out again")
        self._seen.add(id(node))
        if depth > MAX_DEPTH:
            return self._refuse(node, path, f"the settings are nested deeper than {MAX_DEPTH} levels")
        if node.tag not in _TAGS:
            return self._refuse(node, path, f"tags such as `{node.tag}` are not supported; write the plain value")
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.build(item, f"{path}.{i}" if path else str(i), depth + 1) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: str, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value, child in self._entries(node, path):
            line = self._line(key)
            if child in first:
                self._report(line, child, f"this key is here twice (first on line {first[child]}); keep one of them")
                continue
            first[child] = line
            self.lines[child] = line
            data[key.value] = self.build(value, child, depth + 1)
        return data

    def _entries(self, node: MappingNode, path: str) -> Iterator[tuple[ScalarNode, Node, str]]:
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag == f"{_TAG}merge":
                self._report(self._line(key), path, f"a key must be a plain word, not {_brief(key)}; {_QUOTES}")
                continue
            yield key, value, f"{path}.{key.value}" if path else key.value

    def _scalar(self, node: Node, path: str) -> Any:
        if node.tag == f"{_TAG}timestamp":  # nothing in our files is a date; a queue named 2024-01-01 is a text
            return node.value
        try:
            return self._yaml.constructor.construct_object(node)
        except (YAMLError, ValueError, ArithmeticError):
            return self._refuse(node, path, f"{node.value!r} cannot be read as {str(node.tag).removeprefix(_TAG)}")

    def _refuse(self, node: Node, path: str, message: str) -> None:
        self._report(self._line(node), path, message)

    def _report(self, line: int, path: str, message: str) -> None:
        self.problems.append(Problem(self.file, line, path, message))

    def _line(self, node: Node) -> int:
        return int(node.start_mark.line) + self.first_line


def _broken(file: str, line: int, message: str) -> Document:
    return Document(problems=[Problem(file, line, "", message)])


def _line_of(error: MarkedYAMLError, first_line: int) -> int:
    """Where to look: for a quote that is never closed, where it was opened."""
    never_closed = "unexpected end" in str(error.problem)
    mark = (error.context_mark if never_closed else None) or error.problem_mark or error.context_mark
    return first_line + (int(mark.line) if mark is not None else 0)


def _explain(error: MarkedYAMLError) -> str:
    """What a person who has never read the YAML specification can do about it."""
    what = str(error.problem or error.context or "it cannot be read")
    if "'\\t'" in what:
        return "a tab is used here; YAML allows only spaces for indentation"
    if "undefined alias" in what:
        return f"`*` and `&` have a meaning in YAML; {_QUOTES}"
    if "another document" in what:
        return "a second line `---` is here; a file of settings has only one part"
    if "unexpected end of stream" in what:
        return "a quote or bracket that was opened is never closed"
    return f"this is not valid YAML ({what}); check the indentation, and {_QUOTES}"


def _brief(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return f"`{node.value}`"
    return "a {map}" if isinstance(node, MappingNode) else "a [list]"
