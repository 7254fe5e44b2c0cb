"""Check a vault, its repository and this machine; with `fix`, repair without data loss."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from vaultmem.config import CONFIG_NAME, NEW_KEY_NAMES, list_renamed
from vaultmem.core.indexing.note_facts import date_note
from vaultmem.core.notes.obsidian import read_day
from vaultmem.core.notes.problems import describe_group, describe_repairs, group_problems
from vaultmem.core.text.paths import NOTE_ENDINGS, find_twins, is_conflict_copy
from vaultmem.core.text.timestamps import Check, Verdict, count_found
from vaultmem.errors import LockTimeoutError, VaultError
from vaultmem.services.health import examine
from vaultmem.services.memory.remember import quote_properties
from vaultmem.services.memory.rename import HOW_TO_REPAIR, plan_repair
from vaultmem.services.search.trusted import describe_trust_elsewhere, list_owned, trusted_documents
from vaultmem.services.views.read_index import Progress
from vaultmem.services.views.update_index import (
    find_skipped_files,
    read_note_rules,
    sync_vault,
    update_index_nonblocking,
)
from vaultmem.storage.git.maintenance import is_git_installed
from vaultmem.storage.lock import READER
from vaultmem.storage.scan_files import LINK, OWN_REPOSITORY, TOO_LARGE_PREFIX
from vaultmem.vault import Vault

# Check the notes: readable, unambiguous and findable.

# Dropbox's names of renamed files, or with brackets in a computer's name; `is_conflict_copy` finds
# all others.
_CONFLICT_COPY_NAME = re.compile(
    r"(?i)\((?:case|white ?space|unicode encoding|selective sync) conflict(?: \d+)?\)"
    r"|'s conflicted copy \d{4}-\d{2}-\d{2}"
)

#: The check that is reported first unless it is ok.
DOUBTFUL = "notes in doubt"

_ODD_NAME = "its name is not UTF-8"


def check_doubtful(vault: Vault, fix: bool) -> Check:
    """Report invalid notes, which can do the most harm.

    With `fix`, values that lack only quotes get them.
    """
    fixed_paths = quote_properties(vault) if fix and vault.is_person else ()
    fixes = tuple(f"added quotes in {path}" for path in fixed_paths)
    problems = vault.manifest.in_doubt()
    groups = group_problems(problems)
    if not problems:
        return Check(DOUBTFUL, fixed=fixes)
    lines, repairs = tuple(map(describe_group, groups)), describe_repairs(groups)
    summary = f"not to be taken at their word: {len(problems):,}"
    return Check(DOUBTFUL, Verdict.PROBLEM, summary, lines, repairs, fixes)


def check_notes(vault: Vault) -> Check:
    """Report notes that are not read, or only partly."""
    other_reasons = (TOO_LARGE_PREFIX, OWN_REPOSITORY, LINK, _ODD_NAME)
    unread_notes = [
        (path, reason)
        for path, reason in vault.manifest.unread()
        if not reason.startswith(other_reasons)
    ]
    records = [record for record in vault.view.records() if not record.problem]
    warnings = [
        (each.path, reason)
        for each in records
        for reason in each.warnings
        if reason != each.conflict
    ]
    groups = group_problems((*unread_notes, *warnings))
    paths, remedy = tuple(map(describe_group, groups)), describe_repairs(groups)
    if unread_notes:
        return Check("notes", Verdict.PROBLEM, f"not read: {len(unread_notes):,}", paths, remedy)
    if warnings:
        files = len({path for path, _ in warnings})
        return Check("notes", Verdict.WARNING, f"not read fully: {files:,}", paths, remedy)
    return Check("notes", message=f"read: {vault.view.totals()[0]:,}")


def check_conflicted(vault: Vault) -> Check:
    """Report notes that another side of a merge contradicts."""
    return count_found(
        "conflicts",
        Verdict.WARNING,
        "contradicted by others",
        (f"{each.path}: {each.conflict}" for each in vault.view.records() if each.conflict),
        "`vaultmem resolve` shows what they say, and decides it",
    )


def check_sizes(vault: Vault) -> Check:
    """Report notes that are too large to be read or committed."""
    large_notes = vault.manifest.too_large()
    summary = "over 1 MiB, so neither found nor committed"
    return count_found(
        "note sizes", Verdict.PROBLEM, summary, large_notes, "divide them into smaller notes"
    )


def check_dates(vault: Vault, now: float) -> Check:
    """Report notes whose own date is later than tomorrow."""
    lines = (
        f"{record.path}: {record.updated or record.created}"
        for record in vault.view.records("d.created <> '' OR d.updated <> ''")
        if max(map(date_note, (record.created, record.updated))) > now + 86_400
        and not (
            record.created and record.created == read_day(record.path, vault.store.obsidian.daily)
        )
    )
    remedy = "correct `created` or `updated`: until then they count as written now"
    return count_found("note dates", Verdict.WARNING, "dated in the future", lines, remedy)


def check_names(vault: Vault) -> Check:
    """Report file names that are not UTF-8, or that differ from another only in case."""
    if paths := tuple(path for path, reason in vault.manifest.unread() if reason == _ODD_NAME):
        summary, remedy = (
            "not UTF-8, so neither found nor committed",
            "rename them; `convmv` does it",
        )
        return count_found("note names", Verdict.PROBLEM, summary, paths, remedy)
    twins = map(" = ".join, find_twins(vault.manifest.stats()))
    summary = "one name on Windows and macOS"
    return count_found("note names", Verdict.PROBLEM, summary, twins, "rename one of each")


def check_conflicts(vault: Vault) -> Check:
    """Report second versions of files, kept by file synchronisation or vaultmem."""
    return count_found(
        "conflict copies",
        Verdict.PROBLEM,
        "second versions of other files",
        sorted(filter(_is_second_version, vault.manifest.stats())),
        "take over what they have into the first version, and remove them",
    )


def _is_second_version(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return is_conflict_copy(name) or bool(_CONFLICT_COPY_NAME.search(name))


def check_moved(vault: Vault) -> Check:
    """Report links broken because their file was moved in the folder."""
    edits = plan_repair(vault).edits
    lines = (
        f"{path}:{each.link.line}: {each.old}, now {each.new}"
        for path, file_edits in edits.items()
        for each in file_edits
    )
    summary = "broken since their files were moved"
    return count_found("links", Verdict.WARNING, summary, lines, HOW_TO_REPAIR)


def check_passed_over(vault: Vault) -> Check:
    """Report the skipped folders, notes with hidden names, and links."""
    rules = read_note_rules(vault)
    skipped = find_skipped_files(vault)
    unsafe = vault.manifest.unread()
    endings = ("/", *NOTE_ENDINGS)
    groups = (
        ("hidden", [path for path in skipped.hidden if path.lower().endswith(endings)]),
        ("ignored by vaultmem.yaml", skipped.ignored),
        *skipped.others.items(),
        ("repositories of their own", [p for p, reason in unsafe if reason == OWN_REPOSITORY]),
        ("symbolic links", [path for path, reason in unsafe if reason == LINK]),
    )
    counts = ", ".join(f"{kind}: {len(paths):,}" for kind, paths in groups if paths)
    paths = tuple(f"{path}  ({kind})" for kind, group in groups for path in group)
    problems = (*vault.store.obsidian.problems, *(f"filter {each}" for each in rules.aside.refused))
    if problems:
        summary = f"Obsidian settings that cannot be used: {len(problems)}; {counts or 'nothing'}"
        remedy = "correct them in Obsidian; what they set aside is found until then"
        return Check("not looked into", Verdict.WARNING, summary, (*problems, *paths), remedy)
    return Check("not looked into", message=counts or "nothing", paths=paths)


def check_trust(vault: Vault) -> Check:
    """Report whether the vault's policies, skills and preferences are trusted."""
    records = list_owned(vault)
    trusted = trusted_documents(vault)
    others = tuple(each.path for each in records if each.document not in trusted)
    count = len(records) - len(others)
    summary = f"{count:,} of {len(records):,} active policies, skills and preferences are trusted"
    if records and not others:
        return Check("trust", message=summary)
    if not vault.trust.is_trusted():
        remedy = "if the vault is yours, run `vaultmem trust`"
        if trust_message := describe_trust_elsewhere(vault):
            problem, _, remedy = trust_message.partition("; ")
            return Check("trust", Verdict.WARNING, f"{problem}; {summary}", others, remedy)
        if not records:
            return Check("trust", message="not trusted; nothing in the vault needs it yet")
        return Check(
            "trust", Verdict.WARNING, f"the vault is not trusted; {summary}", others, remedy
        )
    if not others:
        return Check("trust", message=summary)
    remedy = "read them, and `vaultmem promote` or `vaultmem trust` them"
    return Check("trust", Verdict.WARNING, summary, others, remedy)


