"""A YAML file of the user's as plain values: mappings, lists, texts, numbers, booleans, None."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vaultmem.errors import VaultError

#: The longest file that is read, in bytes; PyYAML crashes on some larger ones.
_LONGEST = 64 * 1024


def read_yaml(file: Path) -> Any:
    """Return the one document of a YAML file, without aliases and tags.

    Raises:
        VaultError: the file is missing, too long, or not such YAML.
    """
    name = file.name
    try:
        with open(file, encoding="utf-8-sig") as opened:
            text = opened.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "") or "not UTF-8"
        raise VaultError(f"{file}: cannot be read ({why})") from error
    if len(text) > _LONGEST:
        raise VaultError(f"{name}: longer than {_LONGEST:,} characters; shorten it")
    try:
        if any(getattr(event, "anchor", None) for event in yaml.parse(text, yaml.SafeLoader)):
            raise VaultError(f"{name}: has an anchor or alias; write the value again instead")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise VaultError(f"{name}{where}: {getattr(error, 'problem', '') or error}") from None
    except (ValueError, RecursionError) as error:
        raise VaultError(f"{name}: not YAML that can be read ({error})") from None
