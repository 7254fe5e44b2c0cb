"""Credentials are recognised; what only looks like one is not. All values are made up here."""

from __future__ import annotations

import pytest

from vaultmem.core.secrets import SecretFinding, find_secrets

_LETTERS = "aZ7bY6cX5dW4eV3fU2gT"
#: Rule and value, put together at run time so that no scanner takes this file for a leak.
SECRETS = [
    ("private key", "-----BEGIN " + "PRIVATE KEY-----"),
    ("private key", "-----BEGIN OPENSSH " + "PRIVATE KEY-----"),
    ("private key", "-----BEGIN RSA " + "PRIVATE KEY-----"),
    ("private key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----"),
    ("AWS access key", "AKIA" + "ABCDEFGH234567XY"),
    ("AWS access key", "ASIA" + "ABCDEFGH234567XY"),
    ("AWS secret key", "aws_secret_access_key = " + _LETTERS * 2),
    ("AWS secret key", '"AWS_SECRET_ACCESS_KEY": "' + _LETTERS + "+" + "x" * 18 + '/"'),
    ("GitHub token", "ghp_" + _LETTERS + "x" * 16),
    ("GitHub token", "github_pat_" + _LETTERS * 4),
    ("GitLab token", "glpat-" + _LETTERS),
    ("Slack token", "xoxb-" + "1234567890-" + _LETTERS),
    ("Stripe key", "sk_live_" + _LETTERS),
    ("Google API key", "AIza" + _LETTERS + "x" * 15),
    ("Google API key", "AIza" + _LETTERS + "x" * 14 + "-"),
    ("Anthropic key", "sk-ant-" + "api03-" + _LETTERS),
    ("OpenAI key", "sk-" + _LETTERS * 2),
    ("OpenAI key", "sk-proj-" + _LETTERS + "-_" + _LETTERS),
    ("OpenAI key", "sk-or-v1-" + "0123456789abcdef" * 4),
    ("npm token", "npm_" + _LETTERS + "x" * 16),
    ("PyPI token", "pypi-" + "AgEIcHlwaS5vcmc" + _LETTERS),
    ("signed JSON Web Token", ".".join(["eyJ" + _LETTERS, "eyJ" + _LETTERS, _LETTERS * 2])),
    ("password in a URL", "postgres://app:" + "hunter2hunter2" + "@db.internal/app"),
    ("password in a URL", "https://bot:" + "p%40ssw0rd" + "@example.org"),
]
LOOK_ALIKES = [
    "commit 9f8e7d6c5b4a39281706f5e4d3c2b1a098765432 and 77aa01c",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "![](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4)",
    "http://localhost:8080/path and https://example.org:443/a@b and ws://[::1]:9000/x",
    "https://user@example.org and ssh://git@host:22/repo and git@github.com:org/repo.git",
    "postgres://app:${DB_PASSWORD}@db/app and https://bot:<token>@host and x://u:****@host",
    "sk-learn, task-runner, and notes/ml/sk-learn-pipeline-for-customer-churn-prediction.md",
    "risk-" + "a" * 40 + " and disk-" + "B7" * 20,
    "AKIA is the prefix; AKIA1234 is too short; XAKIA" + "ABCDEFGH234567XY" + "Z",
    "the aws secret is in the vault: ask the owner for it",
    "ghp_ tokens, gho_x, npm_config_cache, pypi-server, xoxb-, glpat-short, eyJ, eyJhbGciOi.x.y",
    "-----BEGIN " + "PUBLIC KEY-----\n-----BEGIN CERTIFICATE-----",
    "Stripe's sk_test_" + _LETTERS + " is for tests",
]


@pytest.mark.parametrize(("rule", "value"), SECRETS)
def test_credential_is_found_wherever_it_stands(rule: str, value: str) -> None:
    for text in (value, f"key: {value}", f"`{value}`", f"({value}), and more", f'"{value}"'):
        assert rule in {finding.rule for finding in find_secrets(f"one\n\n{text}\nend")}, text


@pytest.mark.parametrize(("rule", "value"), SECRETS)
def test_finding_names_the_line_and_never_the_value(rule: str, value: str) -> None:
    findings = find_secrets(f"one\r\ntwo\nthree {value}\n")
    assert SecretFinding(3, rule) in findings
    assert all(value not in repr(finding) for finding in findings)
    assert all(part not in repr(findings) for part in value.split() if len(part) > 12)


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_credential_is_left_alone(text: str) -> None:
    assert find_secrets(text) == []


def test_findings_are_in_the_order_of_lines() -> None:
    text = "\n".join(value for _, value in reversed(SECRETS))
    lines = [finding.line for finding in find_secrets(text)]
    assert lines == sorted(lines)
    assert len(set(lines)) == len(SECRETS)


@pytest.mark.parametrize(
    "piece",
    ["-eyJ" + "a" * 10, "eyJ" + "a" * 10 + ".", "aws secret ", "sk-", "x://a:", "-----BEGIN A "],
)
def test_a_megabyte_of_near_misses_takes_time_that_grows_with_it(piece: str) -> None:
    assert (
        find_secrets(piece * (1_000_000 // len(piece))) == []
    )  # Quadratic, it would take minutes.
