"""The command line against a real server: what it prints, what it refuses, and with which exit code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli import cli, run
from app.commands.output import EXIT_CODE_HELP, ExitCode
from app.commands.screen import Screen
from app.settings import Settings, variable_of
from tests.support import SCALE, wait_until

START_S = 30.0
QUESTION = "I was charged twice for my order A-10023"


def clean_environment() -> dict[str, str]:
    """This process' environment without any of Frontdesk's settings."""
    names = {variable_of(name) for name in Settings.model_fields}
    return {key: value for key, value in os.environ.items() if key not in names}


@dataclass
class Server:
    """A running `frontdesk serve`, its address, its folder, and what it said when it was ready."""

    process: subprocess.Popen[str]
    url: str
    folder: Path
    banner: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`frontdesk serve` on a free port, in a folder of its own, as a user starts it."""
    folder = tmp_path_factory.mktemp("desk")
    log = folder / "serve.log"
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0"]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=file, stderr=file, text=True)
    try:
        yield Server(process, _wait_for_url(process, log), folder, log.read_text())
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=START_S)
    assert code == 0, log.read_text()
    assert "Traceback" not in log.read_text()


def _wait_for_url(process: subprocess.Popen[str], log: Path) -> str:
    """The address in the banner, once it is complete."""

    def address() -> str | None:
        assert process.poll() is None, f"the server did not start:\n{log.read_text()}"
        found = re.search(r"Chat\s+(http://\S+)/", log.read_text())
        return found[1] if found and "Ctrl-C" in log.read_text() else None

    return asyncio.run(wait_until("the banner of frontdesk serve", address, timeout_s=START_S)) or ""


def frontdesk(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """One command as a user runs it."""
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env=clean_environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60 * SCALE,
        check=False,
    )


@pytest.fixture
def conversation(server: Server) -> dict[str, Any]:
    """A conversation that triage handed to billing."""
    done = frontdesk("chat", "--url", server.url, "--once", QUESTION, cwd=server.folder)
    assert done.returncode == 0, done.stderr
    listed = json.loads(frontdesk("conversations", "--url", server.url, "--json", cwd=server.folder).stdout)
    newest: dict[str, Any] = listed["conversations"][0]
    return newest


def test_serve_says_in_plain_words_what_runs_where(server: Server) -> None:
    """Address, desk, key, agents, model and store are all named when the server is ready."""
    for word in (f"{server.url}/desk", "frontdesk key", "triage first", "offline model", "embedded Valkey", "version"):
        assert word in server.banner


def test_serve_never_prints_the_key(server: Server) -> None:
    """Logs are kept and shared; the key is only in its file."""
    assert (server.folder / ".frontdesk" / "desk.key").read_text().strip() not in server.banner


def test_the_server_answers_health_checks(server: Server) -> None:
    """/readyz is good as soon as the banner is there."""
    with urllib.request.urlopen(f"{server.url}/readyz", timeout=5) as response:  # noqa: S310  # our own loopback server
        assert json.load(response)["ready"] is True


def test_once_prints_the_answer_alone_on_stdout(server: Server) -> None:
    """A script gets the answer; the change of owner is for people, on stderr."""
    done = frontdesk("chat", "--url", server.url, "--once", QUESTION, cwd=server.folder)
    assert done.returncode == 0
    assert done.stdout.startswith("Billing: ") and "A-10023" in done.stdout
    assert "ai: Billing" in done.stderr and "Billing]" not in done.stdout


def test_a_piped_conversation_answers_line_by_line_and_stays_with_its_owner(server: Server) -> None:
    """Each line is one message; the second goes to the specialist without a second handoff."""
    done = frontdesk(
        "chat", "--url", server.url, cwd=server.folder, stdin=f"{QUESTION}\nhow long does a refund take?\n"
    )
    assert done.returncode == 0
    assert done.stderr.count("[ai: Billing]") == 1 and done.stdout.count("Billing: ") == 2


