"""Rules for credentials: built-in ones from `rules.toml`, and those of a `.gitleaks.toml`."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.text.patterns import compile_later

SETTINGS_NAME, IGNORE_NAME = ".gitleaks.toml", ".gitleaksignore"

#: A key and its value in a line of `rules.toml`.
_LINE = compile_later(r"^(\w+) = (.+)$", re.MULTILINE)
#: Keys for readers of the file, which a scan does not need.
_FOR_READERS = frozenset({"description", "example", "counter"})

_LITERAL = compile_later(r"'''(.*?)'''")
_POSIX_CLASS = compile_later(r"\[:\^?[a-z]+:\]")


class Allowlist(NamedTuple):
    """Exceptions from rules, by path, by regex on the text, or by stop word in the secret.

    `target` is what `regexes` are searched in: the secret, the match or the line. `rules` are the
    rules it applies to, all if empty. With `needs_all`, each given kind of exception must match.
    """

    paths: tuple[str, ...] = ()
    regexes: tuple[str, ...] = ()
    stopwords: tuple[str, ...] = ()
    target: str = "secret"
    needs_all: bool = False
    rules: tuple[str, ...] = ()


class Rule(NamedTuple):
    """The format of a credential.

    The secret's entropy must exceed `entropy`, in bits per character.

    `group` is the regex group with the secret; 0 means the first group that matched, else the whole
    match. A rule without a regex reports each file whose `path` matches.
    """

    id: str
    regex: str = ""
    keywords: tuple[str, ...] = ()
    entropy: float = 0.0
    group: int = 0
    path: str = ""
    allowlists: tuple[Allowlist, ...] = ()


class Rules(NamedTuple):
    """Rules and their exceptions. `ignored` are places, path:rule:line.

    A line that contains `mark` is not reported.
    """

    rules: tuple[Rule, ...]
    allowlists: tuple[Allowlist, ...] = ()
    ignored: frozenset[str] = frozenset()
    mark: str = ""


class SecretSettings(NamedTuple):
    """A vault's additional rules and exceptions, and the rules that it disables."""

    rules: tuple[Rule, ...] = ()
    allowlists: tuple[Allowlist, ...] = ()
    disabled: frozenset[str] = frozenset()

    @property
    def has_regexes(self) -> bool:
        """Whether there are any regexes. A regex from a vault can take forever."""
        return bool(self.rules or any(each.regexes or each.paths for each in self.allowlists))


@cache
def read_rules() -> Rules:
    """Return the built-in rules for credentials."""
    return read_rules_file(Path(__file__).with_name("rules.toml"))


def read_rules_file(path: Path) -> Rules:
    """Return the rules of a file. A TOML parser would take longer than the scan of a note."""
    text = path.read_text(encoding="utf-8")
    rules, _, allowlists = text.partition("[[allowlists]]")
    return Rules(
        tuple(_make_rule(_read_lines(each)) for each in rules.split("[[rules]]")[1:]),
        tuple(_make_allowlist(_read_lines(each)) for each in allowlists.split("[[allowlists]]")),
    )


def extend_rules(settings: SecretSettings, ignored: Iterable[str], mark: str) -> Rules:
    """Return the built-in rules, changed by a vault's settings.

    A vault's rule with a built-in id overrides only the fields that it sets.
    """
    builtin_rules = {
        rule.id: rule for rule in read_rules().rules if rule.id not in settings.disabled
    }
    vault_rules = {rule.id: _join(builtin_rules.get(rule.id), rule) for rule in settings.rules}
    return Rules(
        tuple((builtin_rules | vault_rules).values()),
        (*read_rules().allowlists, *settings.allowlists),
        frozenset(ignored),
        mark,
    )


