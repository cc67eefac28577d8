"""The documentation as data: pages, their fenced blocks, links and tables; and a shell that runs what they show."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import httpx2

from app.settings import Settings, variable_of
from tests.support import SCALE, wait_until

ROOT = Path(__file__).parents[2]
PAGES = tuple(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))))
FENCE = re.compile(r"^```(\S+)(?: +(.*?))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONVERSATION = re.compile(r"c_[a-z2-7]{26}")
ADDRESS = "127.0.0.1:8000"  # where the pages say that the server is
RUN_S = 120.0  # one block of commands; some of them start a server


@dataclass(frozen=True)
class Block:
    """A fenced block: the word after the fence, the rest of that line, and the text."""

    page: str
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """All fenced blocks of a page, top to bottom."""
    text = page_text(page)
    return tuple(
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2] or "", found[3])
        for found in FENCE.finditer(text)
    )


def all_blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", page_text(page))


def write_files(page: str, folder: Path) -> bool:
    """Write the blocks of a page that are files, of an agents folder or of a program; whether there were any."""
    files = [block for block in blocks(page) if block.note.startswith(("agents/", "shop/"))]
    for block in files:
        path = folder / block.note
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    return bool(files)


def rows(page: str, marker: str) -> dict[str, list[list[str]]]:
    """The tables that follow `<!-- marker: NAME -->`, by NAME, as rows of cells without the heading."""
    found = re.finditer(rf"<!-- {marker}(?:: (\S+))? -->\n((?:\|.*\n)+)", page_text(page))
    return {table[1] or "": [cells(line) for line in table[2].splitlines()[2:]] for table in found}


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def anchors(page: Path) -> set[str]:
    """What `#...` may name in a page, as GitHub makes it of the headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- commands -------------------------------------------------------------------------------------------------------


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Each `$ command` of a block with the lines that it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def clean_environment() -> dict[str, str]:
    """This process' environment without any of Frontdesk's settings."""
    names = {variable_of(name) for name in Settings.model_fields}
    return {key: value for key, value in os.environ.items() if key not in names}


@dataclass
class Desk:
    """A running `frontdesk serve` with the demo desk, and a shell in which `frontdesk` means this source tree."""

    process: subprocess.Popen[bytes]
    address: str
    folder: Path

    def environment(self) -> dict[str, str]:
        port = self.address.rpartition(":")[2]
        path = f"{self.folder / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"PATH": path, "FRONTDESK_PORT": port, "FRONTDESK_DATA_DIR": str(self.folder / "data")}
        return {**clean_environment(), **own}

    def run(self, block: Block, cwd: Path) -> list[tuple[str, int]]:
        """Output (both streams) and exit code of each command of a block, run in one shell in `cwd`."""
        script = PRELUDE + "".join(
            f"{self._here(command)}\nprintf '\\n@@%s@@\\n' $?\n" for command, _ in commands(block)
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_S * SCALE,
            check=False,
        )
        parts = re.split(r"\n@@(\d+)@@\n", done.stdout.replace(self.address, ADDRESS))
        return [(output, int(code)) for output, code in zip(parts[::2], parts[1::2], strict=False)]

    def _here(self, command: str) -> str:
        return CONVERSATION.sub("$(newest)", command.replace(ADDRESS, self.address))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30 * SCALE)


# `serve` would not end: it is started on a port and folder of its own, and stopped when it is ready.
PRELUDE = """
newest() { command frontdesk conversations --limit 1 --json | python -c 'import json, sys
print(json.load(sys.stdin)["conversations"][0]["id"])'; }
frontdesk() {
  if [ "$1" != serve ]; then command frontdesk "$@"; return; fi
  shift; : > serve.log
  command frontdesk serve --port 0 --data-dir .serve "$@" > serve.log 2>&1 &
  local server=$!
  while kill -0 $server 2>/dev/null && ! grep -q 'Ctrl-C stops it' serve.log; do sleep 0.2; done
  kill -TERM $server 2>/dev/null
  wait $server
  local code=$?
  cat serve.log
  return $code
}
"""


def start_desk(folder: Path) -> Desk:
    """The demo desk on a free port, as `make run` starts it."""
    binary = folder / "bin" / "frontdesk"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m app.cli "$@"\n')
    binary.chmod(0o755)
    log = folder / "serve.log"
    with log.open("wb") as out:
        command = [str(binary), "serve", "--port", "0", "--data-dir", str(folder / "data")]
        process = subprocess.Popen(command, cwd=folder, env=clean_environment(), stdout=out, stderr=out)

    def address() -> str:
        assert process.poll() is None, log.read_text()
        found = re.search(r"Chat\s+http://(\S+?)/", log.read_text())
        return found[1] if found and "Ctrl-C" in log.read_text() else ""

    return Desk(process, asyncio.run(wait_until("frontdesk serve is ready", address, 60)) or "", folder)


def shows(expected: Iterable[str], output: str) -> bool:
    """Whether `output` is what the page shows; `...` stands for any text, on a line of its own for any lines."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        words = re.escape(re.sub(CONVERSATION, "@id@", line.rstrip())).replace(re.escape("..."), ".*")
        pattern += re.sub(r"(?:\\ ){2,}", r"\\s+", words).replace("@id@", CONVERSATION.pattern) + r"\s*\n"
    text = output.strip("\n")
    return re.fullmatch(pattern, f"{text}\n" if text else "") is not None


def missing_programs(block: Block) -> list[str]:
    """Programs besides frontdesk that a block needs and this machine does not have."""
    return [name for name in ("curl", "jq") if re.search(rf"\b{name}\b", block.text) and shutil.which(name) is None]


def served_log(desk: Desk, key: str) -> list[Mapping[str, object]]:
    """Every event of every conversation of the running desk."""
    with httpx2.Client(base_url=f"http://{desk.address}/v1", headers={"X-API-Key": key}) as http:
        ids = [found["id"] for found in http.get("/conversations").json()["conversations"]]
        return [event for id_ in ids for event in http.get(f"/conversations/{id_}").json()["events"]]
