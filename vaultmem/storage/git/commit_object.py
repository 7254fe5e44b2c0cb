"""Commit objects read from their bytes, so that every program reads the same author in them.

Git's own programs do not agree on a commit with two authors: some read the first, some the last.
So only the form that git writes is accepted. Source: `git help fsck`, and `commit.c` in git.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

#: Parents of a commit. Vaultmem merges two; git's old limit was 16, and the work grows with each.
MAX_PARENTS = 8

#: Headers after the committer, and how often each may be there: one `mergetag` for each parent.
_HEADERS = {
    "encoding": 1,
    "mergetag": MAX_PARENTS,
    "gpgsig": 1,
    "gpgsig-sha256": 1,
    "change-id": 1,  # Of jj and GitButler.
}

#: Encodings in which the bytes of ASCII mean ASCII.
_ENCODING = re.compile(r"(?i)utf-?8|us-ascii|iso-?8859-?\d+|latin-?1|(windows-|cp)125\d|koi8-[ru]")

_OBJECT = re.compile("[0-9a-f]{40}")
#: Control characters, line breaks of Unicode, and marks that reverse the direction of a text.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
_SIGNATURE = re.compile(
    rf"([^<>\ufffd{_UNSAFE}]*) <([^<>\ufffd{_UNSAFE}]*)> ([0-9]{{1,20}} [+-][0-9]{{4}})"
)
_UNREADABLE = re.compile(rf"[\ufffd{_UNSAFE}]")
_CONTINUED = re.compile(r"\n +")
_AGENT = re.compile(r"(?im)^Agent-Id[ \t]*:[ \t]*(.*(?:\n[ \t]+\S.*)*)$")

_AGAIN = "make it again with git (`git rebase --force-rebase`)"
_REWORD = "reword it (`git rebase -i`)"
_UTF_8 = "set `git config i18n.commitEncoding utf-8`, and commit again"


class MalformedCommitError(ValueError):
    """A commit that is not as git writes it: the text says why, and `remedy` what helps."""

    def __init__(self, why: str, remedy: str = _AGAIN) -> None:
        super().__init__(why)
        self.remedy = remedy


class Signature(NamedTuple):
    """An author or committer; `date` is seconds since the epoch and a zone (`1794000000 +0200`)."""

    name: str
    email: str
    date: str


class CommitObject(NamedTuple):
    """A commit's parts; `agents` are those that its message names by `Agent-Id`.

    `text` is all of it, and `message` its end.
    """

    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    agents: tuple[str, ...]
    message: str
    text: str


def parse_commit(data: bytes) -> CommitObject:
    """Read a commit: one tree, its parents, one author, one committer, known headers, a message.

    Raises:
        MalformedCommitError: it is anything else.
    """
    head, divided, _ = data.partition(b"\n\n")
    if b"\0" in data:
        raise MalformedCommitError("has a NUL byte, and programs differ in what they read after it")
    text = _decode(data, _find_encoding(head))
    lines = _CONTINUED.sub(" ", text.partition("\n\n")[0]).split("\n")
    rows = [(name, value) for name, _, value in (line.partition(" ") for line in lines)]
    if not divided or rows[0][0] != "tree" or not _OBJECT.fullmatch(rows[0][1]):
        raise MalformedCommitError("does not begin with one tree, or has no end of its headers")
    count = 1
    while count < len(rows) and rows[count][0] == "parent":
        count += 1
    parents = tuple(value for _, value in rows[1:count])
    if not all(map(_OBJECT.fullmatch, parents)):
        raise MalformedCommitError("has a parent that is not the name of a commit")
    if len(parents) > MAX_PARENTS or len(set(parents)) < len(parents):
        why = f"has {len(parents)} parents; {MAX_PARENTS} different ones are the most here"
        raise MalformedCommitError(why, "merge them one after another")
    author, committer = (
        _read_signature(role, rows[place : place + 1])
        for place, role in enumerate(("author", "committer"), count)
    )
    _check_headers([name for name, _ in rows[count + 2 :]])
    message = text.partition("\n\n")[2]
    return CommitObject(parents, author, committer, _find_agents(message), message, text)


def _find_agents(message: str) -> tuple[str, ...]:
    """Return the agents that a message names, also before its trailers.

    Programs differ in which paragraph is that of the trailers.
    """
    named = [" ".join(match.split()) for match in _AGENT.findall(message)]
    if any(map(_UNREADABLE.search, named)):
        raise MalformedCommitError("names an agent in characters that cannot be read", _REWORD)
    return tuple(dict.fromkeys(filter(None, named)))


def _find_encoding(head: bytes) -> str:
    """Return the encoding that headers name, "utf-8" where they name none.

    Raises:
        MalformedCommitError: it may hide what a text says.
    """
    named = re.search(rb"\nencoding ?(.*)", head)
    if named is None:
        return "utf-8"
    name = named[1].decode("ascii", "replace")
    if _ENCODING.fullmatch(name):
        try:
            return codecs.lookup(name).name
        except LookupError:
            pass
    raise MalformedCommitError(f'says that its text is in the encoding "{name[:40]}"', _UTF_8)


def _decode(data: bytes, encoding: str) -> str:
    """Return the text of a commit, which must not mean something else in UTF-8."""
    if encoding in {"utf-8", "ascii"} or data.isascii():
        return data.decode("utf-8", "replace")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode(encoding, "replace")
    raise MalformedCommitError(f"says that its text is {encoding}, and it is UTF-8", _UTF_8)


def _read_signature(role: str, row: list[tuple[str, str]]) -> Signature:
    if not row or row[0][0] != role:
        raise MalformedCommitError(f"has no {role} where git writes it")
    match = _SIGNATURE.fullmatch(row[0][1])
    if match is None:
        raise MalformedCommitError(f"has an {role} that cannot be read".replace("an c", "a c"))
    return Signature(match[1], match[2], match[3])


def _check_headers(names: list[str]) -> None:
    for name in names:
        if name in {"tree", "parent", "author", "committer"}:
            why = f"has a second {name}, and programs differ in which they read"
            raise MalformedCommitError(why)
        if name not in _HEADERS:
            raise MalformedCommitError(f'has the header "{name[:40]}", which git does not write')
        if names.count(name) > _HEADERS[name]:
            raise MalformedCommitError(f'has the header "{name}" more than once')
