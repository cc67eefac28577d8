"""The command line: `frontdesk serve | worker | chat | check | init | conversations | show | runs | eval | key ...`.

Each command lives in app/commands/ and is imported when it runs, so that `frontdesk --help` is quick. Whatever goes
wrong ends in `main`: one message on stderr and an exit code of `ExitCode`, never a traceback (unless --debug).
"""

from __future__ import annotations

import asyncio
import gc
import getpass
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands.output import EXIT_CODE_HELP, CommandFailed, ExitCode, explain, fail, out, print_json
from app.settings import agents_folder, load_settings
from sessions.errors import FrontdeskError

cli = typer.Typer(
    name="frontdesk",
    help="Frontdesk: a conversational handoff router for customer service.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AgentsOption = Annotated[
    Path | None, typer.Option("--agents", help="Folder with the agent files (FRONTDESK_AGENTS).", show_default=False)
]
DataOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder for data (FRONTDESK_DATA_DIR).", show_default=False)
]
UrlOption = Annotated[str | None, typer.Option("--url", help="Address of the running server.", show_default=False)]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="The desk's key (FRONTDESK_API_KEY, or the key file).", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@cli.callback()
def common(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback when Frontdesk itself fails.")] = False,
) -> None:
    """Options before the command."""


@cli.command(epilog=EXIT_CODE_HELP)
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (FRONTDESK_HOST).", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (FRONTDESK_PORT).", show_default=False)] = None,
    agents: AgentsOption = None,
    data_dir: DataOption = None,
    model: Annotated[
        str | None, typer.Option(help="auto, offline, openai or a name (FRONTDESK_MODEL).", show_default=False)
    ] = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Answer messages in this process, or leave it to workers.")
    ] = True,
) -> None:
    """Run the desk: chat page, desk page, REST and WebSocket."""
    settings = load_settings(host=host, port=port, agents=agents, data_dir=data_dir, model=model)
    with _quick_imports():
        from app.commands.serve import serve as run_server

    run_server(settings, works=worker)


@cli.command(epilog=EXIT_CODE_HELP)
def worker(agents: AgentsOption = None, data_dir: DataOption = None) -> None:
    """Answer messages that `serve --no-worker` processes (or others that died) left. Ctrl-C ends."""
    settings = load_settings(agents=agents, data_dir=data_dir)
    with _quick_imports():
        from app.commands.worker import work

    work(settings)


@contextmanager
def _quick_imports() -> Iterator[None]:
    """Import without garbage collection: 300,000 objects are made that all stay, and looking at them costs 0.3 s."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@cli.command(epilog=EXIT_CODE_HELP)
def chat(
    once: Annotated[
        str | None, typer.Option(help="Send this one message, print the answer, and end.", show_default=False)
    ] = None,
    url: UrlOption = None,
    lang: Annotated[str | None, typer.Option(help="Your language, such as en or zh.", show_default=False)] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Longest wait for an answer, in seconds.")] = 120.0,
) -> None:
    """Talk to the running server as a customer. Ctrl-D ends."""
    from app.commands.chat import chat as talk
    from app.commands.client import server_url

    settings = load_settings()
    if once is not None and not once.strip():
        raise CommandFailed("--once needs a message that is not empty", ExitCode.USAGE)
    address = server_url(settings, url)
    asyncio.run(talk(address, site_key=settings.site_key, language=language_code(lang), once=once, timeout_s=timeout))


def language_code(wish: str | None) -> str | None:
    """`zh-CN` for `zh-CN` or `zh_CN.UTF-8` (as LANG has it); an error for what is no language code."""
    code = (wish or "").partition(".")[0].replace("_", "-")
    if code and not re.fullmatch(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*", code):
        raise CommandFailed(f"--lang takes a language code such as en or zh-CN, not {wish!r}", ExitCode.USAGE)
    return code or None


@cli.command(epilog=EXIT_CODE_HELP)
def check(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder with the agent files (FRONTDESK_AGENTS).", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the agent files: mistakes, and routes that lead nowhere. Exit code 1 when there are errors."""
    from app.commands.check import problem_table, problems_json
    from handoffs.lint import check as check_files

    chosen = folder if folder is not None else agents_folder(load_settings())
    if not chosen.is_dir():
        raise CommandFailed(f"{chosen} is not a folder; name the one that holds desk.yaml", ExitCode.USAGE)
    checked = check_files(chosen)
    if as_json:
        print_json(problems_json(chosen, checked))
    else:
        out.print(problem_table(chosen, checked))
    if checked.errors:
        raise typer.Exit(ExitCode.PROBLEMS)


