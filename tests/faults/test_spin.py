"""The Spin model of the token protocol: a counter alone is violated by a failover, our token is not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "docs" / "model" / "check"
VARIANTS = 5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not shutil.which("spin") or not shutil.which("gcc"), reason="spin and gcc are needed: make model")
def test_model_breaks_where_it_must_and_holds_where_it_must() -> None:
    """Five variants of the protocol give the five expected results, each after a complete search."""
    done = subprocess.run([CHECK], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" ok\n") == VARIANTS, done.stdout