#: Checks of a machine, which callers of a hub cannot repair.
_MACHINE_CHECKS = frozenset({"git", "vault's lock", "index", "sessions", "trust", "clock"})

#: A check's name, and its function.
Named = tuple[str, Callable[[], Check]]


def examine_vault(
    vault: Vault,
    fix: bool = False,
    progress: Progress | None = None,
    now: float | None = None,
    settings_problem: str = "",
) -> list[Check]:
    """Run every check; with `fix`, repair what can be repaired without loss.

    `now` is in seconds since the epoch (default: the vault's time). A check that fails is reported
    as a problem and does not stop the others. With a `settings_problem`, notes are not checked,
    because the ignore rules are unknown. A caller of a hub gets the checks of settings and notes.
    """
    at = vault.now() if now is None else now
    checks = [_check_settings(vault, settings_problem)]
    repository = _run("git", partial(examine.check_repository, vault))
    # Report a running writer before waiting for it.
    checks += [repository, _run("vault's lock", partial(examine.check_lock, vault))]
    if not settings_problem:
        checks.append(_run("index", partial(_check_index, vault, fix, progress)))
        if vault.notices.stale:  # Limit the wait of each later check.
            vault = replace(vault, patience=READER)
        checks += _run_all(_format_note_checks(vault, fix, at))
    if not vault.keeps_words:
        checks = [each for each in checks if each.name not in _MACHINE_CHECKS]
        return sorted(checks, key=_is_told_later)
    if _has_repository(vault):
        checks += _run_all(_format_git_checks(vault, fix, at, not settings_problem))
    checks += _run_all(
        [
            ("copied vault", partial(examine.check_copy, vault)),
            ("watcher", partial(examine.check_watcher, vault, fix)),
            ("hooks", partial(examine.check_hooks, vault)),
            ("watch limit", partial(examine.check_watch_limit, vault)),
            ("disk", partial(examine.check_disk, vault)),
        ]
    )
    return sorted(checks, key=_is_told_later)


