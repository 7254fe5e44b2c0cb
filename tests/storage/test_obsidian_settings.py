"""What Obsidian's settings say: files as Obsidian and its plugins write them, and foreign ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from vaultmem.core.notes.obsidian import DailyNotes, LinkFormat, ObsidianSettings
from vaultmem.storage.scan_files import ObsidianFolder, find_template_folder, read_obsidian

#: As a vault in use has them, but for keys that are not read.
_FILES = {
    "app.json": {
        "newLinkFormat": "relative",
        "useMarkdownLinks": True,
        "attachmentFolderPath": "./assets",
        "userIgnoreFilters": ["Private/", "  /^Old .*/ ", "", 3],
    },
    "templates.json": {"folder": "03 Resources\\Templates", "dateFormat": "YYYY-MM-DD ddd"},
    "daily-notes.json": {"folder": "Journal", "format": "YYYY/MM/DD", "template": "Day"},
    "plugins/templater-obsidian/data.json": {
        "templates_folder": "_scripts/templates",
        "folder_templates": [{"folder": "People", "template": "People/_person.md"}, 1],
    },
    "plugins/periodic-notes/data.json": {
        "daily": {"enabled": True, "folder": "Days", "format": "", "template": ""},
        "weekly": {"format": "", "template": "Meta/Week.md", "folder": ""},
        "yearly": None,
    },
}


def _write(root: Path, files: dict[str, object]) -> None:
    for name, values in files.items():
        file = root / ".obsidian" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(values if isinstance(values, str) else json.dumps(values), "utf-8")


def test_everything_that_obsidian_was_told(tmp_path: Path) -> None:
    _write(tmp_path, _FILES)
    assert read_obsidian(tmp_path) == ObsidianSettings(
        is_there=True,
        template_folders=("03 Resources/Templates", "_scripts/templates"),
        templates=("Day.md", "People/_person.md", "Meta/Week.md"),
        excluded=("Private/", "/^Old .*/"),
        daily=DailyNotes("Days"),
        link_format=LinkFormat.RELATIVE,
        markdown_links=True,
    )


@pytest.mark.parametrize("name", _FILES)
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '"\\ud800"', "\ufeff{}"])
def test_foreign_files_are_no_error(tmp_path: Path, name: str, text: str) -> None:
    _write(tmp_path, {name: text})
    found = read_obsidian(tmp_path)
    assert found._replace(problems=()) == ObsidianSettings(is_there=True)
    assert all(name in problem for problem in found.problems)
    assert bool(found.problems) == (text not in {"", "null", "\ufeff{}"})


def test_foreign_values_count_as_none(tmp_path: Path) -> None:
    _write(tmp_path, {"app.json": {"userIgnoreFilters": "Private", "newLinkFormat": ["x"]}})
    _write(tmp_path, {"templates.json": {"folder": "/"}, "daily-notes.json": {"folder": "../up"}})
    found = read_obsidian(tmp_path)
    assert found._replace(problems=()) == ObsidianSettings(is_there=True)
    assert found.problems == (
        '.obsidian/app.json: "userIgnoreFilters" is not a list',
        '.obsidian/app.json: "newLinkFormat" is not text',
    )


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "app.json").write_text('{"userIgnoreFilters": ["x"]}')
    vault = tmp_path / "vault"
    vault.mkdir()
    assert read_obsidian(vault) == ObsidianSettings()
    (vault / ".obsidian").symlink_to(tmp_path / "real")
    assert read_obsidian(vault) == ObsidianSettings(
        problems=(".obsidian: not a folder; links are never followed",)
    )
    os.unlink(vault / ".obsidian")
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "app.json").symlink_to(tmp_path / "real" / "app.json")
    found = read_obsidian(vault)
    assert not found.excluded
    assert "app.json" in found.problems[0]


def test_settings_are_read_again_when_they_change(tmp_path: Path) -> None:
    folder = ObsidianFolder(tmp_path)
    assert folder.read() == ObsidianSettings()
    _write(tmp_path, {"templates.json": {"folder": "A"}})
    first = folder.read()
    assert first.template_folders == ("A",)
    assert folder.read() is first
    _write(tmp_path, {"templates.json": {"folder": "Other"}})
    assert folder.read().template_folders == ("Other",)


def test_the_folder_that_templates_go_to(tmp_path: Path) -> None:
    assert find_template_folder(tmp_path, ObsidianSettings()) == "templates"
    (tmp_path / "99 - Templates").mkdir()
    assert find_template_folder(tmp_path, ObsidianSettings()) == "99 - Templates"
    told = ObsidianSettings(template_folders=("Meta/T", "Other"))
    assert find_template_folder(tmp_path, told) == "Meta/T"
