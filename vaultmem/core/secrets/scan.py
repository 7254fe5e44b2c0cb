"""Find credentials in a text. A finding has line and rule, never the value."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from re import Match
from typing import NamedTuple

from vaultmem.core.secrets.rules import Allowlist, Rule, Rules, compile_regex, read_rules
from vaultmem.core.text.patterns import compile_later

#: A line with this mark is not reported.
ALLOW_MARK = "gitleaks:allow"


#: Characters to scan at once, and characters of context on both sides. The longest keys have about
#: 20,000 characters.
_WINDOW, _MARGIN = 1_000_000, 64_000

#: Characters that can split a credential: the backslash of a Markdown escape, and invisible
#: characters. Source: `Default_Ignorable_Code_Point` in Unicode's DerivedCoreProperties.txt.
_IGNORABLE_CHARS = compile_later(
    r"\\(?=[!-/:-@\[-`{-~])"
    "|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


#: The rule that matches names such as `pwd` only, so it also matches a meeting's password.
_BY_NAME = "generic-password"

#: The password in a meeting's link. It is not a credential, because everyone with the link has it.
#: The host must be that of the link itself, and the link must not be inside another one.
_MEETING_LINK = compile_later(
    r"(?<![^\s\[(<\"'`|*])https://(?:[a-z0-9-]{1,63}\.){0,4}"
    r"(?:zoom\.us|zoom\.com|zoomgov\.com|teams\.microsoft\.com|teams\.live\.com"
    r"|meet\.google\.com|meet\.jit\.si|webex\.com)/[\w.~%/+-]{0,200}"
    r"\?(?:[\w.~%+=;-]{1,200}&){0,20}(?:amp;)?(?:pwd|passcode)=([\w.~%+-]{1,64})(?![\w~%+/=:@-])",
    re.IGNORECASE | re.ASCII,
)


class SecretFinding(NamedTuple):
    """A text that looks like a credential: 1-based line, rule id, and character span."""

    line: int
    rule: str
    start: int
    end: int


def find_secrets(
    text: str,
    path: str = "",
    rules: Rules | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> list[SecretFinding]:
    """Return the texts that look like a credential, in order of lines.

    `path` is the file's path, for rules and exceptions that use it. `rules` defaults to the
    built-in rules. `report` is called with the name of each rule before it is used.
    """
    rules = rules or read_rules()
    findings: list[SecretFinding] = []
    lines = counted = 0
    for place, first, window in _split(text):
        lines, counted = lines + text.count("\n", counted, first), first
        for each in _find_in_window(window, path, rules, report, lines):
            start, end = each.start + first, each.end + first
            # A match that begins in another window is found there.
            if place <= start < place + _WINDOW:
                findings.append(each._replace(start=start, end=end))
    return sorted(findings)


def _split(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield windows of a text: start of the window, start with margin, and text with margins."""
    for place in range(0, max(len(text), 1), _WINDOW):
        first = max(0, place - _MARGIN)
        yield place, first, text[first : place + _WINDOW + _MARGIN]


def _find_in_window(
    text: str, path: str, rules: Rules, report: Callable[[str], object], lines: int
) -> list[SecretFinding]:
    """Return the findings of `find_secrets` in a window that has `lines` lines before it."""
    findings: list[SecretFinding] = []
    covered = bytearray(len(text))
    visible_text, places = drop_hidden(text)
    for each_text, positions in ((text, []), (visible_text, places))[: 1 + bool(places)]:
        for rule in find_candidates(each_text, rules):
            report(f'the rule "{rule.id}"')
            for each in apply_rule(rule, each_text, path, rules, lines):
                start = each.start + bisect_right(positions, each.start)
                end = each.end + bisect_left(positions, each.end)
                # Rules for a format come before rules for a name.
                if 1 not in covered[start:end] and (rule.regex or not positions):
                    covered[start:end] = b"\1" * (end - start)
                    findings.append(each._replace(start=start, end=end))
    return findings


