"""Divide a text into the sentences that are compared: paragraphs unwrapped, items on their own."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r"[ \t]*(?:[-*+>]|\d{1,9}[.)]|#{1,6}|\|)(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bca\.)(?<!\d\.)\s+(?=[^\sa-z])")
_GOES_ON = re.compile(r"(?i)(?:except|unless|but not|only if|apart from|außer|es sei denn)\b")

#: What `remember` writes behind a sentence that it adds: who said it.
SIGNATURE = re.compile(r"[ \t]*\*\([^()\n]{1,200}\)\*[ \t]*$")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text in order; one that limits the one before stays with it."""
    found: list[str] = []
    for block in _split_blocks(text):
        for sentence in _END.split(block):
            if found and _GOES_ON.match(sentence):
                found[-1] = f"{found[-1]} {sentence}"
            elif re.search(r"\w", sentence):
                found.append(sentence.strip())
    return found


def _split_blocks(text: str) -> Iterator[str]:
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        opening = _FENCE.match(line)
        if fence:
            block.append(line)
            if opening and opening[1].startswith(fence):
                yield "\n".join(block)
                block, fence = [], ""
            continue
        if opening or not line.strip() or _ITEM.match(line):
            if block:
                yield " ".join(block)
            block = []
        if opening:
            fence = opening[1]
        if line.strip():
            block.append(SIGNATURE.sub("", line).strip() if not fence else line)
    if block:
        yield ("\n" if fence else " ").join(block)