@cli.command(epilog=EXIT_CODE_HELP)
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; made when it is not there.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
) -> None:
    """Copy the demo desk to FOLDER, as a start for your own agents."""
    from app.commands.init import init as copy

    files = copy(folder, force=force)
    out.print(f"{len(files)} files written to {folder}. Next:", soft_wrap=True)
    out.print(f"  frontdesk check {folder}\n  frontdesk serve --agents {folder}", soft_wrap=True)


@cli.command(epilog=EXIT_CODE_HELP)
def conversations(
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, newest first.")] = 50,
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the conversations of the running server and who owns them."""
    from app.commands.conversations import conversation_list

    found = _ask(url, key, lambda api: api.conversations(limit))
    if as_json:
        print_json(found)
    else:
        out.print(conversation_list(found["conversations"]))


@cli.command(epilog=EXIT_CODE_HELP)
def show(
    conversation_id: Annotated[str, typer.Argument(metavar="ID", help="As `frontdesk conversations` lists it.")],
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one conversation: owner, values, messages and every change of owner."""
    if not conversation_id.strip():
        raise CommandFailed("ID is empty; `frontdesk conversations` lists the ids there are", ExitCode.USAGE)
    from app.commands.conversations import conversation_page

    view = _ask(url, key, lambda api: api.conversation(conversation_id))
    if as_json:
        print_json(view)
    else:
        out.print(conversation_page(view), soft_wrap=True)


@cli.command(epilog=EXIT_CODE_HELP)
def timeline(
    conversation_id: Annotated[str, typer.Argument(metavar="ID", help="As `frontdesk conversations` lists it.")],
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show who owned a conversation, since when, why, what they were shown and what it took."""
    if not conversation_id.strip():
        raise CommandFailed("ID is empty; `frontdesk conversations` lists the ids there are", ExitCode.USAGE)
    from app.commands.timeline import timeline_page

    view = _ask(url, key, lambda api: api.timeline(conversation_id))
    if as_json:
        print_json(view)
    else:
        out.print(timeline_page(view), soft_wrap=True)


@cli.command(epilog=EXIT_CODE_HELP)
def runs(
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help="The id of a conversation, to list its runs only; or show, or replay."),
    ] = None,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="With show or replay: a run; of a conversation the newest.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many, newest first.")] = 20,
    after: Annotated[
        str | None, typer.Option(help="Go on behind this run, as the end of a list says.", show_default=False)
    ] = None,
    url: UrlOption = None,
    key: KeyOption = None,
    agents: AgentsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what agents did, run by run; `show RUN` has one of them call by call.

    `replay RUN` plays it again, with what models and tools gave then, on the present agent files, and says whether the
    decisions are the same. Nothing outside is touched. Exit code 1 when they are not.
    """
    from app.commands.runs import asked_for, run_list, run_page

    command, id_ = asked_for(what, run_id)
    if command == "list":
        found = _ask(url, key, lambda api: api.runs(id_, after, limit))
        print_json(found) if as_json else out.print(run_list(found), soft_wrap=True)
        return
    run = _ask(url, key, lambda api: api.run_of(id_))
    if command == "replay":
        return _replay(run, agents_folder(load_settings(agents=agents)), as_json)
    print_json(run) if as_json else out.print(run_page(run), soft_wrap=True)


@cli.command(epilog=EXIT_CODE_HELP)
def approvals(
    conversation_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One conversation, decided ones too.", show_default=False)
    ] = None,
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the calls that wait for somebody's word, the nearest deadline first."""
    from app.commands.approvals import approval_list

    found = _ask(url, key, lambda api: api.approvals(conversation_id))
    if as_json:
        print_json(found)
    else:
        out.print(approval_list(found["approvals"]), soft_wrap=True)


AskedIn = Annotated[str, typer.Argument(metavar="ID", help="The conversation, as `frontdesk approvals` lists it.")]
AskedAs = Annotated[str, typer.Argument(metavar="APPROVAL", help="The approval's id, as listed there.")]
PersonOption = Annotated[
    str | None, typer.Option("--as", help="Who you are: a login. Without it, the one of this computer.")
]
CustomerOption = Annotated[bool, typer.Option("--customer", help="Pass on the customer's own word.")]
NoteOption = Annotated[str, typer.Option("--note", help="A note that the agent reads.")]


@cli.command(epilog=EXIT_CODE_HELP)
def approve(
    conversation_id: AskedIn,
    approval_id: AskedAs,
    person: PersonOption = None,
    customer: CustomerOption = False,
    note: NoteOption = "",
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Agree to one call: it is made once, and the agent goes on."""
    _decide("granted", conversation_id, approval_id, person, customer, note, url, key, as_json)


@cli.command(epilog=EXIT_CODE_HELP)
def deny(
    conversation_id: AskedIn,
    approval_id: AskedAs,
    person: PersonOption = None,
    customer: CustomerOption = False,
    note: NoteOption = "",
    url: UrlOption = None,
    key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Refuse one call: it is not made, and the agent goes on knowing that."""
    _decide("refused", conversation_id, approval_id, person, customer, note, url, key, as_json)


def _decide(
    verdict: str,
    conversation_id: str,
    approval_id: str,
    person: str | None,
    customer: bool,
    note: str,
    url: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    from app.commands.approvals import decided_line

    login = _login() if person is None else person  # an empty name is no name: the server refuses it
    by: Any = "customer" if customer else {"id": login, "name": login}
    answer = {"verdict": verdict, "by": by, "note": note}
    found = _ask(url, key, lambda api: api.decide(conversation_id, approval_id, answer))
    if as_json:
        print_json(found)
    else:
        out.print(decided_line(found), soft_wrap=True, markup=False)


def _replay(run: dict[str, Any], agents: Path, as_json: bool) -> None:
    with _quick_imports():
        from app.commands.replay import play, replay_json, replay_page

    played, version = play(run, agents)
    print_json(replay_json(run, played, version)) if as_json else out.print(
        replay_page(run, played, version), soft_wrap=True
    )
    if not played.same:
        raise typer.Exit(ExitCode.PROBLEMS)


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without users
        raise CommandFailed("nobody knows who you are here: say it with --as", ExitCode.USAGE) from None


def _ask(url: str | None, key: str | None, question: Any) -> dict[str, Any]:
    """One question to the REST API of the running server."""
    from app.commands.client import Api, existing_key, server_url

    settings = load_settings()
    api = Api(server_url(settings, url), existing_key(settings, key))
    try:
        answer: dict[str, Any] = question(api)
    finally:
        api.close()
    return answer


@cli.command("eval", epilog=EXIT_CODE_HELP)
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder with a data set (CLINC150, SGD ...).", show_default=False)],
    limit: Annotated[
        int | None, typer.Option(min=1, help="Play only so many conversations, drawn by --seed.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Which examples and conversations are drawn.")] = 0,
    examples: Annotated[int, typer.Option(min=0, max=1000, help="Example phrasings that each agent gets.")] = 15,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Write a picture of the result to this file.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure routing on a public data set, through the real router with the offline model."""
    from app.commands.evaluate import report_page, run_evaluation

    report = run_evaluation(folder, limit=limit, seed=seed, examples=examples, picture=picture)
    if as_json:
        print_json(report.as_dict())
    else:
        out.print(report_page(report))


@cli.command()
def key(data_dir: DataOption = None) -> None:
    """Print the key that opens the desk page and the REST API."""
    from app.keys import desk_key

    settings = load_settings(data_dir=data_dir)
    try:
        typer.echo(desk_key(settings))
    except OSError as error:
        raise CommandFailed(f"Cannot keep a key in {settings.data_dir}: {error.strerror}", ExitCode.SETTINGS) from None


@cli.command()
def version(as_json: JsonOption = False) -> None:
    """Print the versions of Frontdesk and of what it runs on."""
    from app.commands.version import versions

    found = versions()
    if as_json:
        print_json(found)
    else:
        for name, number in found.items():
            typer.echo(f"{name} {number}")


def main() -> None:
    """The `frontdesk` command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; gives the exit code. Every expected error becomes one message on stderr."""
    try:
        typer.main.get_command(cli).main(args=arguments, prog_name="frontdesk")
        return ExitCode.OK
    except SystemExit as leaving:  # how the parser ends, well or badly; it has said why
        return leaving.code if isinstance(leaving.code, int) else ExitCode.OK
    except FrontdeskError as error:
        message, code = explain(error)
        fail(message)
        return code
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        fail(f"This is a bug in Frontdesk: {type(error).__name__}: {error}\n`frontdesk --debug ...` shows where.")
        return ExitCode.BUG


if __name__ == "__main__":
    main()
