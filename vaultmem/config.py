"""A vault's settings: vaultmem.yaml is found and read as a frozen Config."""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core import settings as rules
from vaultmem.core.notes.properties import Property
from vaultmem.core.text.patterns import compile_later
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoVaultError, RefusedError, VaultError

if TYPE_CHECKING:
    from vaultmem.core.notes.frontmatter import Frontmatter

CONFIG_NAME = "vaultmem.yaml"

#: A line that needs no YAML parser: a key and a number or a few words.
_PLAIN_LINE = compile_later(r"([a-z_]+): +([a-z][a-z0-9/_-]*(?<!null)|[1-9][0-9]*|0\.[0-9]+) *")

#: Keys whose items can contain characters that YAML does not read as text.
_LINES = frozenset({"extra_packs", "inject_context_into"})
_QUOTED = compile_later(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)


class Config(NamedTuple):
    """A vault's settings; `cli/topics/vaultmem.yaml` documents each key."""

    agent: str = ""
    ref: str = ""
    author: str = "{agent} <{agent}@agents.localhost>"
    budget: int = 2000
    pack_labels: str = "short"
    pinned_share: float = 0.5
    preference_share: float = 0.15
    recall_limit: int = 10
    recency_weight: float = 0.06
    default_context: str = "inbox"
    file_names: str = ""
    tool_notes: bool = True
    """Whether hooks show notes before an edit or a command."""
    commit_edits: bool = True
    commit_edits_after_seconds: int = 0
    """Seconds without a save after which `watch` commits a person's edits; 0: never."""
    ignore: tuple[str, ...] = ()
    promoting_agents: tuple[str, ...] = ()
    allow_secrets: tuple[str, ...] = ()
    extra_packs: tuple[str, ...] = ()
    context_file: str = ""
    inject_context_into: tuple[str, ...] = ()
    related_threshold: float = 0.5
    attachments_max_mib: int = 1
    """MiB up to which files that are not notes are committed and moved, 1 to 100."""
    transcript_max_mb: int = 32
    code_repository: str = ""
    semantic: str = "off"
    rerank: str = "off"
    rerank_timeout_seconds: int = 2
    stale_after_days: int = 60
    archive_after_days: int = 120
    summary_after_days: int = 30
    keywords_after_days: int = 60
    dream_every: str = "never"
    dream_recalls: int = 3
    dream_queries: int = 2
    dream_score: float = 0.6
    dream_limit: int = 20
    dream_frequency: float = 0.25
    dream_relevance: float = 0.3
    dream_recency: float = 0.15
    dream_diversity: float = 0.2
    dream_consolidation: float = 0.1
    memory_lines: int = 150
    compact_every: str = "never"
    share_usage: bool = True
    sync_remote: str = ""
    sync_every: str = "never"
    companions: tuple[str, ...] = ()

    @property
    def generated(self) -> tuple[str, ...]:
        """The files that vaultmem writes into the vault because of its settings."""
        own = () if self.context_file in {"", "none"} else (self.context_file,)
        if not (self.extra_packs or self.inject_context_into):
            return own
        from vaultmem.core.packs.context_file import list_paths

        packs, paths = list_paths(self.extra_packs, self.inject_context_into)
        return (*own, *packs, *(each for each in paths if _matches(each, self.ignore)))

    def ignores(self, path: str) -> bool:
        """Return whether a path itself is ignored; its parent folders are not checked."""
        return path in self.generated or (bool(self.ignore) and _matches(path, self.ignore))

    def is_ignored(self, path: str) -> bool:
        """Return whether a path or one of its parent folders is ignored."""
        if not (self.ignore or self.generated):
            return False
        parts = path.split("/")
        return any(self.ignores("/".join(parts[: n + 1])) for n in range(len(parts)))

    def allows_secrets(self, path: str) -> bool:
        """Return whether this note can contain text that looks like a credential."""
        return _matches(path, self.allow_secrets)


#: Every key with its default; the default's type is the key's type.
_DEFAULTS = Config()._asdict()

#: The new name of each renamed key. The old name works, and `doctor` prints the new one.
NEW_KEY_NAMES = {
    "archive_after": "archive_after_days",
    "context": "default_context",
    "contexts": "extra_packs",
    "edit_commits": "commit_edits",
    "keep_in": "inject_context_into",
    "keywords_after": "keywords_after_days",
    "labels": "pack_labels",
    "promoters": "promoting_agents",
    "recency": "recency_weight",
    "related_above": "related_threshold",
    "rerank_seconds": "rerank_timeout_seconds",
    "results": "recall_limit",
    "share_evidence": "share_usage",
    "stale_after": "stale_after_days",
    "summary_after": "summary_after_days",
    "transcript_mb": "transcript_max_mb",
    "with": "companions",
}


