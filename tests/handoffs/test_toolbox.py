"""Tools by path: their own package per roster, and every failure a Problem."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import agents
import pytest
from agents import FunctionTool, ModelBehaviorError, RunContextWrapper, ToolErrorFormatterArgs
from agents.tool_context import ToolContext

from handoffs.errors import ToolProblem, ValueInvalid
from handoffs.loader import load_roster
from handoffs.roster import Roster
from handoffs.toolbox import Toolbox, explain_tool_error, load_module, load_tools, root_name, unload_tools
from tests.handoffs.folders import agent_file, write

TOOLS = """\
from agents import function_tool
from frontdesk_agents._shared.words import WORD

@function_tool
def say_word() -> str:
    "Say the word."
    return WORD

@function_tool
def say_word_late() -> str:
    "Say the word, imported when it is called."
    import frontdesk_agents._shared.words
    from .tools import say_word as same
    from frontdesk_agents.billing import tools
    assert same is tools.say_word
    return frontdesk_agents._shared.words.WORD
"""


def desk(folder: Path, word: str = "one", tools: str = TOOLS, listed: str = "[say_word, say_word_late]") -> Roster:
    settings = f"intended_use: x\ntransfer_to: [human:support]\ntools: {listed}"
    files: dict[str, str | bytes] = {
        "billing/agent.md": agent_file(settings),
        "billing/tools.py": tools,
        "_shared/words.py": f"WORD = {word!r}\n",
    }
    return load_roster(write(folder, files))


async def call(tool: FunctionTool) -> str:
    context = ToolContext(context=None, tool_name=tool.name, tool_call_id="call_1", tool_arguments="{}")
    return str(await tool.on_invoke_tool(context, "{}"))


async def test_an_agents_tools_are_the_sdks_and_may_share_code(tmp_path: Path) -> None:
    """`from agents import` is the SDK inside tools.py, and `frontdesk_agents._shared` is the folder's own code."""
    toolbox = load_tools(desk(tmp_path))
    assert toolbox.problems == []
    assert set(toolbox) == {"billing", "triage"} and toolbox["triage"] == {}
    assert list(toolbox["billing"]) == ["say_word", "say_word_late"]
    assert await call(toolbox["billing"]["say_word"]) == "one"


async def test_two_rosters_in_one_process_never_mix(tmp_path: Path) -> None:
    """Not at loading, and not by an import that runs when a tool is called much later."""
    first, second = load_tools(desk(tmp_path / "a", "one")), load_tools(desk(tmp_path / "b", "two"))
    for name in ("say_word", "say_word_late"):
        assert await call(first["billing"][name]) == "one"
        assert await call(second["billing"][name]) == "two"


async def test_a_hot_reload_keeps_the_old_rosters_code(tmp_path: Path) -> None:
    """The same folder with new content, of the same size and within the same second: old turns keep the old code."""
    old = load_tools(desk(tmp_path, "one"))
    new = load_tools(desk(tmp_path, "two"))
    assert await call(old["billing"]["say_word"]) == await call(old["billing"]["say_word_late"]) == "one"
    assert await call(new["billing"]["say_word"]) == await call(new["billing"]["say_word_late"]) == "two"


def test_loading_the_same_roster_again_gives_the_same_tools(tmp_path: Path) -> None:
    """Modules of one version are loaded once, whoever asks."""
    roster = desk(tmp_path)
    assert load_tools(roster)["billing"]["say_word"] is load_tools(roster)["billing"]["say_word"]


def test_nothing_is_put_on_the_path_and_agents_stays_the_sdk(tmp_path: Path) -> None:
    """Loading changes neither sys.path nor what `import agents` means, and writes no byte code into the folder."""
    before = list(sys.path)
    roster = desk(tmp_path)
    load_tools(roster)
    assert sys.path == before
    assert sys.modules["agents"] is agents and "site-packages" in str(agents.__file__)
    assert not list(tmp_path.rglob("__pycache__"))


def test_an_unloaded_roster_leaves_no_module_behind(tmp_path: Path) -> None:
    """A desk that reloads for months does not grow."""
    roster = desk(tmp_path)
    load_tools(roster)
    assert any(name.startswith(root_name(roster)) for name in sys.modules)
    unload_tools(roster)
    assert not any(name.startswith(root_name(roster)) for name in sys.modules)