def test_a_message_that_is_too_long_is_refused_in_words(server: Server) -> None:
    """The server's reason reaches the terminal, with an exit code of its own."""
    done = frontdesk("chat", "--url", server.url, "--once", "x" * 9000, cwd=server.folder)
    assert done.returncode == ExitCode.REFUSED and "characters" in done.stderr and not done.stdout


def test_conversations_lists_owner_and_last_message(server: Server, conversation: dict[str, Any]) -> None:
    """The list shows who owns what, for people and as JSON."""
    assert conversation["owner"] == {"kind": "ai", "id": "billing", "name": "Billing"}
    printed = frontdesk("conversations", "--url", server.url, cwd=server.folder).stdout
    assert conversation["id"] in printed and "Billing (ai)" in printed


def test_show_tells_messages_and_owner_changes_in_order(server: Server, conversation: dict[str, Any]) -> None:
    """One conversation reads from top to bottom as it happened."""
    printed = frontdesk("show", conversation["id"], "--url", server.url, cwd=server.folder).stdout
    order = [printed.index(text) for text in (QUESTION, "ai:triage → ai:billing", "Billing: ")]
    assert order == sorted(order)
    whole = json.loads(frontdesk("show", conversation["id"], "--url", server.url, "--json", cwd=server.folder).stdout)
    assert whole["id"] == conversation["id"] and whole["transcript"][0]["text"] == QUESTION


def test_timeline_tells_each_owner_and_why(server: Server, conversation: dict[str, Any]) -> None:
    """handoffs.md 2.5: one paragraph per owner for people, and the same as JSON for programs."""
    printed = frontdesk("timeline", conversation["id"], "--url", server.url, cwd=server.folder).stdout
    order = [printed.index(text) for text in ("the conversation began here", "Billing (ai)", "decided by model")]
    assert order == sorted(order) and "1 answered" in printed
    done = frontdesk("timeline", conversation["id"], "--url", server.url, "--json", cwd=server.folder)
    assert [tenure["owner"]["id"] for tenure in json.loads(done.stdout)["tenures"]] == ["triage", "billing"]


def test_runs_are_listed_and_shown_call_by_call(server: Server, conversation: dict[str, Any]) -> None:
    """handoffs.md 2.5: who had it, what was called and what was decided, for people and for programs."""
    at = ("--url", server.url)
    listed = frontdesk("runs", conversation["id"], *at, cwd=server.folder).stdout
    assert "ai:triage → ai:billing  answered" in listed
    as_json = frontdesk("runs", conversation["id"], *at, "--json", cwd=server.folder).stdout
    (run,) = json.loads(as_json)["runs"]
    shown = frontdesk("runs", "show", run["id"], *at, cwd=server.folder).stdout
    order = [shown.index(text) for text in ("ai:triage", "tool: transfer_to_agent(", "transfer: to billing", "said: ")]
    assert order == sorted(order)
    one = json.loads(frontdesk("runs", "show", run["id"], *at, "--json", cwd=server.folder).stdout)
    assert [step["owner"] for step in one["steps"]] == ["ai:triage", "ai:billing"]
    page = json.loads(frontdesk("runs", "--limit", "1", *at, "--json", cwd=server.folder).stdout)
    assert page["runs"][0]["id"] == run["id"]


