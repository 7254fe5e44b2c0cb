"""Read YAML files within limits, and find secrets with a vault's own rules."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from vaultmem.core.secrets.rules import (
    IGNORE_NAME,
    SETTINGS_NAME,
    Rules,
    SecretSettings,
    check_settings,
    extend_rules,
    parse_settings,
)
from vaultmem.core.secrets.scan import (
    ALLOW_MARK,
    SecretFinding,
    find_secrets,
    has_candidates,
)
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.files import UnsafeFileError, read_file

#: The longest file that is read, in characters; PyYAML crashes on some longer ones.
_MAX_FILE_CHARS = 64 * 1024


def read_yaml(file: Path) -> Any:
    """Return the one document of a YAML file, without aliases and tags.

    Raises:
        VaultError: the file is missing, too long, or not such YAML.
    """
    import yaml  # Imported late: most users of this module read no YAML.

    name = file.name
    try:
        with open(file, encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_FILE_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "not UTF-8"
        raise VaultError(f"{file}: cannot be read ({reason})") from error
    if len(text) > _MAX_FILE_CHARS:
        raise VaultError(f"{name}: longer than {_MAX_FILE_CHARS:,} characters; shorten it")
    try:
        if any(getattr(event, "anchor", None) for event in yaml.parse(text, yaml.SafeLoader)):
            raise VaultError(f"{name}: has an anchor or alias; write the value again instead")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f", line {mark.line + 1}" if mark is not None else ""
        raise VaultError(f"{name}{location}: {getattr(error, 'problem', '') or error}") from None
    except (ValueError, RecursionError) as error:
        raise VaultError(f"{name}: not YAML that can be read ({error})") from None


# A vault's rules for secrets: its `.gitleaks.toml` and `.gitleaksignore`.
#
# Python cannot stop a running regular expression, and one in a vault from another person could run
# for years. So a vault's regular expressions run in a process of their own with a timeout: this
# module, run as a program, reads texts from standard input and writes its findings.

#: Timeout of a vault's rules in seconds, and extra seconds for each million characters.
_SECONDS = 10
_SECONDS_A_MILLION = 5

#: A path and a text.
Text = tuple[str, str]


def find_in_texts(
    root: Path, texts: Sequence[Text], mark: str = ALLOW_MARK
) -> list[list[SecretFinding]]:
    """Return the secrets found in each text, by our rules and those of the vault.

    A line with `mark` is allowed; an empty mark allows none.

    Raises:
        RefusedError: the vault's rules cannot be used, or take too long.
    """
    settings_text, settings = _read_settings(root)
    ignored = parse_ignored(_read(root, IGNORE_NAME))
    rules = extend_rules(settings, ignored, mark)
    if not settings.has_regexes:
        return [find_secrets(text, path, rules) for path, text in texts]
    own_rules = extend_rules(SecretSettings(disabled=settings.disabled), (), mark)
    suspects = [n for n, text in enumerate(texts) if _is_suspect(text, own_rules, settings)]
    findings: list[list[SecretFinding]] = [[] for _ in texts]
    suspect_texts = [texts[n] for n in suspects]
    for n, each in zip(
        suspects,
        _ask(settings_text, ignored, mark, suspect_texts) if suspect_texts else (),
        strict=True,
    ):
        findings[n] = each
    return findings


def check_rules(root: Path) -> None:
    """Check that a vault's rules can be used.

    Raises:
        RefusedError: a rule cannot be used; the message names it.
    """
    settings_text, settings = _read_settings(root)
    if settings.has_regexes:
        _ask(settings_text, (), "", [])


def parse_ignored(text: str) -> tuple[str, ...]:
    """Return the entries of a `.gitleaksignore` as path:rule:line.

    An entry with a commit, commit:path:rule:line, is returned without it too, because the owner
    knows the finding. A path can contain a colon or a number sign.
    """
    whole = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]
    lines = [*whole, *(line.partition("#")[0].strip() for line in whole if "#" in line)]
    entries = [line for line in lines if line.count(":") >= 2]
    return (*entries, *(":".join(line.split(":")[-3:]) for line in entries if line.count(":") > 2))


def _is_suspect(text: Text, own_rules: Rules, settings: SecretSettings) -> bool:
    """Return whether a vault's rules might find secrets in a text, or ours do."""
    vault_rules = Rules(settings.rules)
    return has_candidates(text[1], vault_rules) or bool(find_secrets(text[1], text[0], own_rules))


def _read_settings(root: Path) -> tuple[str, SecretSettings]:
    text = _read(root, SETTINGS_NAME)
    try:
        return text, parse_settings(text) if text else SecretSettings()
    except ValueError as error:
        raise RefusedError(f"{SETTINGS_NAME}: {error}; correct it") from None


def _read(root: Path, name: str) -> str:
    """Return a file's text, empty if it does not exist; links are not followed."""
    try:
        return read_file(root, PurePosixPath(name)).decode("utf-8", "replace")
    except NoteNotFoundError:
        return ""
    except UnsafeFileError as error:
        raise RefusedError(f"{error}; replace or remove it") from None


def _ask(
    settings: str, ignored: Iterable[str], mark: str, texts: Sequence[Text]
) -> list[list[SecretFinding]]:
    """Return the secrets that the other process finds in each text."""
    import subprocess

    seconds = _SECONDS + _SECONDS_A_MILLION * sum(len(text) for _, text in texts) // 1_000_000
    request = {"settings": settings, "ignored": list(ignored), "mark": mark, "texts": texts}
    # -P: the current folder can be a vault with a folder named `vaultmem`.
    command = [sys.executable, "-P", "-m", __name__]
    try:
        process = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, timeout=seconds
        )
        answer: Any = json.loads(process.stdout)
    except subprocess.TimeoutExpired as error:
        last = (error.stderr or b"").decode("utf-8", "replace").rpartition("\t")[2]
        raise RefusedError(
            f"{SETTINGS_NAME}: {last or 'its rules'}: still at work after {seconds} seconds; "
            "simplify its regex, or take it out"
        ) from None
    except (OSError, ValueError):
        raise RefusedError(f"{SETTINGS_NAME}: its rules cannot be used; try without it") from None
    if "problem" in answer:
        raise RefusedError(f"{SETTINGS_NAME}: {answer['problem']}; correct it")
    return [[SecretFinding(*each) for each in findings] for findings in answer["found"]]


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the findings of the vault's rules and ours (in the other process)."""
    settings = parse_settings(request["settings"])
    try:
        _describe("the rules' regexes")
        check_settings(settings)
    except ValueError as error:
        return {"problem": str(error)}
    rules = extend_rules(settings, request["ignored"], request["mark"])
    return {
        "found": [find_secrets(text, path, rules, _describe) for path, text in request["texts"]]
    }


def _describe(name: str) -> None:
    """Write the running rule's name to standard error, for the message of a timeout."""
    sys.stderr.write(f"\t{name}")
    sys.stderr.flush()


if __name__ == "__main__":
    json.dump(_answer(json.load(sys.stdin)), sys.stdout)
