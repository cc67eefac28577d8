"""The two secrets that Frontdesk makes for itself in development, each kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from app.settings import Settings

DESK_KEY_FILE = "desk.key"
SIGNING_FILE = "signing.key"
KEY_BYTES = 32  # 256 bits


def desk_key(settings: Settings) -> str:
    """The key that opens the desk and the REST API: FRONTDESK_API_KEY, or one generated once into the data folder."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return _keep(desk_key_file(settings), prefix="fd_desk_")


def desk_key_file(settings: Settings) -> Path:
    """Where a generated desk key is kept."""
    return settings.data_dir / DESK_KEY_FILE


def signing_secret(settings: Settings) -> str:
    """What signs the visitors' tokens: FRONTDESK_SECRET, or one generated once into the data folder."""
    if settings.secret is not None:
        return settings.secret.get_secret_value()
    return _keep(settings.data_dir / SIGNING_FILE, prefix="")


def _keep(path: Path, *, prefix: str) -> str:
    """The key in `path`, made there first when there is none. Two processes that start at once get the same one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(prefix + secrets.token_urlsafe(KEY_BYTES) + "\n")
        try:
            os.link(fresh, path)  # whole or not at all, and never over a key that another process just made
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()
