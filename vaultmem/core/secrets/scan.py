"""Look for credentials in a text. A finding names line and rule, never the value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from re import Match
from typing import NamedTuple

from vaultmem.core.secrets.rules import Allowlist, Rule, Rules, compile_regex, read_rules

#: On a line, it says that what is there is no credential, or may be there.
ALLOW_MARK = "gitleaks:allow"


class SecretFinding(NamedTuple):
    """A place that looks like a credential: 1-based line, the rule's id, and where in the text."""

    line: int
    rule: str
    start: int
    end: int


def find_secrets(
    text: str,
    path: str = "",
    rules: Rules | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> list[SecretFinding]:
    """Return what looks like a credential in `text`, in the order of lines.

    `path` is the file's, for rules and allowances that ask for it; without `rules` ours are used.
    `tell` gets the name of each rule before it is used.
    """
    rules = rules or read_rules()
    found: list[SecretFinding] = []
    for rule in find_candidates(text, rules):
        tell(f'the rule "{rule.id}"')
        for each in apply_rule(rule, text, path, rules):
            # Rules that know a form come before those that go by a name.
            if not any(each.start < other.end and other.start < each.end for other in found):
                found.append(each)
    return sorted(found)


def find_candidates(text: str, rules: Rules) -> Iterator[Rule]:
    """Yield the rules of which `text` holds a keyword, and those that have none."""
    lower = text.lower()
    for rule in rules.rules:
        if not rule.keywords or any(word in lower for word in rule.keywords):
            yield rule


def apply_rule(rule: Rule, text: str, path: str, rules: Rules) -> Iterator[SecretFinding]:
    """Yield what one rule finds and nothing allows."""
    if rule.path and not compile_regex(rule.path).search(path):
        return
    if not rule.regex:
        yield SecretFinding(1, rule.id, 0, 0)
        return
    allowlists = [
        *rule.allowlists,
        *(a for a in rules.allowlists if rule.id in (a.rules or [rule.id])),
    ]
    for match in compile_regex(rule.regex).finditer(text):
        line = text.count("\n", 0, match.start()) + 1
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
    """Return a short text, as a file's name, with each credential left out."""
    for found in reversed(find_secrets(text)):
        text = f"{text[: found.start]}***{text[found.end :]}"
    return text


def _secret_of(rule: Rule, match: Match[str]) -> str:
    if rule.group:
        return match[rule.group] or ""
    return next((group for group in match.groups() if group), match[0])


def _lines_of(match: Match[str]) -> str:
    """Return the whole lines in which a match stands."""
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
    told = [any(map(applies, given)) for given, applies in kinds if given]
    return bool(told) and (all if allowlist.needs_all else any)(told)


def _entropy(text: str) -> float:
    """Return the bits a character of a text has by how often each character is in it (Shannon)."""
    counts: Iterable[int] = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
