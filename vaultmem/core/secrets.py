"""Rules that recognise credentials, so that none enters a memory.

Each rule is a published token format with a fixed prefix or frame: no entropy guess, hence
next to no false alarm. A finding names rule and line, never the value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_RULES: tuple[tuple[str, str], ...] = (
    ("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("AWS access key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    (
        "AWS secret key",
        r"(?i)aws.{0,20}?secret.{0,20}?[=:]\s*[\"']?[A-Za-z0-9/+]{40}(?![\w/+])",
    ),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{60,})\b"),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("Slack token", r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
    ("Stripe key", r"\b[rs]k_live_[A-Za-z0-9]{16,}"),
    ("Google API key", r"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    ("OpenAI key", r"\bsk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{32,})"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    ("signed JSON Web Token", r"(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}"),
    ("password in a URL", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{1,64}:[^\s:/@<>{}$*]{6,64}@[\w.-]"),
)
#: Every rule's frame holds one of these, so most texts are cleared by plain searches.
_HINTS = (
    *("PRIVATE KEY", "AKIA", "ASIA", "ABIA", "ACCA", "gh", "github_pat_", "glpat-", "xox"),
    *("k_live_", "AIza", "sk-", "npm_", "pypi-", "eyJ", "://"),
)


class SecretFinding(NamedTuple):
    """A place that looks like a credential: 1-based line and the rule's name."""

    line: int
    rule: str


def find_secrets(text: str) -> list[SecretFinding]:
    """Return what looks like a credential in `text`, in the order of lines."""
    if not any(hint in text for hint in _HINTS) and "secret" not in text.lower():
        return []
    found = {
        SecretFinding(text.count("\n", 0, match.start()) + 1, name)
        for name, pattern in _RULES
        for match in re.finditer(pattern, text)
    }
    return sorted(found, key=lambda finding: (finding.line, finding.rule))
