"""Check the notes: can all be read and told apart, and why is something not found."""

from __future__ import annotations

from pathlib import PurePosixPath

from vaultmem.core.check import Check, Verdict
from vaultmem.core.lifecycle import INSTRUCTION_KINDS, State
from vaultmem.core.paths import fold_name, is_conflict_copy
from vaultmem.services.notes.trust import trusted_documents
from vaultmem.storage.passed_over import find_passed_over
from vaultmem.vault import Vault

_LARGER = "it is larger than"
_OWN_REPOSITORY = "it is a git repository of its own"
_LINK = "it is a symbolic link"


def check_notes(vault: Vault) -> Check:
    """Name the notes that are not read, or not fully."""
    told = _problems(vault)
    unread = [(p, why) for p, why in told if not why.startswith((_LARGER, _OWN_REPOSITORY, _LINK))]
    warned = [(record.path, why) for record in vault.view.records() for why in record.warnings]
    paths = tuple(f"{path}: {why}" for path, why in (*unread, *warned))
    remedy = "save them as UTF-8 text, or correct their properties"
    if unread:
        return Check("notes", Verdict.PROBLEM, f"{len(unread):,} are not read", paths, remedy)
    if warned:
        files = len({path for path, _ in warned})
        return Check("notes", Verdict.WARNING, f"{files:,} are not read fully", paths, remedy)
    return Check("notes", told=f"{vault.view.totals()[0]:,} are read")


def check_sizes(vault: Vault) -> Check:
    """Name the notes that are too large to be read or committed."""
    large = [path for path, why in _problems(vault) if why.startswith(_LARGER)]
    if not large:
        return Check("note sizes")
    return Check(
        "note sizes",
        Verdict.PROBLEM,
        f"{len(large):,} notes over 1 MiB are neither found nor committed",
        tuple(large),
        "divide them into smaller notes",
    )


def check_names(vault: Vault) -> Check:
    """Name the files that have one name on systems that do not tell case or Unicode forms apart."""
    by_name: dict[str, list[str]] = {}
    for path in vault.manifest.stats():
        by_name.setdefault(fold_name(PurePosixPath(path)), []).append(path)
    twins = [" = ".join(sorted(paths)) for paths in by_name.values() if len(paths) > 1]
    if not twins:
        return Check("note names")
    return Check(
        "note names",
        Verdict.PROBLEM,
        f"{len(twins):,} names are one file on Windows and macOS",
        tuple(sorted(twins)),
        "rename one of each",
    )


def check_conflicts(vault: Vault) -> Check:
    """Name what file synchronisation, or vaultmem, kept as the second of two versions."""
    names = vault.manifest.stats()
    copies = sorted(path for path in names if is_conflict_copy(path.rsplit("/", 1)[-1]))
    if not copies:
        return Check("conflict copies")
    return Check(
        "conflict copies",
        Verdict.WARNING,
        f"{len(copies):,} files are second versions of others",
        tuple(copies),
        "take over what they have into the first version, and remove them",
    )


def check_passed_over(vault: Vault) -> Check:
    """Tell which folders and links are never looked into."""
    config = vault.config
    walked = find_passed_over(vault.root, config.ignores if config.ignore else None)
    told = _problems(vault)
    groups = (
        ("hidden", [path for path in walked.hidden if path.endswith("/")]),
        ("ignored by vaultmem.yaml", walked.ignored),
        ("repositories of their own", [p for p, why in told if why == _OWN_REPOSITORY]),
        ("symbolic links", [path for path, why in told if why == _LINK]),
    )
    counts = ", ".join(f"{len(paths):,} {what}" for what, paths in groups if paths)
    paths = tuple(f"{path}  ({what})" for what, each in groups for path in each)
    return Check("not looked into", told=counts or "nothing", paths=paths)


def check_trust(vault: Vault) -> Check:
    """Tell whether policies and skills of this vault may instruct."""
    kinds = ", ".join(f"'{kind.value}'" for kind in INSTRUCTION_KINDS)
    records = vault.view.records(f"d.kind IN ({kinds}) AND d.state = '{State.ACTIVE.value}'")
    trusted = trusted_documents(vault)
    others = tuple(record.path for record in records if record.document not in trusted)
    count = len(records) - len(others)
    told = f"{count:,} of {len(records):,} active policies and skills may instruct"
    if not vault.trust.is_trusted():
        remedy = "if the vault is yours, run `vaultmem trust`"
        verdict = Verdict.WARNING if records else Verdict.OK
        return Check("trust", verdict, f"the vault is not trusted; {told}", others, remedy)
    if not others:
        return Check("trust", told=told)
    remedy = "read them, and `vaultmem promote` or `vaultmem trust` them"
    return Check("trust", Verdict.WARNING, told, others, remedy)


def _problems(vault: Vault) -> list[tuple[str, str]]:
    files = vault.manifest.files()
    return [(path, known.problem) for path, known in sorted(files.items()) if known.problem]