def drop_hidden(text: str) -> tuple[str, list[int]]:
    """Return a text without hidden characters, and their places in the new text.

    Binary data (with NUL) is not changed, because such characters occur in it by chance.
    """
    hidden = [] if "\0" in text else [match.start() for match in _IGNORABLE_CHARS.finditer(text)]
    if not hidden:
        return text, []
    return _IGNORABLE_CHARS.sub("", text), [place - count for count, place in enumerate(hidden)]


def has_candidates(text: str, rules: Rules) -> bool:
    """Return whether a text, with or without its hidden characters, contains a rule's keyword."""
    return any(
        next(find_candidates(part, rules), None)
        for _, _, window in _split(text)
        for part in (window, drop_hidden(window)[0])
    )


def find_candidates(text: str, rules: Rules) -> Iterator[Rule]:
    """Yield the rules with a keyword in `text`, and those without keywords."""
    lower = text.lower()
    for rule in rules.rules:
        if not rule.keywords or any(word in lower for word in rule.keywords):
            yield rule


def apply_rule(
    rule: Rule, text: str, path: str, rules: Rules, lines: int = 0
) -> Iterator[SecretFinding]:
    """Yield the findings of a rule that no exception allows.

    `lines` is the number of lines before.
    """
    if rule.path and not compile_regex(rule.path).search(path):
        return
    if not rule.regex:
        yield SecretFinding(1, rule.id, 0, 0)
        return
    allowlists = [
        *rule.allowlists,
        *(a for a in rules.allowlists if rule.id in (a.rules or [rule.id])),
    ]
    if rule.id == _BY_NAME and "https://" in text:
        text = _MEETING_LINK.sub(_blank_password, text)
    line, counted = lines + 1, 0
    for match in compile_regex(rule.regex).finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        secret = _secret_of(rule, match)
        if rule.entropy and _entropy(secret) <= rule.entropy:
            continue
        whole = _lines_of(match)
        if (rules.mark and rules.mark in whole) or f"{path}:{rule.id}:{line}" in rules.ignored:
            continue
        texts = {"secret": secret, "match": match[0], "line": whole}
        if not any(_allows(each, path, texts) for each in allowlists):
            yield SecretFinding(line, rule.id, match.start(), match.end())


def mask_secrets(text: str) -> str:
    """Return a short text, such as a file name, with each credential replaced by `***`."""
    for finding in reversed(find_secrets(text)):
        text = f"{text[: finding.start]}***{text[finding.end :]}"
    return text


def _blank_password(meeting: Match[str]) -> str:
    """Return a meeting's link with each character of its password replaced by a form feed.

    The length is unchanged. No rule matches a form feed, but the rest of the link is still scanned.
    """
    start, end = (place - meeting.start() for place in meeting.span(1))
    return f"{meeting[0][:start]}{chr(12) * (end - start)}{meeting[0][end:]}"


def _secret_of(rule: Rule, match: Match[str]) -> str:
    if rule.group:
        return match[rule.group] or ""
    return next((group for group in match.groups() if group), match[0])


def _lines_of(match: Match[str]) -> str:
    """Return the whole lines that contain a match."""
    text = match.string
    end = text.find("\n", match.end())
    return text[text.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else len(text)]


def _allows(allowlist: Allowlist, path: str, texts: dict[str, str]) -> bool:
    target = texts.get(allowlist.target) or texts["secret"]
    secret = texts["secret"].lower()
    kinds = (
        (allowlist.paths, lambda each: compile_regex(each).search(path)),
        (allowlist.regexes, lambda each: compile_regex(each).search(target)),
        (allowlist.stopwords, lambda each: each in secret),
    )
    results = [any(map(applies, patterns)) for patterns, applies in kinds if patterns]
    return bool(results) and (all if allowlist.needs_all else any)(results)


def _entropy(text: str) -> float:
    """Return the Shannon entropy of a text's characters, in bits per character."""
    counts: Iterable[int] = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
