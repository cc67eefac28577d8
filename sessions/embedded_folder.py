"""The folder of an embedded server: made, checked, locked, and a socket path that the system can take."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

from sessions.errors import EmbeddedServerFailed
from sessions.supervisor import try_lock

SOCKET = "v.sock"
SOCKET_PATH_BYTES = 100  # sun_path holds 104 bytes on macOS and 108 on Linux, with the closing zero
POLL_S = 0.01  # while waiting for a lock or the server's first answer; a cold start takes 20-250 ms

ELSEWHERE = "Choose another folder with FRONTDESK_DATA_DIR, or set REDIS_URL to a server"


def prepare_folder(data_dir: Path) -> Path:
    """Make the folder (mode 0700) and give its real path; EmbeddedServerFailed when it cannot be used."""
    try:
        folder = data_dir.expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        _refuse_foreign(folder, status)
        if status.st_mode & 0o077:
            folder.chmod(status.st_mode & 0o700)  # closed to others; a read-only folder stays read-only
    except (OSError, RuntimeError) as error:  # RuntimeError: a home folder that cannot be found, a loop of links
        raise EmbeddedServerFailed(
            f"the folder {data_dir} for the embedded server cannot be used: {_reason(error)}. "
            f"Make it a folder that this user may write to. {ELSEWHERE}."
        ) from error
    return folder


def _refuse_foreign(folder: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise EmbeddedServerFailed(
            f"the folder {folder} for the embedded server belongs to user id {status.st_uid}, "
            f"this process runs as user id {os.geteuid()}. Run as that user. {ELSEWHERE}."
        )


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def open_lock(path: Path) -> int:
    """A descriptor of a lock file of this folder; EmbeddedServerFailed when it is not ours to open."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedServerFailed(
            f"the lock {path} of the embedded server cannot be opened: {_reason(error)}. "
            f"Is {path.parent} read-only, or does it hold another user's files? {ELSEWHERE}."
        ) from error


def try_folder_lock(fd: int, how: int, path: Path) -> bool:
    """Take a flock without waiting; EmbeddedServerFailed where the file system has none (NFS)."""
    try:
        return try_lock(fd, how)
    except OSError as error:
        raise EmbeddedServerFailed(
            f"{path} cannot be locked: {_reason(error)}. The embedded server needs a local file system. {ELSEWHERE}."
        ) from error


def wait_for_lock(fd: int, how: int, path: Path, deadline: float, holder: str) -> None:
    """Take a flock until `deadline` (monotonic); EmbeddedServerFailed names the lock and who probably holds it."""
    while not try_folder_lock(fd, how, path):
        if time.monotonic() > deadline:
            raise EmbeddedServerFailed(
                f"the embedded server's lock {path} stayed taken: {holder}. "
                f"End the process that holds it (`lsof {path}` names it). {ELSEWHERE}."
            )
        time.sleep(POLL_S)


def unlock(fd: int) -> None:
    """Give a flock back, also for copies of the descriptor that a forked child may hold, and close it."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def socket_path(folder: Path) -> Path:
    """`<folder>/v.sock`, or one in a short private folder of the temp dir where that would be too long."""
    inside = folder / SOCKET
    if _fits(inside):
        return inside
    name = f"frontdesk-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    outside = Path(tempfile.gettempdir()).resolve() / name / SOCKET
    if not _fits(outside):
        outside = Path("/tmp", name, SOCKET)  # noqa: S108  # the folder is private and checked below
    _make_private(outside.parent)
    return outside


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) < SOCKET_PATH_BYTES


def _make_private(folder: Path) -> None:
    """Anybody may write to the temp dir: accept only a real folder that is ours and closed to others."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise EmbeddedServerFailed(
            f"no folder for the embedded server's socket: {folder}: {_reason(error)}. {ELSEWHERE}."
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise EmbeddedServerFailed(
            f"{folder} (for the embedded server's socket) is not a private folder of this user. "
            f"Remove it, or set TMPDIR. {ELSEWHERE}."
        )
