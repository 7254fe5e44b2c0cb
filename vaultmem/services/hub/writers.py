"""Check that pushers write in no other user's name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from vaultmem.core.secrets.scan import find_secrets, mask_secrets
from vaultmem.core.text.display import fold_lookalikes, one_line
from vaultmem.core.text.paths import slugify
from vaultmem.services.hub.grants import Grant, GrantKind, split_email
from vaultmem.services.hub.hub_folder import Refusal
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.storage.git.commit_writer import CommitObject
from vaultmem.storage.git.pushed import NewCommit

#: A date with a valid zone; and the end of 2099, in seconds since the epoch.
_DATE = re.compile(r"(\d{1,10}) [+-](?:0\d|1[0-4])[0-5]\d")
_MAX_TIMESTAMP = 4_102_444_800


class _Rules(NamedTuple):
    """The allowed authors: patterns of e-mails, each with a name ("" for any), and agents.

    `others` are other users' names, with lookalike characters folded.
    """

    emails: tuple[tuple[str, str], ...]
    agents: tuple[str, ...]
    others: frozenset[str]


def check_writers(visit: ReceivedPush, commits: Iterable[NewCommit]) -> Iterator[Refusal]:
    """Yield commits that are malformed or have a wrong author, committer or agent.

    Credentials in messages and headers are rejected, too.
    """
    rules = _make_rules(visit)
    for commit in commits:
        subject = f"commit {commit.commit[:9]}"
        if commit.object is None:
            yield Refusal(subject, *map(_show, commit.problem))
            continue
        dates = commit.object.author.date, commit.object.committer.date
        if wrong_date := next((date for date in dates if not _is_date(date)), ""):
            yield Refusal(subject, f"is dated {wrong_date}", "set your clock, and commit again")
        elif forgery := _find_forgery(visit, rules, commit.object):
            yield Refusal(subject, *forgery)
        if leaks := find_secrets(commit.object.text):
            line = _format_line(commit.object, leaks[0].line)
            reason = f"{line} looks like a credential ({leaks[0].rule})"
            yield Refusal(subject, reason, "reword it, and renew the credential")


def _format_line(commit: CommitObject, line: int) -> str:
    """Return a label for a line of a commit's text."""
    header_lines = commit.text.count("\n") - commit.message.count("\n")
    part, number = ("message", line - header_lines) if line > header_lines else ("headers", line)
    return f"line {number} of its {part}"


def _is_date(text: str) -> bool:
    """Return whether a commit date is in 1970 to 2099, with a valid zone."""
    match = _DATE.fullmatch(text)
    return match is not None and int(match[1]) < _MAX_TIMESTAMP


def _make_rules(visit: ReceivedPush) -> _Rules:
    grant = visit.grant
    emails = tuple((mail.casefold(), name) for name, mail in map(split_email, grant.emails))
    own_names = {grant.name, *(name for _, name in emails)}
    other_names = frozenset(map(fold_lookalikes, visit.pusher.others - own_names)) - {""}
    return _Rules(emails, grant.agents, other_names - set(map(fold_lookalikes, own_names)))


def _find_forgery(
    visit: ReceivedPush, rules: _Rules, commit: CommitObject
) -> tuple[str, str] | None:
    """Return why a commit's author or agent is forged, and the remedy; None if all are allowed."""
    agents = commit.agents
    for agent in agents:
        if not _may_name(rules, agent):
            is_others = fold_lookalikes(agent) in rules.others
            remark = ", which has a token of its own" if is_others else ""
            return f'names the agent "{_show(agent)}"{remark}', _describe_agents(visit.grant)
    remedy = _describe_author(visit.grant)
    for role, (name, mail, _) in (("author", commit.author), ("committer", commit.committer)):
        if any((name, mail.casefold()) == _identify(visit, agent) for agent in agents):
            continue
        allowed_names = [
            allowed_name
            for pattern, allowed_name in rules.emails
            if fnmatchcase(mail.casefold(), pattern)
        ]
        if not allowed_names:
            return f"its {role} is {_show(name)} <{_show(mail)}>", remedy
        if not {"", name} & set(allowed_names):
            return f'its {role} is called "{_show(name)}", not "{allowed_names[0]}"', remedy
        if fold_lookalikes(name) in rules.others:
            return f'its {role} has the name of another user, "{_show(name)}"', remedy
    return None


def may_name(visit: ReceivedPush, agent: str) -> bool:
    """Return whether the pusher's commits and notes may name an agent as their author."""
    return _may_name(_make_rules(visit), agent)


def _may_name(rules: _Rules, agent: str) -> bool:
    is_others = fold_lookalikes(agent) in rules.others
    return any(agent == each if is_others else fnmatchcase(agent, each) for each in rules.agents)


def _identify(visit: ReceivedPush, agent: str) -> tuple[str, str]:
    """Return an agent's name and e-mail in commits, by the format in vaultmem.yaml."""
    name, _, mail = visit.config.author.partition("<")
    address = mail.replace("{agent}", slugify(agent)).rstrip("> ").strip()
    return name.replace("{agent}", agent).strip(), address.casefold()


def _describe_agents(grant: Grant) -> str:
    """Return the remedy for a commit that names an agent that is not allowed."""
    if grant.kind is GrantKind.AGENT:
        return _describe_author(grant)
    allowed = ", ".join(map(list_allowed_agents, grant.agents))
    return f"you write for {allowed}; have an owner name the agent with --push-as"


def _describe_author(grant: Grant) -> str:
    """Return the remedy for a commit with an author or committer that is not allowed."""
    if grant.kind is GrantKind.AGENT:
        return f"commit with `vaultmem checkpoint --agent {grant.name}`, and push only its own"
    name, mail = split_email(next(iter(grant.emails), ""))
    email = f"user.email {shlex.quote(mail)}" if mail and "*" not in mail else "user.email"
    settings = [f"user.name {shlex.quote(name)}", email] if name else [email]
    return (
        f"you write as {', '.join(grant.emails)}; run "
        f"{' and '.join(f'`git config {each}`' for each in settings)}, then "
        "`git commit --amend --no-edit --reset-author` (`git rebase -i` for older commits)"
    )


def list_allowed_agents(pattern: str) -> str:
    """Return a label for the agents whose commits a grant's holder may push."""
    return "agents without a token here" if pattern == "*" else f"agent {pattern}"


def _show(text: str) -> str:
    return one_line(mask_secrets(text))[:80]
