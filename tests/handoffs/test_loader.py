"""Agent files -> a roster, or every mistake with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoffs.errors import Problem, RosterInvalid
from handoffs.loader import load_roster
from tests.handoffs.folders import BILLING, DESK, TRIAGE, agent_file, write


def problems_of(folder: Path) -> list[Problem]:
    with pytest.raises(RosterInvalid) as caught:
        load_roster(folder)
    return caught.value.problems


def the_problem(folder: Path) -> Problem:
    found = problems_of(folder)
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def billing(folder: Path, settings: str, body: str = "Do your work.") -> Path:
    return write(folder, {"billing/agent.md": agent_file(settings, body)})


def test_a_small_folder_loads_with_all_defaults(tmp_path: Path) -> None:
    """Only intended_use and instructions are needed; variables are filled in, the display name comes from the id."""
    roster = load_roster(write(tmp_path))
    triage = roster.start
    assert list(roster.agents) == ["billing", "triage"]
    assert triage.instructions == "You greet customers of Luma."
    assert (triage.history.mode, triage.history.last) == ("messages", 12)
    assert (triage.limits.model_calls, triage.limits.seconds) == (8, 60)
    assert triage.model == "default"
    assert roster.on_error("triage") == "human:support"
    assert roster.display_name("billing", "zh") == "账务"
    assert triage.folder == tmp_path / "triage"
    assert triage.lines["transfer_to.1"] == 3


def test_literal_braces_in_texts_stay_text(tmp_path: Path) -> None:
    """Templating touches only declared names; JSON in instructions or braces in examples survive."""
    settings = 'intended_use: Payments.\nexamples: ["what is {x}", "{shop_name}?"]'
    agent = load_roster(billing(tmp_path, settings, 'Answer {"ok": true} for {shop_name} and {name}.'))["billing"]
    assert agent.instructions == 'Answer {"ok": true} for Luma and {name}.'
    assert agent.examples == ("what is {x}", "{shop_name}?")


def test_an_unknown_field_gets_a_suggestion(tmp_path: Path) -> None:
    """The message names file, line and field, guesses what was meant, and lists what is allowed."""
    problem = the_problem(billing(tmp_path, "intended_use: x\ntransfer_too: [triage]"))
    assert (problem.file, problem.line, problem.field) == ("billing/agent.md", 3, "transfer_too")
    assert "did you mean `transfer_to`?" in problem.message
    assert "returns_to" in problem.message


def test_an_unknown_field_inside_a_field_lists_what_is_allowed_there(tmp_path: Path) -> None:
    """The allowed names are those of that place, not of the whole file."""
    problem = the_problem(billing(tmp_path, "intended_use: x\nvalues:\n  reads: [a]"))
    assert (problem.line, problem.field) == (4, "values.reads")
    assert "did you mean `read`?" in problem.message
    assert "(allowed here: read, write)" in problem.message


@pytest.mark.parametrize(
    ("settings", "line", "field", "words"),
    [
        ("name: Billing", 2, "intended_use", "missing"),
        ("intended_use: 5", 2, "intended_use", "got 5"),
        ("intended_use: ''", 2, "intended_use", "empty"),
        ("intended_use: x\ntransfer_to: triage", 3, "transfer_to", "expected a list"),
        ("intended_use: x\ntransfer_to: [triage, Bad One]", 3, "transfer_to.1", "'Bad One'"),
        ("intended_use: x\ntransfer_to:\n  - triage\n  - human:Support", 5, "transfer_to.1", "human:support"),
        ("intended_use: x\nask: [human:support]", 3, "ask.0", "expected an id"),
        ("intended_use: x\nhistory: {mode: mesages}", 3, "history.mode", "did you mean `messages`?"),
        ("intended_use: x\nhistory: {last: -1}", 3, "history.last", "at least 0"),
        ("intended_use: x\nlimits: {model_calls: many}", 3, "limits.model_calls", "a whole number, got 'many'"),
        ("intended_use: x\nlimits: {seconds: .nan}", 3, "limits.seconds", "number"),
        ("intended_use: x\nlimits: 5", 3, "limits", "settings"),
        ("intended_use: x\nexamples: [{a: b}]", 3, "examples.0", "expected a text"),
        ("intended_use: x\nname: {zg: 账单}", 3, "name.zg", "not in the languages"),
        ("intended_use: x\nname: {en: 5}", 3, "name", "expected a text for en, got 5"),
        ("intended_use: x\nmodel: ''", 3, "model", "expected a text"),
        ("intended_use: x\ntools: null", 3, "tools", "got nothing"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(
    tmp_path: Path, settings: str, line: int, field: str, words: str
) -> None:
    """What came and what is allowed, in words of the file."""
    problem = the_problem(billing(tmp_path, settings))
    assert (problem.file, problem.line, problem.field) == ("billing/agent.md", line, field)
    assert words in problem.message


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"", 1, "starts with a line `---`"),
        (b"You are billing.", 1, "starts with a line `---`"),
        (b"---\nintended_use: x\n", 1, "no closing line"),
        (b"---\nintended_use: x\n---\n  \n", 4, "instructions are empty"),
        (b"---\nintended_use: x\nexamples:\n\t- a\n---\nhi", 4, "a tab"),
        (b"---\nintended_use: x\nname: Bil\xff\n---\nhi", 3, "not UTF-8 text (byte 0xff)"),
        (b"---\nintended_use: payments: all\n---\nhi", 2, "quotes"),
        (b"---\nintended_use: x\nannounce: {name} here\n---\nhi", 3, "quotes"),
        (b"---\nintended_use: 'x\nname: y\ntools: []\n---\nhi", 2, "never closed"),
        (b"---\n- a\n- b\n---\nhi", 2, "expected settings"),
        (b"---\nintended_use: x\nname: *y\n---\nhi", 3, "quotes"),
        (b"---\nintended_use: &a x\nname: *a\n---\nhi", 2, "aliases are not supported"),
        (b"---\nintended_use: !!python/object/apply:os.system [id]\n---\nhi", 2, "tags such as"),
        (b"---\nintended_use: !x y\n---\nhi", 2, "tags such as"),
        (b"---\nintended_use: x\n<<: {name: y}\n---\nhi", 3, "a key must be a plain word"),
        (b"---\nintended_use: x\n? [a, b]\n: c\n---\nhi", 3, "a key must be a plain word"),
        (b"---\nintended_use: x\nexamples: " + b"[" * 60 + b"]" * 60 + b"\n---\nhi", 3, "nested deeper"),
        (b"---\nintended_use: x\nexamples: " + b"[" * 50_000 + b"\n---\nhi", 2, "nested deeper"),
        (b"---\nintended_use: x\nname: \x00y\n---\nhi", 2, "not valid YAML"),
    ],
)
def test_a_broken_or_hostile_file_is_a_problem_with_a_line(
    tmp_path: Path, content: bytes, line: int, words: str
) -> None:
    """Nothing in a file can crash the loader, run code or make it build huge data."""
    problem = problems_of(write(tmp_path, {"billing/agent.md": content}))[0]
    assert (problem.file, problem.line) == ("billing/agent.md", line)
    assert words in problem.message


def test_expanding_aliases_are_refused_quickly(tmp_path: Path) -> None:
    """The "billion laughs" document is refused without ever being expanded."""
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]" for n in range(12)]
    found = problems_of(billing(tmp_path, "\n".join(rows)))
    assert any("aliases are not supported" in problem.message for problem in found)


def test_every_duplicate_key_is_named_with_both_lines(tmp_path: Path) -> None:
    """YAML libraries stop at the first one, or keep the last silently."""
    settings = "intended_use: x\nname: A\nname: B\nlimits:\n  seconds: 1\n  seconds: 2"
    found = problems_of(billing(tmp_path, settings))
    assert [(problem.line, problem.field) for problem in found] == [(4, "name"), (7, "limits.seconds")]
    assert "first on line 3" in found[0].message


def test_all_problems_of_a_folder_come_at_once(tmp_path: Path) -> None:
    """An operator sees the whole list, over all files, in one go."""
    files: dict[str, str | bytes] = {
        "desk.yaml": DESK + "limts: {}\n",
        "billing/agent.md": agent_file("intended_use: x\nnam: y\nlimits: {seconds: 0}"),
        "triage/agent.md": TRIAGE.replace("transfer_to", "transfer"),
    }
    found = problems_of(write(tmp_path, files))
    assert {(problem.file, problem.field) for problem in found} == {
        ("desk.yaml", "limts"),
        ("billing/agent.md", "nam"),
        ("billing/agent.md", "limits.seconds"),
        ("triage/agent.md", "transfer"),
    }


def test_a_missing_desk_or_folder_is_said(tmp_path: Path) -> None:
    """The two ways to point Frontdesk at the wrong place each have their own sentence."""
    assert "desk.yaml" in the_problem(write(tmp_path / "a", without=("desk.yaml",))).file
    assert "no such folder" in the_problem(tmp_path / "nowhere").message


def test_a_missing_start_agent_is_named_with_those_that_exist(tmp_path: Path) -> None:
    """`start` is checked at loading: without it no conversation could begin."""
    problem = the_problem(write(tmp_path, {"desk.yaml": DESK.replace("start: triage", "start: triag")}))
    assert (problem.file, problem.line, problem.field) == ("desk.yaml", 2, "start")
    assert "did you mean `triage`?" in problem.message
    assert "billing, triage" in problem.message


def test_a_start_agent_with_mistakes_is_not_called_missing(tmp_path: Path) -> None:
    """One mistake gives one message."""
    the_problem(write(tmp_path, {"triage/agent.md": agent_file("name: Triage")}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Billing2/agent.md", "small letters"),
        ("账单/agent.md", "small letters"),
        ("human/agent.md", "a meaning of its own"),
        ("a" * 42 + "/agent.md", "small letters"),
    ],
)
def test_a_folder_that_is_no_id_is_refused(tmp_path: Path, name: str, words: str) -> None:
    """Agent ids are ASCII and short; display names are free."""
    assert words in the_problem(write(tmp_path, {name: BILLING})).message


def test_a_folder_without_agent_file_is_refused(tmp_path: Path) -> None:
    """`Agent.md` or a forgotten file would otherwise silently be no agent."""
    problem = the_problem(write(tmp_path, {"orders/tools.py": "x = 1\n"}))
    assert problem.file == "orders/agent.md"
    assert "_orders" in problem.message


def test_knowledge_that_is_not_utf8_is_found_at_loading(tmp_path: Path) -> None:
    """Not in the middle of a conversation."""
    problem = the_problem(write(tmp_path, {"billing/knowledge/faq.md": b"# A\n\xe9\n"}))
    assert (problem.file, problem.line) == ("billing/knowledge/faq.md", 2)


def test_windows_line_ends_and_a_byte_order_mark_are_fine(tmp_path: Path) -> None:
    """Files saved by Windows editors load, give the same lines, and the same version apart from the mark."""
    plain = load_roster(write(tmp_path / "a"))
    crlf: dict[str, str | bytes] = {
        "desk.yaml": DESK.replace("\n", "\r\n").encode(),
        "billing/agent.md": BILLING.replace("\n", "\r\n").encode(),
    }
    windows = load_roster(write(tmp_path / "b", crlf))
    marked = load_roster(write(tmp_path / "c", {"billing/agent.md": b"\xef\xbb\xbf" + BILLING.encode()}))
    assert windows.version == plain.version
    assert windows["billing"].instructions == plain["billing"].instructions == marked["billing"].instructions
    assert windows["billing"].lines == plain["billing"].lines


def test_the_version_is_the_content_and_nothing_else(tmp_path: Path) -> None:
    """Equal files in another folder have the same version; cases, caches and editor leavings do not change it."""
    one = load_roster(write(tmp_path / "one")).version
    noise: dict[str, str | bytes] = {
        "billing/cases.yaml": "- x",
        "billing/__pycache__/tools.cpython-311.pyc": b"\x00",
        ".git/HEAD": "x",
        "billing/agent.md~": "old",
        "billing/.agent.md.swp": "old",
    }
    assert load_roster(write(tmp_path / "two", noise)).version == one


@pytest.mark.parametrize(
    "name", ["desk.yaml", "triage/agent.md", "billing/tools.py", "billing/knowledge/a.md", "_shared/db.py"]
)
def test_every_file_that_matters_changes_the_version(tmp_path: Path, name: str) -> None:
    """Settings, instructions, tools, knowledge and shared code."""
    base: dict[str, str | bytes] = {
        "billing/tools.py": "a = 1",
        "billing/knowledge/a.md": "# A",
        "_shared/db.py": "b = 1",
    }
    one = load_roster(write(tmp_path / "one", base)).version
    two = write(tmp_path / "two", base)
    (two / name).write_text((two / name).read_text() + "\n# changed\n")
    assert load_roster(two).version != one


def test_loading_imports_no_tool(tmp_path: Path) -> None:
    """Reading is pure: a tools.py with a side effect does not run."""
    write(tmp_path, {"billing/tools.py": f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"})
    load_roster(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    """A log or a video dropped into the folder does not end up in memory."""
    problem = the_problem(write(tmp_path, {"billing/knowledge/big.md": b"x" * 2_000_001}))
    assert problem.file == "billing/knowledge/big.md"