def find_root(path: str | Path | None) -> Path:
    """Return `path`, or the nearest folder, from here up, that has a vaultmem.yaml.

    Raises:
        NoVaultError: there is no such folder.
    """
    if path:
        try:
            root = Path(path).expanduser().resolve()
            is_folder = root.is_dir()
        except (OSError, ValueError, RuntimeError) as error:  # No access, NUL, no home.
            reason = getattr(error, "strerror", None) or error
            raise NoVaultError(
                f"{path}: cannot be opened ({reason}); name another folder"
            ) from error
        if not is_folder:
            if root.exists():
                raise NoVaultError(f"{root}: not a folder; name the vault's folder")
            command = shlex.join(("vaultmem", "init", str(path)))
            raise NoVaultError(f"{root}: no such folder; make a vault with `{command}`")
        return root
    cwd = Path.cwd().resolve()
    if folder := find_around(cwd):
        return folder
    raise NoVaultError(
        f"{cwd}: no {CONFIG_NAME} here or above; run `vaultmem init`, or name a vault with --vault"
    )


def find_around(start: Path) -> Path | None:
    """Return the nearest folder, from `start` up, that has a vaultmem.yaml."""
    folders = (start, *start.parents)
    files = (folder / CONFIG_NAME for folder in folders)
    return next((file.parent for file in files if file.is_file() or file.is_symlink()), None)


def read_config(root: Path) -> Config:
    """Read a vault's vaultmem.yaml; return the defaults if the file is missing.

    Raises:
        VaultError: an unknown key, an invalid value, contradicting settings, invalid YAML, or a
            symbolic link.
    """
    file = root / CONFIG_NAME
    if file.is_symlink():  # Its target can be private, and errors quote settings.
        raise VaultError(
            f"{CONFIG_NAME}: a symbolic link, which is never followed; put the file itself there"
        )
    if not file.is_file():  # Reading a named pipe would block.
        return Config()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise VaultError(f"{CONFIG_NAME}: cannot be read ({error})") from error
    return parse_config(text)


def parse_config(text: str) -> Config:
    """Return the Config that the text of a vaultmem.yaml describes.

    Raises:
        VaultError: as for `read_config`.
    """
    config = _parse_keys(text)
    if problem := rules.find_contradiction(config._asdict()):
        raise VaultError(f"{CONFIG_NAME}: {problem}")
    return config


def list_renamed(root: Path) -> list[str]:
    """Return the retired names of settings that a vaultmem.yaml uses."""
    file = root / CONFIG_NAME
    text = file.read_text(encoding="utf-8-sig") if file.is_file() else ""
    return [each.name for each in _read_properties(_list_lines(text)) if each.name in NEW_KEY_NAMES]


