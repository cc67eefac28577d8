"""The tools of a roster: agents/<id>/tools.py, loaded by path.

Inside an agents folder the code is called `frontdesk_agents.<id>.tools`, and shared code
`from frontdesk_agents._shop.db import Shop`; nothing is put on sys.path, and `agents` stays the OpenAI Agents SDK.

Two rosters can be alive at once (a hot reload while a turn runs on the old one, tests). So each roster has a root
package of its own, `frontdesk_agents_<key>`, where the key is a hash of folder and version, and the code of that roster
sees its own root under the name `frontdesk_agents`: an import, also one inside a function that runs much later, cannot
reach another roster's code. Byte code is not cached: a cache keyed by seconds and size would serve stale code to a fast
reload.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from agents import FunctionTool, ModelBehaviorError, ToolErrorFormatterArgs

from handoffs.errors import HandoffError, Problem
from handoffs.loader import suggest
from handoffs.roster import AgentSpec, Roster

PACKAGE = "frontdesk_agents"
TOOLS = "tools.py"


class Toolbox(Mapping[str, Mapping[str, FunctionTool]]):
    """Agent id -> name -> tool, for the tools that the agent's file lists. Every agent has an entry.

    `defined` has the names of all tools that each tools.py defines; `problems` what could not be loaded.
    """

    def __init__(
        self,
        listed: Mapping[str, Mapping[str, FunctionTool]],
        defined: Mapping[str, Sequence[str]],
        problems: Sequence[Problem],
    ) -> None:
        self._listed = dict(listed)
        self.defined = dict(defined)
        self.problems = list(problems)

    def __getitem__(self, agent_id: str) -> Mapping[str, FunctionTool]:
        return self._listed[agent_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


def load_tools(roster: Roster) -> Toolbox:
    """Load every tools.py of the roster. Never raises: what goes wrong is in `problems`, with file and line."""
    listed: dict[str, dict[str, FunctionTool]] = {}
    defined: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for agent in roster.agents.values():
        found, trouble = _load_agent(roster, agent)
        defined[agent.id] = sorted(tool.name for tool in found.values())
        by_name = {tool.name: tool for tool in found.values()}
        listed[agent.id] = {name: by_name[name] for name in agent.tools if name in by_name}
        problems += trouble or _missing(roster, agent, by_name)
    return Toolbox(listed, defined, problems)


def load_module(roster: Roster, name: str) -> ModuleType:
    """A module of this roster by its name below the folder, such as `_shop.db` or `billing.tools`; ImportError."""
    root = _root_of(roster)
    return importlib.import_module(f"{root}.{name}")


def unload_tools(roster: Roster) -> None:
    """Forget the modules of a roster that no conversation uses any more."""
    root = root_name(roster)
    for name in [name for name in sys.modules if name == root or name.startswith(f"{root}.")]:
        del sys.modules[name]


def root_name(roster: Roster) -> str:
    """The name of the package that holds this roster's code."""
    key = hashlib.sha256(f"{roster.folder.resolve()}\x00{roster.version}".encode()).hexdigest()[:12]
    return f"{PACKAGE}_{key}"


def explain_tool_error(args: ToolErrorFormatterArgs[Any]) -> str | None:
    """What a model reads when a tool fails; for RunConfig(tool_error_formatter=...).

    Our own errors (ToolProblem, ValueInvalid ...) say what they have to say. Of anything else nothing is told: it could
    hold a path, a query or somebody's data. None keeps the SDK's own text for the other kinds.
    """
    if args.kind != "tool_exception":
        return None
    if isinstance(args.error, HandoffError):
        return f"{args.tool_name}: {args.error}"
    if isinstance(args.error, ModelBehaviorError):
        return (
            f"{args.tool_name}: the arguments do not fit; check them against the tool's parameters and call it again."
        )
    return f"{args.tool_name} failed. Do not call it again now: say that you cannot look this up, and offer a person."


def _load_agent(roster: Roster, agent: AgentSpec) -> tuple[dict[str, FunctionTool], list[Problem]]:
    if not (agent.folder / TOOLS).is_file():
        return {}, []
    try:
        module = load_module(roster, f"{agent.id}.tools")
    except (Exception, SystemExit) as error:  # whatever a tools.py does, the desk and `frontdesk check` go on
        return {}, [_trouble(roster, agent, error)]
    return {name: value for name, value in vars(module).items() if isinstance(value, FunctionTool)}, []


def _missing(roster: Roster, agent: AgentSpec, found: Mapping[str, FunctionTool]) -> list[Problem]:
    """A Problem for each tool that the agent lists and tools.py does not define, with those that exist."""
    problems = []
    for place, name in enumerate(agent.tools):
        if name not in found:
            field = f"tools.{place}"
            message = _why_missing(roster, agent, name, sorted(found))
            problems.append(Problem(agent.file, agent.lines.get(field, 0), field, message))
    return problems


def _why_missing(roster: Roster, agent: AgentSpec, name: str, existing: Sequence[str]) -> str:
    file = f"{agent.id}/{TOOLS}"
    if not (agent.folder / TOOLS).is_file():
        return f"there is no tool `{name}`, because there is no {file}"
    if callable(getattr(load_module(roster, f"{agent.id}.tools"), name, None)):
        return f"`{name}` in {file} is a plain function; put @function_tool (from agents import function_tool) above it"
    exist = f"tools there: {', '.join(existing)}" if existing else "it defines no tool"
    return f"{file} has no tool `{name}`{suggest(name, existing)} ({exist})"


def _trouble(roster: Roster, agent: AgentSpec, error: BaseException) -> Problem:
    """Where in the agents folder loading went wrong, and what was said."""
    folder = roster.folder.resolve()
    file, line = f"{agent.id}/{TOOLS}", 0
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(folder):
        file, line = Path(error.filename).relative_to(folder).as_posix(), error.lineno or 0
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if Path(frame.filename).is_relative_to(folder):
                file, line = Path(frame.filename).relative_to(folder).as_posix(), frame.lineno or 0
    said = str(error).replace(root_name(roster), PACKAGE) or "no message"
    return Problem(file, line, "", f"the tools cannot be loaded: {type(error).__name__}: {said}")


def _root_of(roster: Roster) -> str:
    """Make the roster's root package, once, and give its name."""
    root = root_name(roster)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # before the finder that would load the same files the usual way
    if root not in sys.modules:
        package = ModuleType(root, f"The code of the agents folder {roster.folder}")
        package.__path__ = [str(roster.folder.resolve())]
        sys.modules.setdefault(root, package)
    return root


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules below a roster's root package, in that roster's folder; every folder is a package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        root, _, rest = fullname.partition(".")
        if not root.startswith(f"{PACKAGE}_") or not rest or root not in sys.modules:
            return None
        place = Path(sys.modules[root].__path__[0], *rest.split("."))
        if place.is_dir():
            spec = importlib.machinery.ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(place)]
            return spec
        file = place.with_name(f"{place.name}.py")
        if not file.is_file():
            return None
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))


class _Loader(importlib.machinery.SourceFileLoader):
    """Runs a source file whose absolute imports of `frontdesk_agents` mean its own roster; keeps no byte code."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)

    def exec_module(self, module: ModuleType) -> None:
        root = module.__name__.partition(".")[0]
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importer(root)}
        super().exec_module(module)


def _importer(root: str) -> Any:
    def import_(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and (name == PACKAGE or name.startswith(f"{PACKAGE}.")):
            name = root + name.removeprefix(PACKAGE)
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return import_
