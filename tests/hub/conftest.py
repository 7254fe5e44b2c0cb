"""A hub with two vaults, made once a test, and served when the test asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("mcp")

from hub_serving import Team

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}


@pytest.fixture
def team(make_vault: Callable[..., Path], tmp_path: Path) -> Iterator[Team]:
    """Have a hub with the vaults `harbour` and `payments`, which is served."""
    made = Team(tmp_path, make_vault(NOTES, "seed"), ["harbour", "payments"])
    made.serve()
    yield made
    made.close()
