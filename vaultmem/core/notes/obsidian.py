"""Obsidian's conventions: daily notes, excluded files and the settings of a vault.

Source: the documentation of moment.js, "Format", for the names of daily notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.text.paths import OWN_FOLDERS, PINNED_FILES, fold
from vaultmem.core.text.patterns import compile_later

# A vault's settings in `.obsidian` that concern notes, as one frozen value.
#
# Source: the files that Obsidian, Templater and Periodic Notes write; `read_obsidian` of
# `vaultmem.storage.scan_files` reads them.

#: The folder in a vault with its Obsidian settings.
FOLDER = ".obsidian"


class LinkFormat(StrEnum):
    """The format of paths in Obsidian's new links."""

    SHORTEST = "shortest"
    RELATIVE = "relative"
    ABSOLUTE = "absolute"


class DailyNotes(NamedTuple):
    """The folder and name format (of moment.js) of daily notes; `format` applies below `folder`."""

    folder: str = ""
    format: str = "YYYY-MM-DD"


class ObsidianSettings(NamedTuple):
    """Obsidian's settings of a vault; the defaults are Obsidian's own.

    Folders and files are paths in the vault, "" for its root. `is_there` is whether `.obsidian`
    exists. `template_folders` are those of the core plugin and of Templater, in this order;
    `templates` are single template notes. `excluded` are the lines of "Excluded files" as written.
    `problems` are errors in reading the files.
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
    """The values of one file, each read as its expected type."""

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
        items = self._values.get(key)
        for value in items if isinstance(items, list) else ():
            if isinstance(value, dict):
                yield _Values(self._name, value, self._problems)


_Found = dict[str, object]


def _read_app(values: _Values, fields: _Found) -> None:
    fields["excluded"] = values.texts("userIgnoreFilters")
    fields["markdown_links"] = values.is_on("useMarkdownLinks")
    link_format = values.text("newLinkFormat")
    fields["link_format"] = next((e for e in LinkFormat if e == link_format), LinkFormat.SHORTEST)


def _read_templates(values: _Values, fields: _Found) -> None:
    _add(fields, "template_folders", values.text("folder"))


def _read_templater(values: _Values, fields: _Found) -> None:
    _add(fields, "template_folders", values.text("templates_folder"))
    for key in ("folder_templates", "file_templates"):
        for each in values.each(key):
            _add_template(fields, each.text("template"))


def _read_daily(values: _Values, fields: _Found) -> None:
    folder, name_format = clean_path(values.text("folder")), values.text("format")
    fields["daily"] = DailyNotes(folder, name_format or DailyNotes().format)
    _add_template(fields, values.text("template"))


def _read_periodic(values: _Values, fields: _Found) -> None:
    """Read Periodic Notes, which replaces the daily notes if enabled."""
    for period in ("weekly", "monthly", "quarterly", "yearly"):
        _add_template(fields, values.inside(period).text("template"))
    daily = values.inside("daily")
    if daily.is_on("enabled"):
        _read_daily(daily, fields)


#: Readers of the files below the folder, in order; later values win or are appended.
READERS: Mapping[str, Callable[[_Values, _Found], None]] = {
    "app.json": _read_app,
    "templates.json": _read_templates,
    "daily-notes.json": _read_daily,
    "plugins/templater-obsidian/data.json": _read_templater,
    "plugins/periodic-notes/data.json": _read_periodic,
}


def parse_settings(files: Mapping[str, bytes], problems: list[str]) -> ObsidianSettings:
    """Return the settings in the files of a `.obsidian` folder, by their names there.

    Unknown settings are ignored; `problems` are errors in finding the files.
    """
    fields: _Found = {}
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
            read(_Values(name, values, problems), fields)
        elif values is not None:
            problems.append(f"{FOLDER}/{name}: not an object of settings")
    settings = ObsidianSettings(True, problems=tuple(problems))
    return settings._replace(**fields)  # type: ignore[arg-type]


def clean_path(path: str) -> str:
    """Return a path of the settings as vault-relative; "" for the root or outside the vault."""
    parts = [each.strip() for each in path.replace("\\", "/").split("/")]
    parts = [each for each in parts if each not in {"", "."}]
    return "" if ".." in parts else "/".join(parts)


def _add(fields: _Found, key: str, raw_path: str) -> None:
    paths = fields.get(key, ())
    if (path := clean_path(raw_path)) and isinstance(paths, tuple) and path not in paths:
        fields[key] = (*paths, path)


def _add_template(fields: _Found, raw_path: str) -> None:
    path = clean_path(raw_path)
    _add(fields, "templates", path if path.lower().endswith(".md") or not path else f"{path}.md")


_DATE = compile_later(r"(\d{4}-\d{2}-\d{2})(?!\d)")

_TOKEN = compile_later(
    r"\[(?P<quoted>[^\[\]]*+)\]|(?P<token>YYYY|YY|Q|Do|D{1,4}|M{1,4}|d{1,4}|E|ww?|WW?|gggg|GGGG"
    r"|HH?|hh?|mm?|ss?|A|a|X|x)|(?P<other>.)",
    re.DOTALL,
)

#: The pattern of each token, and its part of a date, if any.
_WORD = r"[^\W\d_]+\.?"
_SHAPES = {
    "YYYY": (r"\d{4}", "year"),
    "YY": (r"\d{2}", "short"),
    "GGGG": (r"\d{4}", "iso_year"),
    "MMMM": (_WORD, "name"),
    "MMM": (_WORD, "name"),
    "MM": (r"\d{2}", "month"),
    "M": (r"\d{1,2}", "month"),
    "Do": (r"\d{1,2}(?=\D)[^\W\d_]{0,3}\.?", "day"),
    "DDDD": (r"\d{3}", "of_year"),
    "DDD": (r"\d{1,3}", "of_year"),
    "DD": (r"\d{2}", "day"),
    "D": (r"\d{1,2}", "day"),
    "WW": (r"\d{2}", "week"),
    "W": (r"\d{1,2}", "week"),
    "E": (r"\d", "weekday"),
    **dict.fromkeys(("dddd", "ddd", "dd"), (_WORD, "")),
    **dict.fromkeys(("A", "a"), ("[AaPp][Mm]", "")),
    **dict.fromkeys(("X", "x"), (r"\d+", "")),
    "gggg": (r"\d{4}", ""),
}
_NUMBER = (r"\d{1,2}", "")

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def read_day(path: str, daily: DailyNotes) -> str:
    """Return the date in a note's path as ISO 8601 text, or "".

    The format of daily notes in their folder comes first, then a name that begins with a date such
    as 2026-11-21. Month names are English.
    """
    if daily.format != DailyNotes().format:
        folder = f"{daily.folder}/" if daily.folder else ""
        if fold(path).startswith(fold(folder)):
            match = _compile(daily.format).fullmatch(path[len(folder) :].rpartition(".")[0])
            if match and (day := _find_day(match)):
                return day.isoformat()
    date_match = _DATE.match(path.rpartition("/")[2])
    try:
        return date.fromisoformat(date_match[1]).isoformat() if date_match else ""
    except ValueError:
        return ""


@lru_cache(maxsize=4)
def _compile(name_format: str) -> re.Pattern[str]:
    """Return the pattern of a path below the folder of daily notes; its groups are numbered."""
    parts: list[str] = []
    for number, match in enumerate(_TOKEN.finditer(name_format)):
        if match["token"] is None:
            parts.append(re.escape(match["quoted"] or match["other"] or ""))
            continue
        shape, part = _SHAPES.get(match["token"], _NUMBER)
        parts.append(f"(?P<{part}_{number}>{shape})" if part else shape)
    return re.compile("".join(parts))


def _find_day(match: re.Match[str]) -> date | None:
    """Return the date of all parts, None if they contradict or are not enough."""
    values_by_part: dict[str, set[int]] = {}
    for name, text in match.groupdict().items():
        part = name.rpartition("_")[0]
        if part == "name":
            part = "month"
            value = _MONTHS.index(text[:3].lower()) + 1 if text[:3].lower() in _MONTHS else 0
        else:
            value = int(re.match(r"\d+", text)[0])  # type: ignore[index]
        if part == "short":
            part, value = "year", 2000 + value
        values_by_part.setdefault(part, set()).add(value)
    if any(len(values) > 1 for values in values_by_part.values()):
        return None
    date_parts = {part: values.pop() for part, values in values_by_part.items()}
    try:
        if {"year", "month", "day"} <= date_parts.keys():
            return date(date_parts["year"], date_parts["month"], date_parts["day"])
        if {"year", "of_year"} <= date_parts.keys():
            return date(date_parts["year"], 1, 1) + timedelta(date_parts["of_year"] - 1)
        if {"iso_year", "week", "weekday"} <= date_parts.keys():
            return date.fromisocalendar(
                date_parts["iso_year"], date_parts["week"], date_parts["weekday"]
            )
    except (ValueError, OverflowError):
        return None
    return None


# Markdown files that are not notes because of settings in Obsidian, with the reason.

#: Reasons why a file is not a note, for people.
TEMPLATE = "templates"
EXCLUDED = "excluded in Obsidian"

_MAX_FILTER = 500

# Patterns that can be very slow: a repeated group, or many parts of any length.
_REPEATED_GROUP = compile_later(r"(?<!\\)\)[*+{]")
_ANY_LENGTH = compile_later(r"(?<!\\)(?:[*+]|\{\d*,\d*\})")
_MAX_OF_ANY_LENGTH = 4


class ExclusionFilter:
    """A filter for files that are not notes; `refused` are the unusable filters.

    In Obsidian, `/.../` is a regular expression for any part of the path; other filters match the
    path's beginning. Case is ignored, and so are invalid expressions, as in Obsidian. A filter that
    matches a whole folder of vaultmem does not apply there, so agents still find its memories.
    """

    def __init__(self, settings: ObsidianSettings) -> None:
        self._folders = tuple(f"{fold(each)}/" for each in settings.template_folders)
        self._templates = frozenset(map(fold, settings.templates))
        self.refused: list[str] = []
        self._searches = [
            (each.search, tuple(folder for folder in OWN_FOLDERS if each.search(folder)))
            for each in self._read(settings.excluded)
        ]

    def __bool__(self) -> bool:
        return bool(self._folders or self._templates or self._searches)

    def why(self, path: str) -> str:
        """Return why the file at a vault path is not a note, "" if no setting excludes it."""
        if self._folders or self._templates:
            folded = fold(path)
            if folded.startswith(self._folders) or folded in self._templates:
                return TEMPLATE
        for search, own in self._searches:
            if search(path) and not path.startswith(own) and path not in PINNED_FILES:
                return EXCLUDED
        return ""

    def _read(self, filters: Iterable[str]) -> Iterable[re.Pattern[str]]:
        prefixes: list[str] = []
        for each in filters:
            if not (len(each) > 2 and each[0] == each[-1] == "/"):
                if any(folder.startswith(each.lower()) for folder in OWN_FOLDERS):
                    yield re.compile(f"\\A{re.escape(each)}", re.IGNORECASE)
                else:
                    prefixes.append(re.escape(each))
                continue
            try:
                _check_cost(each[1:-1])
                yield re.compile(each[1:-1], re.IGNORECASE)
            except (re.error, RecursionError, OverflowError) as error:
                self.refused.append(f"{each[:80]}: {error}")
        if prefixes:
            yield re.compile(f"\\A(?:{'|'.join(prefixes)})", re.IGNORECASE)


@lru_cache(maxsize=4)
def find_set_aside(settings: ObsidianSettings) -> ExclusionFilter:
    """Return the filter of the settings, cached."""
    return ExclusionFilter(settings)


def _check_cost(pattern: str) -> None:
    """Reject patterns that could be very slow, because settings can come with a clone.

    Raises:
        re.error: the pattern is too long, or too complex; the error gives the reason.
    """
    if len(pattern) > _MAX_FILTER:
        raise re.error(f"longer than {_MAX_FILTER} characters")
    if _REPEATED_GROUP.search(pattern):
        raise re.error("a group in it is repeated")
    if len(_ANY_LENGTH.findall(pattern)) > _MAX_OF_ANY_LENGTH:
        raise re.error(f"more than {_MAX_OF_ANY_LENGTH} parts of any length")
