"""Credentials are recognised; what only looks like one is not. All values are made up here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from core.credentials import CREDENTIALS, UNSEEN
from vaultmem.core.secrets import rules
from vaultmem.core.secrets.rules import SecretSettings, extend_rules, read_rules
from vaultmem.core.secrets.scan import ALLOW_MARK, find_secrets, mask_secrets

RULES = Path(rules.__file__).with_name("rules.toml")
_LETTERS = "aZ7bY6cX5dW4eV3fU2gT"
KEYS = [f"{name}PRIVATE " + "KEY" for name in ("", "OPENSSH ", "RSA ", "ENCRYPTED ")]
KEYS += ["PGP PRIVATE " + "KEY BLOCK"]
#: Rule and value, put together at run time so that no scanner takes this file for a leak.
SECRETS = [
    *(("private-key", f"-----BEGIN {name}-----\n{_LETTERS * 3}\n") for name in KEYS),
    ("aws-access-token", "AKIA" + "ABCDEFGH234567XY"),
    ("aws-access-token", "ASIA" + "ABCDEFGH234567XY"),
    ("aws-secret-key", "aws_secret_access_key = " + _LETTERS * 2),
    ("aws-secret-key", '"AWS_SECRET_ACCESS_KEY": "' + _LETTERS + "+" + "x" * 18 + '/"'),
    ("github-pat", "ghp_" + _LETTERS + "x" * 16),
    ("github-fine-grained-pat", "github_pat_" + _LETTERS * 4),
    ("gitlab-pat", "glpat-" + _LETTERS),
    ("vaultmem-hub-token", "vmhub_" + _LETTERS * 2 + "_-x"),
    ("slack-token", "xoxb-" + "1234567890-" + _LETTERS),
    ("stripe-access-token", "sk_live_" + _LETTERS),
    ("gcp-api-key", "AIza" + _LETTERS + "x" * 15),
    ("gcp-api-key", "AIza" + _LETTERS + "x" * 14 + "-"),
    ("anthropic-api-key", "sk-ant-" + "api03-" + _LETTERS),
    ("openai-api-key", "sk-" + _LETTERS * 2),
    ("openai-api-key", "sk-proj-" + _LETTERS + "-_" + _LETTERS),
    ("openai-api-key", "sk-or-v1-" + "0123456789abcdef" * 4),
    ("npm-access-token", "npm_" + _LETTERS + "x" * 16),
    ("pypi-upload-token", "pypi-" + "AgEIcHlwaS5vcmc" + _LETTERS),
    ("jwt", ".".join(["eyJ" + _LETTERS, "eyJ" + _LETTERS, _LETTERS * 2])),
    ("password-in-url", "postgres://app:" + "hunter2hunter2" + "@db.internal/app"),
    ("password-in-url", "https://bot:" + "p%40ssw0rd" + "@example.org"),
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
    *(f"a file that begins with -----BEGIN {name}----- is one" for name in KEYS),
    *(f"-----BEGIN {name}-----\n...\n-----END {name}-----" for name in KEYS),
    "PublicKeyToken=b77a5c561934e089, max_tokens=128000 and tokenizer: cl100k_base",
    "token = get_token_from_file2() and password = os.environ['DB_PASSWORD2']",
    "password: see ~/.pgpass2 and token: notes/2024/tokens-2.md; secret: op://team/db2/password",
    "api_key: your-api-key-0123456789 and token: <token1> and password=hunter",
    "redis://:password@cache/0 and https://user:pass@host/x and amqp://guest:guest@localhost/",
    "AKIA" + "X" * 16 + " and sk_live_" + "x" * 24 + " and ghp_" + "0" * 36,
    "curl -u user:password https://x.example and curl -u $USER:$PASS1 https://x.example",
    "Authorization: Bearer <token> and Authorization: Bearer $TOKEN_2_OF_THE_SERVICE",
]


#: A meeting's password and a credential, put together as those above are.
_PWD, _OTHER = _LETTERS + "T09", "hunter" + "2Hunter2x"

MEETINGS = [
    f"[zoom link](https://zoom.us/j/91655551234?pwd={_PWD})",
    f"https://us02web.zoom.us/j/123?pwd={_PWD}.1#success",
    f"<https://crew.webex.com/meet/j.php?MTID=m1&passcode={_PWD}>",
    f"https://teams.microsoft.com/l/meetup-join/x?a=b&pwd={_PWD}",
    f"Join https://ZOOM.us/j/1?a=1&amp;PWD={_PWD}&omn=93123, at nine.",
    f"https://meet.google.com/abc-defg-hij?pwd={_PWD}",
]
NO_MEETINGS = [
    f"https://zoom.us.example.net/j/1?pwd={_PWD}",
    f"https://notzoom.us/j/1?pwd={_PWD}",
    f"https://zoom.us@example.net/j?pwd={_PWD}",
    f"https://zoom.us\\@example.net/?pwd={_PWD}",
    f"https://example.net/zoom.us/?pwd={_PWD}",
    f"https://example.net/?next=https://zoom.us/j/1?pwd={_PWD}",
    f"https://zoom.us/j/1#pwd={_PWD}",
    f"http://zoom.us/j/1?pwd={_PWD}",
    f"zoom.us pwd={_PWD}",
    f"https://zoom.us/j/1?pwd={_PWD * 4}",
    f"https://zoom.us/j/1?pwd={_PWD}&access_token={_LETTERS}",
    f"https://zoom.us/j/1?pwd={_PWD}&password={_OTHER}",
    f"https://zoom.us/j/1?pwd={_PWD}%20 password: {_OTHER}",
    f"https://zoom.us/j/1?token={_LETTERS}",
    "https://zoom.us/j/1?pwd=" + "ghp_" + _LETTERS + "x" * 16,
    f"https://host:{_OTHER}@zoom.us/j/1?pwd={_PWD}",
]


@pytest.mark.parametrize("link", MEETINGS)
def test_a_meetings_password_in_its_link_is_no_credential(link: str) -> None:
    assert find_secrets(f"# Crew\n\n{link}\n") == []


@pytest.mark.parametrize("link", NO_MEETINGS)
def test_any_other_credential_in_or_near_a_meetings_link_is_one(link: str) -> None:
    assert {found.line for found in find_secrets(f"# Crew\n\n{link}\n")} == {3}


@pytest.mark.parametrize(("rule", "value"), SECRETS)
def test_credential_is_found_wherever_it_stands(rule: str, value: str) -> None:
    for text in (value, f"key: {value}", f"`{value}`", f"({value}), and more", f'"{value}"'):
        assert rule in {finding.rule for finding in find_secrets(f"one\n\n{text}\nend")}, text


@pytest.mark.parametrize(("rule", "value"), SECRETS)
def test_finding_names_the_line_and_never_the_value(rule: str, value: str) -> None:
    findings = find_secrets(f"one\r\ntwo\nthree {value}\n")
    assert (3, rule) in {(each.line, each.rule) for each in findings}
    assert all(value not in repr(finding) for finding in findings)
    assert all(part not in repr(findings) for part in value.split() if len(part) > 12)


@pytest.mark.parametrize(("name", "text"), CREDENTIALS, ids=[name for name, _ in CREDENTIALS])
def test_well_formed_credential_is_found(name: str, text: str) -> None:
    assert find_secrets(f"A note about {name}.\n\n{text}\n\nThe end.\n")


#: What rich text, and whoever wants to hide it, writes into a credential.
HIDING = {
    "escaped": lambda text: re.sub(r"([_\-.~*+=#!|])", r"\\\1", text),
    "soft hyphens": lambda text: "\u00ad".join(text),
    "no width": lambda text: re.sub(r"(?s)(.{7})", "\\1\u200b", text),
    "selectors": lambda text: text[:9] + "\ufe0f\U000e0101" + text[9:],
}


@pytest.mark.parametrize("how", HIDING)
def test_credential_is_found_with_marks_inside_that_are_not_shown(how: str) -> None:
    missed = {
        name
        for name, text in CREDENTIALS
        if not find_secrets(f"A note.\n\n{HIDING[how](text)}\n\nThe end.\n")
    }
    assert not missed


def test_hidden_credential_is_named_by_its_place_in_the_text() -> None:
    token = "ghp_" + "k3Xw9Lq2Zr7Tb5Vn8Hd4Jf6Ms1Pc0Gy2Ua3E"
    hidden = token.replace("_", "\\_")
    text = f"1\\_000\n\u00ad{hidden}, and \u200bmore\n"
    (found,) = find_secrets(text)
    assert (found.line, text[found.start : found.end]) == (2, hidden)
    assert mask_secrets(text) == text.replace(hidden, "***")
    allowing = extend_rules(SecretSettings(), (), ALLOW_MARK)
    assert not find_secrets(f"{hidden} gitleaks:allow", rules=allowing)


def test_marks_beside_a_text_make_no_credential_of_it() -> None:
    for text in LOOK_ALIKES:
        assert find_secrets(text.replace(" ", "\u00ad \u200b")) == []


@pytest.mark.campaign
@pytest.mark.parametrize("place", [999_970, 999_999, 1_000_000, 1_050_000, 2_100_000])
def test_long_text_is_looked_through_to_its_end(place: int) -> None:
    token = "ghp_" + "k3Xw9Lq2Zr7Tb5Vn8Hd4Jf6Ms1Pc0Gy2Ua3E"
    text = "a line\n" * (place // 7) + "\n" + token + "\nb" * 300_000
    (found,) = find_secrets(text)
    assert (found.line, text[found.start : found.end]) == (place // 7 + 2, token)
    long = "x" * place + " " + token + " " + "y" * 300_000
    assert [(each.line, each.start) for each in find_secrets(long)] == [(1, place + 1)]


def test_the_set_is_large_and_a_part_of_it_was_there_before_the_rules() -> None:
    assert len({name for name, _ in CREDENTIALS}) == len(CREDENTIALS) > 200
    assert len(UNSEEN) == 30


def test_our_rules_are_toml_as_a_parser_reads_it() -> None:
    whole = tomllib.loads(RULES.read_text(encoding="utf-8"))
    ours = read_rules()
    assert [rule.id for rule in ours.rules] == [each["id"] for each in whole["rules"]]
    assert [rule.regex for rule in ours.rules] == [each["regex"] for each in whole["rules"]]
    for rule, given in zip(ours.rules, whole["rules"], strict=True):
        assert rule.keywords == tuple(given.get("keywords", ()))
        assert (rule.entropy, rule.group) == (given.get("entropy", 0), given.get("secretGroup", 0))
    assert [list(each.regexes) for each in ours.allowlists] == [
        each.get("regexes", []) for each in whole["allowlists"]
    ]
    assert len({rule.id for rule in ours.rules}) == len(ours.rules)


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
    [
        *("-eyJ" + "a" * 10, "eyJ" + "a" * 10 + ".", "aws secret ", "sk-", "x://a:"),
        *(
            "-----BEGIN A ",
            "password=a1",
            "token: ",
            "api_key = '",
            "curl -u ",
            "machine a login ",
            "pass",
        ),
        f"-----BEGIN {KEYS[0]}-----\n",
    ],
)
def test_a_long_run_of_near_misses_takes_time_that_grows_with_it(piece: str) -> None:
    assert find_secrets(piece * (300_000 // len(piece))) == []  # Quadratic, it would take minutes.
