"""The texts of `vaultmem help TOPIC`: one screen for each concept."""

from __future__ import annotations

import os

_FOLDER = os.path.dirname(__file__)
_END = ".txt"

#: The file of all settings; it is too long for a topic.
_SETTINGS = "vaultmem.yaml"


def list_topics() -> list[str]:
    """Return the topics' names."""
    return sorted(name.removesuffix(_END) for name in os.listdir(_FOLDER) if name.endswith(_END))


def read_topic(word: str) -> str:
    """Return the text of a topic, named in full or by one of its words; "" if none matches."""
    topics = list_topics()
    if word == _SETTINGS:
        with open(os.path.join(_FOLDER, _SETTINGS), encoding="utf-8") as file:
            return file.read()
    matches = [word] if word in topics else [each for each in topics if word in each.split("-")]
    if len(matches) != 1:
        return ""
    with open(os.path.join(_FOLDER, matches[0] + _END), encoding="utf-8") as file:
        return file.read()