def test_a_replay_says_whether_todays_agent_files_decide_the_same(
    server: Server, conversation: dict[str, Any], tmp_path: Path
) -> None:
    """handoffs.md 2.1: the same files decide the same; without the route the difference is shown, exit code 1."""
    at = ("--url", server.url)
    same = frontdesk("runs", "replay", conversation["id"], *at, cwd=server.folder)
    assert (same.returncode, same.stderr) == (ExitCode.OK, "") and "same decisions" in same.stdout

    changed = tmp_path / "agents"
    assert frontdesk("init", str(changed), cwd=tmp_path).returncode == 0
    triage = changed / "triage" / "agent.md"
    kept = re.sub(r"(transfer_to: \[[^]]*?)billing, ?", r"\1", triage.read_text())
    assert kept != triage.read_text()
    triage.write_text(kept)
    other = frontdesk("runs", "replay", conversation["id"], "--agents", str(changed), *at, cwd=server.folder)
    assert other.returncode == ExitCode.PROBLEMS
    order = [
        other.stdout.index(text) for text in ("other decisions", "step 1, transfer:", "- billing", "step 2, step:")
    ]
    assert order == sorted(order)
    as_json = frontdesk(
        "runs", "replay", conversation["id"], "--agents", str(changed), "--json", *at, cwd=server.folder
    )
    found = json.loads(as_json.stdout)
    assert (found["same"], found["differences"][0]["step"]) == (False, 1)
    assert found["roster"]["then"] != found["roster"]["now"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show",), ExitCode.USAGE, "needs the id of a run"),
        (("c_x", "c_y"), ExitCode.USAGE, "takes the id of a conversation"),
        (("show", "c_x~1"), ExitCode.NOT_FOUND, "no record of a run"),
        (("c_nobody",), ExitCode.NOT_FOUND, "c_nobody"),
    ],
)
def test_runs_that_are_not_there_are_said_to_be(
    server: Server, arguments: tuple[str, ...], code: ExitCode, says: str
) -> None:
    """A mistake is told from a run that nobody recorded."""
    done = frontdesk("runs", *arguments, "--url", server.url, cwd=server.folder)
    assert done.returncode == code and says in done.stderr


def test_an_unknown_conversation_is_not_found(server: Server) -> None:
    """A wrong id has its own exit code and sentence."""
    done = frontdesk("show", "c_nosuch", "--url", server.url, cwd=server.folder)
    assert done.returncode == ExitCode.NOT_FOUND and "c_nosuch" in done.stderr


def test_a_wrong_key_is_refused(server: Server) -> None:
    """The REST commands say that the key is wrong."""
    done = frontdesk("conversations", "--url", server.url, "--key", "wrong", cwd=server.folder)
    assert done.returncode == ExitCode.REFUSED and "key" in done.stderr


def test_key_prints_what_the_running_server_accepts(server: Server) -> None:
    """`frontdesk key` in the server's folder gives the key that opens its API."""
    key = frontdesk("key", cwd=server.folder).stdout.strip()
    done = frontdesk("conversations", "--url", server.url, "--key", key, "--json", cwd=server.folder.parent)
    assert done.returncode == 0 and "conversations" in json.loads(done.stdout)


# --- wrong use: in this process, for speed --------------------------------------------------------------------------


@dataclass
class Command:
    """Runs command lines in this process, in an empty folder, without settings."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        printed = self.capsys.readouterr()
        assert "Traceback" not in printed.err + printed.out
        return code, printed.out, " ".join(printed.err.split())


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)
    monkeypatch.chdir(tmp_path)
    return Command(capsys)


def test_a_taken_port_is_one_sentence(command: Command) -> None:
    """The second start on a port fails at once, before it touches the store."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = command("serve", "--port", str(port))
    assert code == ExitCode.ADDRESS and f"Port {port} of 127.0.0.1 is taken" in err and "--port" in err and not out
    assert not Path(".frontdesk").exists()