@pytest.mark.parametrize(
    ("tools", "line", "words"),
    [
        ("x = 1\nraise RuntimeError('no database')\n", 2, "RuntimeError: no database"),
        ("def broken(:\n", 1, "SyntaxError"),
        ("\n\nimport no_such_package_here\n", 3, "No module named 'no_such_package_here'"),
        ("from frontdesk_agents._shared.gone import X\n", 1, "No module named 'frontdesk_agents._shared.gone'"),
        ("from frontdesk_agents._shared.words import GONE\n", 1, "GONE"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
        ("from agents import function_tool\n@function_tool\ndef f(x: object()) -> str: ...\n", 3, "loaded"),
        ("text = '\x00'\n", 0, "null bytes"),
    ],
)
def test_a_tools_file_that_fails_is_a_problem_with_its_line(tmp_path: Path, tools: str, line: int, words: str) -> None:
    """Whatever it does, the desk goes on and the operator reads where it went wrong."""
    toolbox = load_tools(desk(tmp_path, tools=tools))
    (problem,) = toolbox.problems
    assert problem.file == "billing/tools.py"
    assert words in problem.message
    assert line in (problem.line, problem.line + 1) or line == 0
    assert toolbox["billing"] == {}


def test_shared_code_that_fails_is_named_itself(tmp_path: Path) -> None:
    """The problem points into the shared file, not at the innocent tools.py."""
    roster = desk(tmp_path)
    (tmp_path / "_shared" / "words.py").write_text("WORD = 1\nboom\n")
    (problem,) = load_tools(roster).problems
    assert (problem.file, problem.line) == ("_shared/words.py", 2)


def test_a_missing_tool_is_a_problem_that_names_the_tools_there_are(tmp_path: Path) -> None:
    """With the line of the entry in agent.md; the other tools still work."""
    toolbox: Toolbox = load_tools(desk(tmp_path, listed="[say_word, say_wurd_late]"))
    (problem,) = toolbox.problems
    assert (problem.file, problem.line, problem.field) == ("billing/agent.md", 4, "tools.1")
    assert "did you mean `say_word_late`?" in problem.message
    assert "tools there: say_word, say_word_late" in problem.message
    assert list(toolbox["billing"]) == ["say_word"]


def test_tools_without_a_tools_file_are_a_problem(tmp_path: Path) -> None:
    """The message says that there is no file, not only that there is no tool."""
    roster = desk(tmp_path)
    (tmp_path / "billing" / "tools.py").unlink()
    assert "there is no billing/tools.py" in load_tools(roster).problems[0].message


def test_a_module_of_a_roster_can_be_had_by_name(tmp_path: Path) -> None:
    """For tests and scripts that use a folder's shared code."""
    assert load_module(desk(tmp_path, "three"), "_shared.words").WORD == "three"
    with pytest.raises(ImportError):
        load_module(desk(tmp_path, "three"), "_shared.gone")


@pytest.mark.parametrize(
    ("error", "words", "silent"),
    [
        (ToolProblem("amount must look like 49.90"), "amount must look like 49.90", ""),
        (ValueInvalid("order", "expected string"), "expected string", ""),
        (ModelBehaviorError("Invalid JSON input"), "arguments do not fit", ""),
        (RuntimeError("/secret/path"), "offer a person", "/secret/path"),
    ],
)
def test_a_model_reads_why_a_tool_failed_and_no_more(error: Exception, words: str, silent: str) -> None:
    """Our own errors are told; the text of any other exception stays inside."""
    args = ToolErrorFormatterArgs(
        kind="tool_exception",
        tool_type="function",
        tool_name="issue_refund",
        call_id="call_1",
        default_message="An error occurred",
        run_context=RunContextWrapper(context=None),
        error=error,
    )
    said = explain_tool_error(args)
    assert said is not None and words in said and "issue_refund" in said
    assert not silent or silent not in said


def test_import_agents_is_the_sdk_when_the_repository_is_on_the_path() -> None:
    """The content folder `agents/` has no __init__.py, so it never shadows the SDK."""
    root = Path(__file__).parents[2]
    code = "import agents, json; print(json.dumps(agents.__file__))"
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert "site-packages" in json.loads(said.stdout)
    assert not list((root / "agents").rglob("__init__.py"))