def _is_told_later(check: Check) -> bool:
    return check.verdict is Verdict.OK or check.name != DOUBTFUL


def _format_note_checks(vault: Vault, fix: bool, now: float) -> list[Named]:
    return [
        (DOUBTFUL, partial(check_doubtful, vault, fix)),
        ("notes", partial(check_notes, vault)),
        ("note sizes", partial(check_sizes, vault)),
        ("note dates", partial(check_dates, vault, now)),
        ("note names", partial(check_names, vault)),
        ("conflicts", partial(check_conflicted, vault)),
        ("conflict copies", partial(check_conflicts, vault)),
        ("links", partial(check_moved, vault)),
        ("not looked into", partial(check_passed_over, vault)),
        ("sessions", partial(examine.check_sessions, vault, fix)),
        ("trust", partial(check_trust, vault)),
        ("clock", partial(examine.check_clock, vault, now)),
    ]


def _format_git_checks(vault: Vault, fix: bool, now: float, has_settings: bool) -> list[Named]:
    credentials = ("credentials", partial(examine.check_credentials, vault))
    ignored = ("ignored files", partial(examine.check_excludes, vault, fix))
    return [
        ("git's objects", partial(examine.check_objects, vault)),
        ("git's locks", partial(examine.check_locks, vault, now)),
        ("git's leftovers", partial(examine.check_leftovers, vault, fix, now)),
        ("git's upkeep", partial(examine.check_upkeep, vault, fix)),
        ("your name", partial(examine.check_person, vault)),
        *([credentials, ignored] if has_settings else []),
        ("merge driver", partial(examine.check_merge_driver, vault, fix)),
        ("sync", partial(examine.check_sync, vault, now)),
        ("time of commits", partial(examine.check_commit_times, vault, now)),
    ]


def _check_index(vault: Vault, fix: bool, progress: Progress | None) -> Check:
    """Update the index; damaged parts are rebuilt."""
    try:
        (sync_vault if fix else update_index_nonblocking)(vault, progress)
    except LockTimeoutError as error:
        vault.notices.stale = str(error)
        raise
    if vault.notices.stale:
        return Check("index", Verdict.WARNING, vault.notices.stale)
    return examine.check_state(vault, fix)


def _has_repository(vault: Vault) -> bool:
    if not is_git_installed():
        return False
    try:
        return vault.head() is not None and bool(vault.history.git_folder)
    except VaultError:
        return False


def _run_all(checks: list[Named]) -> list[Check]:
    return [_run(name, check) for name, check in checks]


def _run(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except LockTimeoutError as error:
        return Check(name, Verdict.WARNING, f"not looked at: {error}")
    except (VaultError, OSError, ImportError) as error:  # GitPython needs git to be imported.
        return _describe_failure(name, str(error))


def _check_settings(vault: Vault, problem: str) -> Check:
    """Report settings with an old name."""
    old_names = [] if problem else list_renamed(vault.root)
    if not old_names:
        return _describe_failure("settings", problem)
    lines = tuple(f"{each}: now {NEW_KEY_NAMES[each]}" for each in old_names)
    summary = f"old names in {CONFIG_NAME}, which still work: {len(old_names)}"
    return Check("settings", Verdict.WARNING, summary, lines, "write the new names")


def _describe_failure(name: str, error: str) -> Check:
    """Return the check for an error's text (subject: fact; remedy); "" is ok."""
    if not error:
        return Check(name)
    summary, _, remedy = error.rpartition("; ")
    if not summary:
        return Check(name, Verdict.PROBLEM, error)
    return Check(name, Verdict.PROBLEM, summary, remedy=remedy)
