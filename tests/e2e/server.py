"""`frontdesk serve` as a process of its own, which a test may kill and start again on the same data and port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.support import SCALE

API_KEY = "the-desk-key-of-the-e2e-tests"
START_S = 60.0  # the first start loads the model's weights, on two shared cores


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class ServerProcess:
    """The real command, with the embedded store in `data_dir`, the offline model and the demo agents."""

    data_dir: Path
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.data_dir / "server.log"

    def start(self) -> None:
        """Start, and wait until it is ready."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FRONTDESK_", "OPENAI_", "REDIS"))}
        own = {"FRONTDESK_DATA_DIR": str(self.data_dir), "FRONTDESK_API_KEY": API_KEY, "FRONTDESK_STOP_GRACE_S": "2"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from app.cli import main; main()"),
                    *("serve", "--port", str(self.port), "--model", "offline"),
                ],
                env={**kept, **own},
                cwd=Path(__file__).parents[2],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_S * SCALE
        while not self._ready():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)  # between two looks at another process; nothing else runs in this thread

    def _ready(self) -> bool:
        try:
            return bool(httpx2.get(f"{self.url}/readyz").status_code == 200)
        except httpx2.TransportError:
            return False

    def kill(self) -> None:
        """End it as a crash does: nothing is flushed, nobody is told."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as an operator does."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(15 * SCALE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