def parse_settings(text: str) -> SecretSettings:
    """Parse the text of a `.gitleaks.toml`.

    The built-in rules apply even if it does not extend them.

    Raises:
        ValueError: it is not TOML, or not in gitleaks' format.
    """
    import tomllib

    try:
        whole = tomllib.loads(text.removeprefix("\ufeff"))
        return SecretSettings(
            tuple(
                _make_rule(rule) for rule in whole.get("rules", ()) if not rule.get("skipReport")
            ),
            tuple(_list_allowlists(whole)),
            frozenset(_texts(whole.get("extend", {}), "disabledRules")),
        )
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not as gitleaks has it ({error})") from None


def check_settings(settings: SecretSettings) -> None:
    """Check that a vault's rules can be used.

    Raises:
        ValueError: a rule cannot be used; the text names it.
    """
    builtin_ids = {rule.id for rule in read_rules().rules}
    allowlists = [("the allowlist", allowlist) for allowlist in settings.allowlists]
    for rule in settings.rules:
        name = f'the rule "{rule.id}"'
        if not rule.id or not (rule.regex or rule.path or rule.id in builtin_ids):
            raise ValueError(f"{name} needs an id, and a regex or a path")
        groups = max(_check(name, rule.regex), _check(name, rule.path))
        if rule.regex and rule.group > groups:
            raise ValueError(f"{name}: its regex has no group {rule.group}")
        allowlists += [(name, allowlist) for allowlist in rule.allowlists]
    for name, allowlist in allowlists:
        for regex in (*allowlist.regexes, *allowlist.paths):
            _check(name, regex)


def _check(name: str, regex: str) -> int:
    try:
        return compile_regex(regex).groups
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


@cache
def compile_regex(regex: str) -> re.Pattern[str]:
    """Return an RE2 regex, as gitleaks uses it, compiled for Python.

    Raises:
        ValueError: Python has no equivalent.
    """
    if _POSIX_CLASS.search(regex):
        raise ValueError("Python has no [:class:]; write its characters out")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(re.sub(r"(?<!\\)((?:\\\\)*)\\z", r"\1\\Z", regex))
    except (re.error, OverflowError, RecursionError) as error:
        hint = "; write (?i:...)" if "global flags" in str(error) else ""
        raise ValueError(f"Python cannot read it: {error}{hint}") from None


def _read_lines(chunk: str) -> dict[str, Any]:
    """Return the keys of a table of `rules.toml`. Strings are in ''' or in JSON syntax."""
    table = {}
    for name, value in _LINE.findall(chunk):
        if name in _FOR_READERS:
            continue
        literals = _LITERAL.findall(value)
        table[name] = (
            (literals if value[0] == "[" else literals[0]) if literals else json.loads(value)
        )
    return table


def _join(builtin: Rule | None, rule: Rule) -> Rule:
    if builtin is None:
        return rule
    fields = {name: value for name, value in rule._asdict().items() if value}
    return builtin._replace(**fields)._replace(allowlists=builtin.allowlists + rule.allowlists)


def _make_rule(table: Mapping[str, Any]) -> Rule:
    return Rule(
        str(table.get("id", "")),
        str(table.get("regex", "")),
        tuple(word.lower() for word in _texts(table, "keywords")),
        float(table.get("entropy", 0)),
        int(table.get("secretGroup", 0)),
        str(table.get("path", "")),
        tuple(_list_allowlists(table)),
    )


def _list_allowlists(table: Mapping[str, Any]) -> Iterable[Allowlist]:
    groups = ([table["allowlist"]] if "allowlist" in table else []), table.get("allowlists", ())
    return (_make_allowlist(each) for group in groups for each in group)


def _make_allowlist(table: Mapping[str, Any]) -> Allowlist:
    """Return an allowlist without its commits, because committed text is not scanned again."""
    return Allowlist(
        _texts(table, "paths"),
        _texts(table, "regexes"),
        tuple(word.lower() for word in _texts(table, "stopwords")),
        str(table.get("regexTarget") or "secret"),
        str(table.get("condition", "")).upper() in {"AND", "&&"},
        _texts(table, "targetRules"),
    )


def _texts(table: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = table.get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f'"{name}" is not a list of texts')
    return tuple(values)
