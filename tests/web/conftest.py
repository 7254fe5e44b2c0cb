"""The sample vault, served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from visiting import Served

SAMPLE = Path(__file__).parents[2] / "sample-vault"


@pytest.fixture
def sample(make_vault: Callable[..., Path]) -> Path:
    """A copy of the sample vault, committed."""
    files = [file for file in SAMPLE.rglob("*") if file.is_file()]
    return make_vault({str(file.relative_to(SAMPLE)): file.read_bytes() for file in files})


@pytest.fixture
def served(sample: Path, tmp_path: Path) -> Iterator[Served]:
    """The sample vault, which may only be read in a browser."""
    made = Served(sample, tmp_path)
    yield made
    made.workers.close()


@pytest.fixture
def owned(sample: Path, tmp_path: Path) -> Iterator[Served]:
    """The sample vault, which its owner may write to in a browser."""
    made = Served(sample, tmp_path, may_write=True)
    yield made
    made.workers.close()
