"""The nursery: a process that has imported everything and forks workers on request, so that a restart is cheap.

Run as `python -m tests.faults.harness.nursery`. A line on its input is a WorkerConfig, the line on its output the new
process' id. Workers die with the nursery, and the nursery ends with its input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.faults.harness.server import die_with_parent
from tests.faults.harness.worker import WorkerConfig
from tests.faults.harness.worker import main as work

ROOT = Path(__file__).parents[3]


def main() -> None:
    """Fork a worker per line of input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the dead
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(line)
        print(pid, flush=True)


def _become(line: str) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # a worker must not keep the nursery's pipes open
        os.dup2(null, stream)
    code = 1
    try:
        work(WorkerConfig.parse(line))
        code = 0
    finally:
        os._exit(code)


class Nursery:
    """The harness' side of it."""

    def __enter__(self) -> Nursery:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.harness.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)  # its workers are killed by the kernel then

    def fork(self, config: WorkerConfig) -> int:
        """A new worker process; its process id."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(config.dump() + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


if __name__ == "__main__":
    main()
