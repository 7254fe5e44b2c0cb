"""What a vault's `.obsidian` folder says, as far as it concerns notes: one frozen value.

Source: the files that Obsidian, Templater and Periodic Notes write; `read_obsidian` of
`vaultmem.storage.obsidian_settings` reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

#: The folder of the settings, in a vault of Obsidian's.
FOLDER = ".obsidian"


class LinkFormat(StrEnum):
    """How Obsidian writes the path of a new link."""

    SHORTEST = "shortest"
    RELATIVE = "relative"
    ABSOLUTE = "absolute"


class DailyNotes(NamedTuple):
    """Where daily notes are and how they are named; `format` is moment.js's, below `folder`."""

    folder: str = ""
    format: str = "YYYY-MM-DD"


class ObsidianSettings(NamedTuple):
    """What Obsidian was told about a vault; the defaults are Obsidian's own.

    Folders and files are paths in the vault, "" for its root. `is_there` tells whether there is a
    `.obsidian` at all. `template_folders` are those of the core plugin and of Templater, in this
    order; `templates` single notes that are used as templates. `excluded` are the lines of
    "Excluded files" as written. `problems` say what could not be read, and why.
    """

    is_there: bool = False
    template_folders: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    daily: DailyNotes = DailyNotes()
    link_format: LinkFormat = LinkFormat.SHORTEST
    markdown_links: bool = False
    problems: tuple[str, ...] = ()


class _Values:
    """The values of one file, each read as the type it should have."""

    def __init__(self, name: str, values: Mapping[str, object], problems: list[str]) -> None:
        self._name = name
        self._values = values
        self._problems = problems

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            self._problems.append(f'{FOLDER}/{self._name}: "{key}" is not text')
        return value.strip() if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self._problems.append(f'{FOLDER}/{self._name}: "{key}" is not a list')
            return ()
        return tuple(each.strip() for each in value if isinstance(each, str) and each.strip())

    def inside(self, key: str) -> _Values:
        value = self._values.get(key)
        return _Values(self._name, value if isinstance(value, dict) else {}, self._problems)

    def is_on(self, key: str) -> bool:
        return self._values.get(key) is True

    def each(self, key: str) -> Iterator[_Values]:
        found = self._values.get(key)
        for value in found if isinstance(found, list) else ():
            if isinstance(value, dict):
                yield _Values(self._name, value, self._problems)


_Found = dict[str, object]


def _read_app(values: _Values, found: _Found) -> None:
    found["excluded"] = values.texts("userIgnoreFilters")
    found["markdown_links"] = values.is_on("useMarkdownLinks")
    written = values.text("newLinkFormat")
    found["link_format"] = next((e for e in LinkFormat if e == written), LinkFormat.SHORTEST)


def _read_templates(values: _Values, found: _Found) -> None:
    _add(found, "template_folders", values.text("folder"))


def _read_templater(values: _Values, found: _Found) -> None:
    _add(found, "template_folders", values.text("templates_folder"))
    for key in ("folder_templates", "file_templates"):
        for each in values.each(key):
            _add_template(found, each.text("template"))


def _read_daily(values: _Values, found: _Found) -> None:
    folder, written = clean_path(values.text("folder")), values.text("format")
    found["daily"] = DailyNotes(folder, written or DailyNotes().format)
    _add_template(found, values.text("template"))


def _read_periodic(values: _Values, found: _Found) -> None:
    """Read a plugin that stands in for the daily notes, where it is told to."""
    for period in ("weekly", "monthly", "quarterly", "yearly"):
        _add_template(found, values.inside(period).text("template"))
    daily = values.inside("daily")
    if daily.is_on("enabled"):
        _read_daily(daily, found)


#: The files that are read, below the folder, in the order in which they are heeded.
READERS: Mapping[str, Callable[[_Values, _Found], None]] = {
    "app.json": _read_app,
    "templates.json": _read_templates,
    "daily-notes.json": _read_daily,
    "plugins/templater-obsidian/data.json": _read_templater,
    "plugins/periodic-notes/data.json": _read_periodic,
}


def parse_settings(files: Mapping[str, bytes], problems: list[str]) -> ObsidianSettings:
    """Return what the files of a `.obsidian` folder say, by their names there.

    What is foreign in them is passed over; `problems` are those of finding them.
    """
    found: _Found = {}
    problems = list(problems)
    for name, read in READERS.items():
        if name not in files:
            continue
        try:
            values = json.loads(files[name].decode("utf-8-sig") or "{}")
        except (ValueError, RecursionError) as error:
            problems.append(f"{FOLDER}/{name}: not JSON ({error})")
            continue
        if isinstance(values, dict):
            read(_Values(name, values, problems), found)
        elif values is not None:
            problems.append(f"{FOLDER}/{name}: not an object of settings")
    settings = ObsidianSettings(True, problems=tuple(problems))
    return settings._replace(**found)  # type: ignore[arg-type]


def clean_path(written: str) -> str:
    """Return a path of the settings as the vault has it; "" for the root, or none inside."""
    parts = [each.strip() for each in written.replace("\\", "/").split("/")]
    parts = [each for each in parts if each not in {"", "."}]
    return "" if ".." in parts else "/".join(parts)


def _add(found: _Found, key: str, written: str) -> None:
    known = found.get(key, ())
    if (path := clean_path(written)) and isinstance(known, tuple) and path not in known:
        found[key] = (*known, path)


def _add_template(found: _Found, written: str) -> None:
    path = clean_path(written)
    _add(found, "templates", path if path.lower().endswith(".md") or not path else f"{path}.md")
