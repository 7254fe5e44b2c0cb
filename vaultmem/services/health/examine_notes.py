"""Check the notes: can all be read and told apart, and why is something not found."""

from __future__ import annotations

import re

from vaultmem.core.check import Check, Verdict, count_found
from vaultmem.core.indexing.note_facts import date_note
from vaultmem.core.notes.problems import describe_group, describe_repairs, group_problems
from vaultmem.core.obsidian.daily import read_day
from vaultmem.core.paths import find_twins, is_conflict_copy
from vaultmem.services.finding.trust import list_owned, tell_trust_elsewhere, trusted_documents
from vaultmem.services.notes.add_quotes import quote_properties
from vaultmem.services.notes.repair import HOW_TO_REPAIR, plan_repair
from vaultmem.services.reading.sync import read_note_rules
from vaultmem.storage.scan import LARGER, find_passed_over
from vaultmem.vault import Vault

# What Dropbox calls a file that it had to rename, or one of a computer with brackets in its name;
# all others are known by `is_conflict_copy`.
_RENAMED = re.compile(
    r"(?i)\((?:case|white ?space|unicode encoding|selective sync) conflict(?: \d+)?\)"
    r"|'s conflicted copy \d{4}-\d{2}-\d{2}"
)

#: The name of the check that is told first where it is not ok.
DOUBTFUL = "notes in doubt"

_OWN_REPOSITORY = "it is a git repository of its own"
_LINK = "it is a symbolic link"
_ODD_NAME = "its name is not UTF-8"


def check_doubtful(vault: Vault, fix: bool) -> Check:
    """Name the notes that cannot be taken at their word: nothing else may do more harm.

    With `fix`, values that lack only quotes get them.
    """
    fixed = quote_properties(vault) if fix and vault.is_person else ()
    done = tuple(f"added quotes in {path}" for path in fixed)
    found = vault.manifest.in_doubt()
    groups = group_problems(found)
    if not found:
        return Check(DOUBTFUL, fixed=done)
    lines, repairs = tuple(map(describe_group, groups)), describe_repairs(groups)
    told = f"not to be taken at their word: {len(found):,}"
    return Check(DOUBTFUL, Verdict.PROBLEM, told, lines, repairs, done)


def check_notes(vault: Vault) -> Check:
    """Name the notes that are not read, or not fully."""
    elsewhere = (LARGER, _OWN_REPOSITORY, _LINK, _ODD_NAME)
    unread = [(path, why) for path, why in vault.manifest.unread() if not why.startswith(elsewhere)]
    sure = [record for record in vault.view.records() if not record.problem]
    warned = [(each.path, why) for each in sure for why in each.warnings if why != each.conflict]
    groups = group_problems((*unread, *warned))
    paths, remedy = tuple(map(describe_group, groups)), describe_repairs(groups)
    if unread:
        return Check("notes", Verdict.PROBLEM, f"not read: {len(unread):,}", paths, remedy)
    if warned:
        files = len({path for path, _ in warned})
        return Check("notes", Verdict.WARNING, f"not read fully: {files:,}", paths, remedy)
    return Check("notes", told=f"read: {vault.view.totals()[0]:,}")


def check_conflicted(vault: Vault) -> Check:
    """Name the notes of which another side of a merge says otherwise."""
    return count_found(
        "conflicts",
        Verdict.WARNING,
        "said otherwise by others",
        (f"{each.path}: {each.conflict}" for each in vault.view.records() if each.conflict),
        "`vaultmem resolve` shows what they say, and decides it",
    )


def check_sizes(vault: Vault) -> Check:
    """Name the notes that are too large to be read or committed."""
    large = vault.manifest.too_large()
    told = "over 1 MiB, so neither found nor committed"
    return count_found("note sizes", Verdict.PROBLEM, told, large, "divide them into smaller notes")