def test_bad_settings_stop_serve(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """All wrong variables are named, and nothing starts."""
    monkeypatch.setenv("FRONTDESK_PORT", "eighty")
    monkeypatch.setenv("FRONTDESK_MODLE", "x")
    code, _, err = command("serve")
    assert code == ExitCode.SETTINGS and "FRONTDESK_PORT" in err and "did you mean FRONTDESK_MODEL?" in err


def test_bad_agent_files_stop_serve(command: Command) -> None:
    """File, line and field of the mistake are named."""
    write_desk(Path("mine"), "intended_use: x\ntransfer_too: [a]\n")
    code, _, err = command("serve", "--port", "0", "--agents", "mine")
    assert code == ExitCode.AGENTS and "triage/agent.md:3: transfer_too" in err and "`transfer_to`" in err


def test_a_dead_redis_stops_serve_without_showing_its_password(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configured store that does not answer is an error, never a reason to take another one."""
    monkeypatch.setenv("REDIS_URL", "redis://:hunter2@127.0.0.1:1/0")
    code, _, err = command("serve", "--port", "0")
    assert code == ExitCode.STORE and "does not answer" in err and "hunter2" not in err


def test_a_model_without_a_key_stops_serve(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """FRONTDESK_MODEL=openai without a key is told at the start and not to the first customer."""
    monkeypatch.setenv("FRONTDESK_MODEL", "openai")
    code, _, err = command("serve", "--port", "0")
    assert code == ExitCode.MODEL and "OPENAI_API_KEY" in err


@pytest.mark.parametrize(
    "arguments", [("chat", "--once", "hi"), ("conversations", "--key", "k"), ("show", "c_x", "--key", "k")]
)
def test_no_server_is_one_sentence(command: Command, arguments: tuple[str, ...]) -> None:
    """Commands that need the server say which address did not answer and how to start one."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        code, _, err = command(*arguments, "--url", url)
    assert code == ExitCode.NO_SERVER and url in err and "frontdesk serve" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nosuch",),
        ("serve", "--port", "abc"),
        ("show",),
        ("chat", "--url", "nonsense"),
        ("chat", "--once", " "),
        ("chat", "--lang", "ää", "--once", "hi"),
        ("show", "", "--key", "k"),
        ("check", "x"),
    ],
)
def test_wrong_use_is_exit_code_2(command: Command, arguments: tuple[str, ...]) -> None:
    """What the command line itself gets wrong is told on stderr."""
    code, _, err = command(*arguments)
    assert code == ExitCode.USAGE and err


def test_conversations_without_a_key_says_where_one_is_looked_for(command: Command) -> None:
    """No new key is made for a server that would not know it."""
    code, _, err = command("conversations")
    assert code == ExitCode.REFUSED and "--key" in err and "desk.key" in err
    assert not Path(".frontdesk").exists()


def test_check_passes_the_demo_desk(command: Command) -> None:
    """The agents that everybody starts with have no error and no warning."""
    code, out, _ = command("check", "--json")
    result = json.loads(out)
    assert code == 0 and result["ok"] and result["problems"] == [] and "triage" in result["agents"]


def test_check_reports_every_problem_and_fails(command: Command) -> None:
    """Each problem has file, line, field and message, on paper and as JSON; the exit code is 1."""
    write_desk(Path("mine"), "intended_use: x\ntransfer_to: [nobody_here]\n")
    code, out, _ = command("check", "mine", "--json")
    (error, *_) = json.loads(out)["problems"]
    assert code == ExitCode.PROBLEMS and (error["file"], error["line"]) == ("triage/agent.md", 3)
    code, out, _ = command("check", "mine")
    assert code == ExitCode.PROBLEMS and "triage/agent.md:3" in out and "would be refused" in out


def test_init_copies_a_desk_that_passes_check_and_never_overwrites(command: Command) -> None:
    """The first copy works, the second is refused, --force writes."""
    assert command("init", "mine")[0] == 0
    assert command("check", "mine")[0] == 0
    code, _, err = command("init", "mine")
    assert code == ExitCode.USAGE and "--force" in err
    assert command("init", "mine", "--force")[0] == 0
    assert not list(Path("mine").rglob("__pycache__"))


def test_eval_says_what_it_cannot_read(command: Command) -> None:
    """A folder that holds no data set is told, with what is expected there."""
    Path("empty").mkdir()
    code, _, err = command("eval", "empty")
    assert code == ExitCode.USAGE and "empty" in err


def test_version_names_what_a_bug_report_needs(command: Command) -> None:
    """Frontdesk, Python and the packages below it."""
    _, out, _ = command("version", "--json")
    assert {"frontdesk", "python", "openai-agents", "redis"} <= set(json.loads(out))


