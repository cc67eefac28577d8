"""The desk's key: set by the operator, or made once in development and kept where only its owner can read it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from app.settings import Settings

DESK_KEY_FILE = "desk.key"
KEY_PREFIX = "fd_desk_"  # so that a key that leaked is recognised
KEY_BYTES = 32  # 256 bits


def desk_key(settings: Settings) -> str:
    """The key that opens the desk and the REST API: FRONTDESK_API_KEY, or one generated once into the data folder."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return _keep(desk_key_file(settings))


def desk_key_file(settings: Settings) -> Path:
    """Where a generated desk key is kept."""
    return settings.data_dir / DESK_KEY_FILE


def _keep(path: Path) -> str:
    """The key in `path`, made there first when there is none. Two processes that start at once get the same one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES) + "\n")
        try:
            os.link(fresh, path)  # whole or not at all, and never over a key that another process just made
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()
