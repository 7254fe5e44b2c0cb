"""Where the folders are that the package brings along: templates, and the sample vault."""

from __future__ import annotations

from pathlib import Path


def find_package_folder(name: str) -> Path:
    """Return a folder of files: in the package where it is installed, beside it in a clone."""
    package = Path(__file__).parents[1]
    inside = package / name
    return inside if inside.is_dir() else package.parent / name
