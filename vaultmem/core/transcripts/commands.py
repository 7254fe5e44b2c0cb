"""What the commands of a session were for: which are worth telling, and how they ended."""

from __future__ import annotations

import re

from vaultmem.core.transcripts.event import Event

#: Programs that only look; of git, what it only looks with, or is told of otherwise.
_LOOKS = """
awk basename cat cd column cut date df diff dirname du echo env exa false fd file find grep head
hexdump id jq less ls nl open ps pwd read realpath rg sed sleep sort stat tail tee test tr tree true
type uname uniq wc wait whereis which whoami xargs xxd yq [
"""
_GIT_LOOKS = """
add blame branch cat-file commit diff fetch grep log ls-files ls-tree rev-parse rm show status
"""
_LOOKING = frozenset(_LOOKS.split())
_GIT_LOOKING = frozenset(_GIT_LOOKS.split())
_PARTS = re.compile(r"\s*(?:&&|\|\||;|\||\n)\s*")
_LEAD = re.compile(
    r"^(?:cd [^&;|\n]+(?:&&|;)\s*|[A-Z_][A-Z0-9_]*=\S*\s+|(?:sudo|time|command)\s+)+"
)
_TAIL = re.compile(r"(?:\s*2>&1|\s*\|\s*(?:tail|head|cat|tee|grep|sed)\b[^|;&]*|\s*<<.*)+$", re.S)
_SUBJECT = re.compile(r"""\bcommit\b[^\n]*?\s-a?m\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_COMMITTED = re.compile(r"^\[[^\]\n]*?\b([0-9a-f]{7,40})\] (.+)$", re.MULTILINE)
_REMOVES = re.compile(r"(?:^|&&|;|\n)\s*(?:git )?rm\s+([^&;|\n]+)")
#: What says in an output that not all went well, though the command itself ended well.
_TROUBLE = re.compile(
    r"^(?:FAILED |FAIL |E {3}|ERROR\b)|\b[1-9]\d* (?:failed|failures?|errors?)\b|\berror\b", re.M
)
_NAMED = re.compile(r"^(?:FAILED|FAIL|ERROR)[: ]+(\S+)", re.MULTILINE)
_CAUSE = re.compile(r"(?i)\b(?:error|failed|fatal|not found|no such|cannot)\b|\b[EWF]\d{3}\b")
_LONGEST = 160


def name_command(command: str) -> str:
    """Return a command as it is told: its first line, without what only shapes its output."""
    bare = _TAIL.sub("", _LEAD.sub("", command.strip())).strip()
    line = next((each for each in bare.splitlines() if each.strip()[:1] not in {"", "#"}), "")
    return " ".join(line.split())[:_LONGEST]


def is_worth_telling(command: str) -> bool:
    """Tell whether a command does more than look around."""
    parts = (_LEAD.sub("", part).split() for part in _PARTS.split(command.strip()))
    return any(
        words
        and words[0] not in _LOOKING
        and not (words[0] == "git" and (words[1:2] or [""])[0] in _GIT_LOOKING)
        for words in parts
    )


def find_commits(command: str, output: str) -> list[tuple[str, str]]:
    """Return what a command committed: (hash, subject), the hash "" where git did not say it."""
    if not re.search(r"\bgit\b.*\bcommit\b", command):
        return []
    found = [(commit, subject.strip()) for commit, subject in _COMMITTED.findall(output)]
    quoted = _SUBJECT.search(command)
    if not found and quoted and re.search(r"\s(?:-q|--quiet)\b", command):
        found = [("", (quoted[1] or quoted[2]).split("\n")[0].strip())]
    return [(commit[:10], subject) for commit, subject in found if subject]


def find_removed(command: str) -> list[str]:
    """Return the files that a command removes by name."""
    words = (word for given in _REMOVES.findall(command) for word in given.split())
    return [word.strip("\"'") for word in words if not re.search(r"^-|[*?$`(){}<>]", word)]


def find_trouble(result: Event) -> str:
    """Return the line that says what went wrong; "" where nothing did, as far as is told."""
    text = result.text
    tail = text[-4_000:]
    is_bad = result.is_error or bool(result.exit)
    if not is_bad and not _TROUBLE.search(tail):
        return ""
    named = list(dict.fromkeys(_NAMED.findall(tail)))
    if named:
        return " ".join(named[:3])[:_LONGEST] + (f" and {len(named) - 3} more" * (len(named) > 3))
    lines = [" ".join(line.split()) for line in tail.splitlines() if line.strip()]
    if not is_bad:
        counts = [each for each in lines[-6:] if re.search(r"\b[1-9]\d* (?:failed|fail|err)", each)]
        return counts[-1][:_LONGEST] if counts else ""
    shown = next((each for each in lines if _CAUSE.search(each)), lines[-1] if lines else "")
    return shown[:_LONGEST] or "it failed"