def test_help_lists_every_command_and_the_exit_codes(command: Command) -> None:
    """The exit codes that scripts rely on are documented where people look."""
    code, out, _ = command("--help")
    assert code == 0
    for registered in cli.registered_commands:
        assert registered.callback is not None and (registered.name or registered.callback.__name__) in out
    for number in ExitCode:
        assert f"{number.value} " in EXIT_CODE_HELP


def test_a_bug_is_called_a_bug(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw is still one message with exit code 70."""
    monkeypatch.setattr("app.cli.print_json", lambda data: 1 / 0)
    code, _, err = command("version", "--json")
    assert code == ExitCode.BUG and "bug in Frontdesk" in err and "ZeroDivisionError" in err


def write_desk(folder: Path, front_matter: str) -> None:
    """A desk of one agent with this front matter."""
    (folder / "triage").mkdir(parents=True)
    (folder / "desk.yaml").write_text("name: Shop\nstart: triage\n")
    (folder / "triage" / "agent.md").write_text(f"---\n{front_matter}---\nHelp.\n")


# --- what the terminal shows of a stream ----------------------------------------------------------------------------

BILLING = {"kind": "ai", "id": "billing", "name": "Billing"}


@pytest.fixture
def shown() -> tuple[Screen, list[str], list[str]]:
    """A screen, what it wrote and what it noted."""
    written: list[str] = []
    notes: list[str] = []
    return Screen(write=written.append, note=notes.append), written, notes


Shown = tuple[Screen, list[str], list[str]]


def delta(off: int, text: str) -> dict[str, Any]:
    return {"t": "eph", "e": "msg.delta", "mid": "m1", "off": off, "d": text, "by": BILLING}


def message(text: str, seq: int = 3) -> dict[str, Any]:
    return {"t": "ev", "seq": seq, "e": "msg.created", "id": "m1", "by": BILLING, "d": {"text": text}}


def test_a_streamed_answer_is_written_once(shown: Shown) -> None:
    """Pieces appear as they come and the final message adds only what was missing."""
    screen, written, _ = shown
    for frame in (delta(0, "Hel"), delta(3, "lo "), delta(3, "lo th"), message("Hello there.")):
        screen.show(frame)
    assert "".join(written) == "Billing: Hello there.\n" and screen.answered


def test_a_missing_piece_is_made_good_by_the_final_message(shown: Shown) -> None:
    """After a gap nothing wrong is shown; the whole message comes at the end."""
    screen, written, _ = shown
    for frame in (delta(0, "Hel"), delta(9, "re"), message("Hello there.")):
        screen.show(frame)
    assert "".join(written) == "Billing: Hello there.\n"


def test_a_draft_that_is_taken_back_is_marked(shown: Shown) -> None:
    """What was streamed and never became a message does not look like one."""
    screen, written, _ = shown
    screen.show(delta(0, "I think"))
    screen.show({"t": "ev", "seq": 3, "e": "msg.retracted", "d": {}})
    assert "".join(written) == "Billing: I think [taken back]\n" and not screen.answered


def test_after_a_handoff_the_new_owner_is_waited_for(shown: Shown) -> None:
    """A change of owner to an agent is not the answer yet; one to people is all that comes now."""
    screen, _, notes = shown
    change = {
        "t": "ev",
        "seq": 2,
        "e": "owner.changed",
        "d": {"from": {"kind": "ai"}, "to": BILLING, "text": "Now Billing."},
    }
    screen.show(change)
    assert not screen.answered and screen.owner == "Billing" and notes == ["Now Billing. [ai: Billing]"]
    screen.show({**change, "d": {"to": {"kind": "queue", "name": "Support"}}})
    assert screen.answered and not screen.working


def test_text_from_outside_cannot_steer_the_terminal(shown: Shown) -> None:
    """Escape sequences in a message are dropped: no colours, no cursor, no reversed text."""
    screen, written, _ = shown
    screen.show(message("\x1b[2J\x1b]0;owned\x07ok \u202eevil\r\n\x9b31m"))
    assert not set("".join(written)) & set("\x1b\x07\r\x9b\u202e") and "ok" in "".join(written)