def check_dates(vault: Vault, now: float) -> Check:
    """Name the notes whose own date is later than tomorrow."""
    late = (
        f"{record.path}: {record.updated or record.created}"
        for record in vault.view.records("d.created <> '' OR d.updated <> ''")
        if max(map(date_note, (record.created, record.updated))) > now + 86_400
        and not (
            record.created and record.created == read_day(record.path, vault.store.obsidian.daily)
        )
    )
    remedy = "correct `created` or `updated`: until then they count as written now"
    return count_found("note dates", Verdict.WARNING, "dated in the future", late, remedy)


def check_names(vault: Vault) -> Check:
    """Name the files whose name is no text, or one with another's where case does not count."""
    if odd := tuple(path for path, why in vault.manifest.unread() if why == _ODD_NAME):
        told, remedy = "not UTF-8, so neither found nor committed", "rename them; `convmv` does it"
        return count_found("note names", Verdict.PROBLEM, told, odd, remedy)
    twins = map(" = ".join, find_twins(vault.manifest.stats()))
    told = "one name on Windows and macOS"
    return count_found("note names", Verdict.PROBLEM, told, twins, "rename one of each")


def check_conflicts(vault: Vault) -> Check:
    """Name what file synchronisation, or vaultmem, kept as the second of two versions."""
    return count_found(
        "conflict copies",
        Verdict.PROBLEM,
        "second versions of other files",
        sorted(filter(_is_second_version, vault.manifest.stats())),
        "take over what they have into the first version, and remove them",
    )


def _is_second_version(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return is_conflict_copy(name) or bool(_RENAMED.search(name))


def check_moved(vault: Vault) -> Check:
    """Name the links that lead nowhere since their file was moved in the folder."""
    edits = plan_repair(vault).edits
    broken = (
        f"{path}:{each.link.line}: {each.old}, now {each.new}"
        for path, made in edits.items()
        for each in made
    )
    told = "broken since their files were moved"
    return count_found("links", Verdict.WARNING, told, broken, HOW_TO_REPAIR)


def check_passed_over(vault: Vault) -> Check:
    """Tell which folders and links are never looked into."""
    rules = read_note_rules(vault)
    walked = find_passed_over(vault.root, rules.for_scan)
    unsafe = vault.manifest.unread()
    groups = (
        ("hidden", [path for path in walked.hidden if path.endswith("/")]),
        ("ignored by vaultmem.yaml", walked.ignored),
        *walked.others.items(),
        ("repositories of their own", [p for p, why in unsafe if why == _OWN_REPOSITORY]),
        ("symbolic links", [path for path, why in unsafe if why == _LINK]),
    )
    counts = ", ".join(f"{what}: {len(paths):,}" for what, paths in groups if paths)
    paths = tuple(f"{path}  ({what})" for what, each in groups for path in each)
    unread = (*vault.store.obsidian.problems, *(f"filter {each}" for each in rules.aside.refused))
    if unread:
        told = f"settings of Obsidian's that cannot be used: {len(unread)}; {counts or 'nothing'}"
        remedy = "correct them in Obsidian; what they set aside is found until then"
        return Check("not looked into", Verdict.WARNING, told, (*unread, *paths), remedy)
    return Check("not looked into", told=counts or "nothing", paths=paths)


def check_trust(vault: Vault) -> Check:
    """Tell whether policies, skills and preferences of this vault are on record."""
    records = list_owned(vault)
    trusted = trusted_documents(vault)
    others = tuple(each.path for each in records if each.document not in trusted)
    count = len(records) - len(others)
    told = f"{count:,} of {len(records):,} active policies, skills and preferences are on record"
    if records and not others:
        return Check("trust", told=told)
    if not vault.trust.is_trusted():
        remedy = "if the vault is yours, run `vaultmem trust`"
        if elsewhere := tell_trust_elsewhere(vault):
            what, _, remedy = elsewhere.partition("; ")
            return Check("trust", Verdict.WARNING, f"{what}; {told}", others, remedy)
        if not records:
            return Check("trust", told="not trusted; nothing in the vault needs it yet")
        return Check("trust", Verdict.WARNING, f"the vault is not trusted; {told}", others, remedy)
    if not others:
        return Check("trust", told=told)
    remedy = "read them, and `vaultmem promote` or `vaultmem trust` them"
    return Check("trust", Verdict.WARNING, told, others, remedy)