def _list_lines(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and lines[0].rstrip() == "---":  # YAML's document start.
        del lines[0]
    return lines


def _parse_keys(text: str) -> Config:
    """Return the settings of a text, without checks across keys."""
    lines = _list_lines(text)
    if not lines:
        return Config()
    properties = _read_properties(lines)
    properties = [
        prop._replace(name=NEW_KEY_NAMES.get(prop.name, prop.name)) for prop in properties
    ]
    values = {prop.name: _read_value(prop) for prop in properties}
    for prop in properties:
        if prop.name in _LINES and _is_nested(prop, lines):
            raise VaultError(
                f'{CONFIG_NAME}: each item of "{prop.name}" must be one line of text; '
                "put each in double quotes"
            )
    config = Config(**{k: value for k, value in values.items() if value is not None})  # type: ignore[arg-type]
    _check_contexts(config)
    return config


def override(config: Config, settings: Iterable[str]) -> Config:
    """Return the settings with some replaced, each written as KEY=VALUE.

    Raises:
        RefusedError: a setting is malformed or invalid.
    """
    for setting in settings:
        name, _, value = map(str.strip, setting.partition("="))
        if not (name.isidentifier() and value) or len(setting.splitlines()) > 1:
            raise RefusedError(f'"{setting}": not a setting; write it as KEY=VALUE')
        try:
            changes = _parse_keys(f"{name}: {value}\n")
        except VaultError as error:
            raise RefusedError(str(error).replace(CONFIG_NAME, f'"{setting}"', 1)) from None
        name = NEW_KEY_NAMES.get(name, name)
        config = config._replace(**{name: changes._asdict()[name]})
    if problem := rules.find_contradiction(config._asdict()):
        raise RefusedError(problem)
    return config


def _check_contexts(config: Config) -> None:
    """Check that the settings for context files name files that vaultmem can write."""
    if not (config.extra_packs or config.inject_context_into or config.context_file):
        return
    from vaultmem.core.packs.context_file import check_context_file, check_keep_in, parse_contexts

    try:
        key = "extra_packs"
        parse_contexts(config.extra_packs)
        key = "context_file"
        if config.context_file not in {"", "none"}:
            check_context_file(config.context_file)
        key = "inject_context_into"
        check_keep_in(config.inject_context_into)
    except RefusedError as error:
        raise VaultError(f'{CONFIG_NAME}: "{key}": {error}') from None


def _is_nested(prop: Property, lines: list[str]) -> bool:
    """Return whether a list contains anything but one-line texts, which would be lost."""
    if prop.kind != "seq":
        return False
    text = "\n".join(lines[prop.first : prop.last]).partition(":")[2].strip()
    if not text.startswith("["):
        return not prop.items and text.startswith("-")
    bare = _QUOTED.sub("", text[1:-1])
    return any(mark in bare for mark in (": ", ":\n", "{", "["))


def _read_properties(lines: list[str]) -> list[Property]:
    """Return the keys as properties; YAML is imported only if a line is not plain."""
    plain = [_PLAIN_LINE.fullmatch(line) for line in lines]
    names = [match[1] for match in plain if match]
    if all(plain) and len(set(names)) == len(names):
        texts = [match[2] for match in plain if match]
        return [
            Property(name, text, "str", 0, 1, (0, 0), (), 0)
            for name, text in zip(names, texts, strict=True)
        ]
    from vaultmem.core.notes.frontmatter import read_frontmatter

    block = "\n".join(lines) + "\n"
    frontmatter = read_frontmatter(f"---\n{block}---\n")
    if problem := _find_problem(frontmatter, block):
        raise VaultError(f"{CONFIG_NAME}: {problem}; correct it or remove the file")
    return list(frontmatter.properties)


def _find_problem(frontmatter: Frontmatter, block: str) -> str:
    """Return why a text cannot be read as settings, or ""."""
    problem = frontmatter.problem or "; ".join(frontmatter.warnings)
    if problem:
        return problem.replace("the frontmatter", "it").replace("the property", "the key")
    if not frontmatter.body:
        return "it is not `key: value` lines"
    return "" if frontmatter.end == len("---\n" + block) else "it has more than one document"


def _read_value(prop: Property) -> object:
    """Return a key's value, None if it is empty."""
    if prop.name not in _DEFAULTS:
        suggestion = suggest_similar(
            prop.name, [*_DEFAULTS], f"; known keys: {', '.join(_DEFAULTS)}"
        )
        raise VaultError(f'{CONFIG_NAME}: unknown key "{prop.name}"{suggestion}')
    value_type = type(_DEFAULTS[prop.name])
    value = prop.value
    if prop.kind == "null":
        return None
    try:
        if prop.kind == "map":
            raise ValueError
        if value_type is tuple:
            return value if isinstance(value, tuple) else (value,) if value else ()
        if isinstance(value, tuple):
            raise ValueError
        if value_type is bool:
            return {"true": True, "false": False}[value.lower()]
        if value_type is int:
            return rules.whole(prop.name, int(value))
        if value_type is float:
            return rules.share(float(value))
    except (ValueError, KeyError):
        allowed_values = rules.describe_type(value_type, prop.name)
        refusal = f'{CONFIG_NAME}: "{prop.name}" cannot be "{value}"; it takes {allowed_values}'
        raise VaultError(refusal) from None
    if allowed_values := rules.find_misfit(prop.name, value):
        raise VaultError(
            f'{CONFIG_NAME}: "{prop.name}" cannot be "{value}"; it takes {allowed_values}'
        )
    return value


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(
        fnmatch.fnmatchcase(path, pattern) or path.startswith(pattern.rstrip("/") + "/")
        for pattern in patterns
    )
