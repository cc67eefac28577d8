"""What every command shares: exit codes, the one way to fail, and safe printing."""

from __future__ import annotations

import json
import re
import sys
from enum import IntEnum
from typing import Any

from rich.console import Console
from rich.text import Text

from app.errors import ModelMisconfigured
from app.settings import SettingsInvalid
from handoffs.errors import NotReplayable, RosterInvalid
from sessions.errors import FrontdeskError, StoreError

PIPE_WIDTH = 200  # characters of a line when nobody looks: programs and files want whole lines

out = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
err = Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PIPE_WIDTH)

# Everything below 32 but newline and tab, DEL and the C1 range: a message from outside must not steer the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class ExitCode(IntEnum):
    """How a command ended, for scripts. 2 is what the command line parser itself uses."""

    OK = 0
    PROBLEMS = 1
    USAGE = 2
    SETTINGS = 3
    AGENTS = 4
    STORE = 5
    ADDRESS = 6
    NO_SERVER = 7
    REFUSED = 8
    NOT_FOUND = 9
    MODEL = 10
    NO_ANSWER = 11
    BUG = 70


EXIT_CODE_HELP = (
    "Exit codes: 0 done, 1 the check found errors or a replay decided otherwise, 2 wrong use of the command line, "
    "3 settings, 4 agent files, 5 store (Redis), 6 address or port, 7 no Frontdesk server answers, "
    "8 refused (key, message, decision, replay), 9 no such conversation, 10 model settings, 11 no answer in time, "
    "70 a bug in Frontdesk."
)


class CommandFailed(FrontdeskError):
    """A command cannot do what it was asked; the message is for the person at the keyboard."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def explain(error: FrontdeskError) -> tuple[str, ExitCode]:
    """What to print and the exit code for any error that Frontdesk raises on purpose."""
    if isinstance(error, CommandFailed):
        return str(error), error.code
    if isinstance(error, SettingsInvalid):
        return f"The settings cannot be used:\n{_indented(error)}", ExitCode.SETTINGS
    if isinstance(error, NotReplayable):
        return _sentence(error), ExitCode.REFUSED
    if isinstance(error, RosterInvalid):
        return _sentence(error), ExitCode.AGENTS
    if isinstance(error, ModelMisconfigured):
        return _sentence(error), ExitCode.MODEL
    if isinstance(error, StoreError):
        return f"The store cannot be used: {error}", ExitCode.STORE
    return _sentence(error), ExitCode.BUG


def _indented(error: Exception) -> str:
    return "\n".join(f"  {line}" for line in str(error).splitlines())


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def fail(message: str) -> None:
    """Print an error to stderr, as plain text whatever is in it."""
    err.print(
        Text("frontdesk: ", style="bold red").append(Text(safe(message), style="default not bold")), soft_wrap=True
    )


def warn(message: str) -> None:
    """Print a warning to stderr."""
    err.print(
        Text("warning: ", style="bold yellow").append(Text(safe(message), style="default not bold")), soft_wrap=True
    )


def safe(text: str) -> str:
    """`text` without characters that would move the cursor, change colours or reverse the writing direction."""
    return _CONTROL.sub("", text)


def print_json(data: Any) -> None:
    """Data for another program: JSON on stdout, nothing else."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")
