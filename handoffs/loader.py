"""The agents folder -> a Roster. Pure reading: no tool is imported, nothing is written.

The folder is read once into memory and parsed from there, so that the version is the hash of exactly what was parsed.
Every problem of every file is collected before RosterInvalid is raised.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from handoffs.errors import Problem, RosterInvalid
from handoffs.frontmatter import Document, decode, parse_agent_file, parse_yaml_file
from handoffs.roster import ID, LANGUAGE, RESERVED_IDS, AgentSettings, AgentSpec, DeskSpec, Roster, fill

__all__ = ["Problem", "RosterInvalid", "load_roster", "parse_roster", "read_folder"]

DESK = "desk.yaml"
AGENT = "agent.md"
MAX_FILE_BYTES = 2_000_000  # far above any instructions or knowledge a person writes; a bigger file is a mistake
SKIPPED_NAMES = frozenset({"cases.yaml", "__pycache__"})  # test cases do not change what an agent does
SKIPPED_SUFFIXES = (".pyc", "~", ".tmp", ".swp", ".orig", ".bak")
SUGGESTION_CUTOFF = 0.6  # difflib's own default: "transfer_too" and "tranfer" find "transfer_to"

M = TypeVar("M", bound=BaseModel)


def load_roster(folder: Path) -> Roster:
    """The roster in `folder`; RosterInvalid with every problem of every file when it cannot be used."""
    if folder.is_dir() and not (folder / DESK).is_file() and not any(folder.glob(f"*/{AGENT}")):
        hint = f"this is no agents folder, it has no {DESK}; `frontdesk init DIR` makes one to start from"
        raise RosterInvalid([Problem(str(folder), 0, "", hint)])
    files, problems = read_folder(folder)
    if not problems:
        return parse_roster(files, folder)
    if not files:
        raise RosterInvalid(problems)
    try:
        parse_roster(files, folder)
    except RosterInvalid as error:
        unread = {problem.file for problem in problems}
        problems += [problem for problem in error.problems if problem.file not in unread]
    raise RosterInvalid(problems)


def read_folder(folder: Path) -> tuple[dict[str, bytes], list[Problem]]:
    """Every file that matters, by its name relative to `folder` (with /), sorted; and what could not be read."""
    if not folder.is_dir():
        return {}, [
            Problem(str(folder), 0, "", "there is no such folder; `frontdesk init DIR` makes one to start from")
        ]
    files: dict[str, bytes] = {}
    problems: list[Problem] = []
    for path in sorted(_walk(folder)):
        name = path.relative_to(folder).as_posix()
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                problems.append(Problem(name, 0, "", f"the file is larger than {MAX_FILE_BYTES // 1_000_000} MB"))
            else:
                files[name] = path.read_bytes()
        except OSError as error:
            problems.append(Problem(name, 0, "", f"the file cannot be read: {error.strerror}"))
    return files, problems


def parse_roster(files: Mapping[str, bytes], folder: Path) -> Roster:
    """The roster that these files describe; RosterInvalid. No I/O."""
    desk, desk_file, problems = _parse_desk(files)
    languages = _languages(desk_file)
    agents: dict[str, AgentSpec] = {}
    for agent_id in _agent_ids(files):
        spec, found = _parse_agent(agent_id, files, folder, languages, desk.variables if desk else {})
        problems += found
        if spec:
            agents[agent_id] = spec
    if desk and not any(problem.file.startswith(f"{desk.start}/") for problem in problems):
        problems += _check_start(desk, desk_file.lines, agents)
    if problems or desk is None:
        raise RosterInvalid(problems)
    return Roster(desk=desk, agents=agents, version=version_of(files), folder=folder, desk_lines=desk_file.lines)


def version_of(files: Mapping[str, bytes]) -> str:
    """16 hex digits over names and contents. Line ends do not count: git may change them between machines."""
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name].replace(b"\r\n", b"\n")
        digest.update(f"{name}\x00{len(content)}\x00".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def suggest(word: str, allowed: Iterable[str]) -> str:
    """ "; did you mean `x`?" when one of the allowed words is near, else nothing."""
    near = difflib.get_close_matches(word, list(allowed), n=1, cutoff=SUGGESTION_CUTOFF)
    return f"; did you mean `{near[0]}`?" if near else ""


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in SKIPPED_NAMES]
        for name in names:
            if not name.startswith(".") and name not in SKIPPED_NAMES and not name.endswith(SKIPPED_SUFFIXES):
                yield Path(base, name)


def _agent_ids(files: Mapping[str, bytes]) -> list[str]:
    tops = dict.fromkeys(PurePosixPath(name).parts[0] for name in files if "/" in name)
    return [top for top in tops if not top.startswith("_")]


def _parse_desk(files: Mapping[str, bytes]) -> tuple[DeskSpec | None, Document, list[Problem]]:
    if DESK not in files:
        missing = Problem(DESK, 0, "", "the file is missing; it names the desk and its start agent")
        return None, Document(), [missing]
    document = parse_yaml_file(DESK, files[DESK])
    desk, problems = _validate(DESK, document, DeskSpec)
    return desk, document, problems + _undeclared_languages(DESK, document, _languages(document))


def _languages(desk_file: Document) -> tuple[str, ...]:
    """The languages of desk.yaml, also when something else in it is wrong; () when they cannot be known."""
    if not desk_file.lines:
        return ()
    found = desk_file.data.get("languages", list(DeskSpec.model_fields["languages"].default))
    return tuple(code for code in found if isinstance(code, str)) if isinstance(found, list) else ()


def _parse_agent(
    agent_id: str, files: Mapping[str, bytes], folder: Path, languages: tuple[str, ...], variables: Mapping[str, str]
) -> tuple[AgentSpec | None, list[Problem]]:
    file = f"{agent_id}/{AGENT}"
    problems = [*_check_id(agent_id), *_check_texts(agent_id, files)]
    if file not in files:
        why = f"the file is missing; without {AGENT} a folder is no agent (shared code: name the folder _{agent_id})"
        return None, [*problems, Problem(file, 0, "", why)]
    document = parse_agent_file(file, files[file])
    settings, found = _validate(file, document, AgentSettings)
    problems += found
    if not document.body and (settings or document.lines):
        problems.append(
            Problem(file, document.body_line, "", "the instructions are empty; write them below the second `---`")
        )
    problems += _undeclared_languages(file, document, languages)
    if settings is None or problems:
        return None, problems
    return AgentSpec(
        **{name: getattr(settings, name) for name in AgentSettings.model_fields},
        id=agent_id,
        instructions=fill(document.body, variables),
        folder=folder / agent_id,
        lines=document.lines,
    ), []


def _check_id(agent_id: str) -> list[Problem]:
    why = ""
    if not ID.fullmatch(agent_id):
        why = "the folder is the agent's id: small letters, digits and _, a letter first (the display name is `name:`)"
    elif agent_id in RESERVED_IDS:
        why = f"this id has a meaning of its own; taken are: {', '.join(sorted(RESERVED_IDS))}"
    return [Problem(f"{agent_id}/", 0, "", why)] if why else []


def _check_texts(agent_id: str, files: Mapping[str, bytes]) -> list[Problem]:
    """Knowledge and code must be UTF-8 too: found here, not in the middle of a conversation."""
    mine = (name for name in files if name.startswith(f"{agent_id}/") and name.endswith((".md", ".py", ".yaml")))
    return [problem for name in mine if not name.endswith(f"/{AGENT}") for problem in decode(name, files[name])[1]]


def _check_start(desk: DeskSpec, lines: Mapping[str, int], agents: Mapping[str, AgentSpec]) -> list[Problem]:
    if desk.start in agents:
        return []
    known = f"there are: {', '.join(sorted(agents))}" if agents else "there are no agents yet"
    message = f"there is no agent `{desk.start}`{suggest(desk.start, agents)} ({known})"
    return [Problem(DESK, lines.get("start", 0), "start", message)]


def _undeclared_languages(file: str, document: Document, languages: tuple[str, ...]) -> list[Problem]:
    """A text in a language that the desk does not speak would never be shown: most likely a typing error."""
    problems: list[Problem] = []
    for path in _text_fields(document.data) if languages else ():
        for language in _at(document.data, path):
            if isinstance(language, str) and LANGUAGE.fullmatch(language) and language not in languages:
                line = document.lines.get(f"{path}.{language}", 0)
                message = f"`{language}` is not in the languages of {DESK} ({', '.join(languages)})"
                problems.append(Problem(file, line, f"{path}.{language}", message + suggest(language, languages)))
    return problems


def _text_fields(data: Mapping[str, Any]) -> list[str]:
    top = [key for key in ("name", "announce", "intended_use") if isinstance(data.get(key), dict)]
    queues = data.get("queues") if isinstance(data.get("queues"), dict) else {}
    return top + [
        f"queues.{queue}.{key}"
        for queue, spec in (queues or {}).items()
        for key in ("name", "intended_use", "closed")
        if isinstance(spec, dict) and isinstance(spec.get(key), dict)
    ]


def _at(data: Any, path: str) -> Any:
    for key in path.split("."):
        data = data[key]
    return data


def _validate(file: str, document: Document, model: type[M]) -> tuple[M | None, list[Problem]]:
    """The settings as a model, or a Problem for each thing that is wrong in them."""
    problems = list(document.problems)
    if problems and not document.lines:  # not even YAML: what pydantic would say about nothing helps nobody
        return None, problems
    try:
        settings = model.model_validate(document.data)
    except ValidationError as error:
        refused = {problem.field for problem in problems}
        found = problems_in(file, error, model, document)
        return None, problems + [problem for problem in found if problem.field not in refused]
    return (None if problems else settings), problems


def problems_in(
    file: str, error: ValidationError, model: type[BaseModel], document: Document | None = None
) -> list[Problem]:
    """What pydantic found wrong in settings, in words that a person understands; `document` knows the lines."""
    where = document or Document()
    return [_explain(file, where, model, details) for details in error.errors(include_url=False)]


def _explain(file: str, document: Document, model: type[BaseModel], details: ErrorDetails) -> Problem:
    loc = [str(part) for part in details["loc"] if part != "[key]"]
    path = ".".join(loc)
    line = next((document.lines[p] for p in _prefixes(loc) if p in document.lines), 0)
    if details["type"] == "missing":
        line = document.lines.get(".".join(loc[:-1]), line) or 1
    return Problem(file, line, path, _words(model, loc, details))


def _prefixes(loc: list[str]) -> Iterator[str]:
    for end in range(len(loc), -1, -1):
        yield ".".join(loc[:end])


def _words(model: type[BaseModel], loc: list[str], details: ErrorDetails) -> str:
    """One sentence: what came, and what is allowed."""
    kind, got = details["type"], _shown(details.get("input"))
    context = details.get("ctx", {})
    if kind == "extra_forbidden":
        fields = _fields_at(model, loc[:-1])
        return f"unknown field{suggest(loc[-1], fields)} (allowed here: {', '.join(fields)})"
    if kind == "missing":
        return "this field is missing"
    if kind == "literal_error":
        return (
            f"expected {context['expected']}, got {got}{suggest(str(details['input']), _words_in(context['expected']))}"
        )
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind].format_map(context)}, got {got}"
    if details["msg"].endswith(got) or ", got " in details["msg"]:
        return details["msg"]
    return f"{details['msg']}, got {got}"


_EXPECTED = {
    "string_type": "a text",
    "tuple_type": "a list such as [one, two]",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "mapping_type": "settings, one `key: value` per line",
    "dict_type": "settings, one `key: value` per line",
    "model_type": "settings, one `key: value` per line",
    "model_attributes_type": "settings, one `key: value` per line",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "a text",
}


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _words_in(expected: str) -> list[str]:
    return [word.strip("' ") for word in expected.replace(" or ", ",").split(",")]


def _fields_at(model: type[BaseModel], loc: list[str]) -> list[str]:
    """The field names of the model that `loc` (keys from the top) leads to."""
    current: type[BaseModel] = model
    for part in loc:
        field = current.model_fields.get(part)
        if field is not None:
            current = _model_in(field.annotation) or current
    return list(current.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as QueueSpec, Hours | None or Mapping[str, QueueSpec]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in getattr(annotation, "__args__", ()) if (found := _model_in(arg))), None)
