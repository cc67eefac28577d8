"""`frontdesk init DIR`: a copy of the demo desk to start from."""

from __future__ import annotations

import shutil
from pathlib import Path

from app.commands.output import CommandFailed, ExitCode
from app.settings import starter_agents

NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


def init(folder: Path, *, force: bool) -> list[Path]:
    """Copy the demo desk into `folder`; gives the files written. A folder that holds anything is refused."""
    if folder.exists() and not folder.is_dir():
        raise CommandFailed(f"{folder} is a file; name a folder", ExitCode.USAGE)
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise CommandFailed(
            f"{folder} is not empty; --force writes there all the same and replaces files of the same name",
            ExitCode.USAGE,
        )
    source = starter_agents()
    if not (source / "desk.yaml").is_file():
        raise CommandFailed(f"the demo desk is missing from this installation ({source})", ExitCode.BUG)
    try:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=NOT_COPIED)
    except OSError as error:
        raise CommandFailed(f"cannot write to {folder}: {error.strerror or error}", ExitCode.USAGE) from None
    return sorted(folder / path.relative_to(source) for path in source.rglob("*") if _copied(path))


def _copied(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc" and not path.name.startswith(".")
