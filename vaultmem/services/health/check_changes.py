"""Check a change: the problems it introduces in notes, from a commit to the work tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import CITE_PROPERTIES, AnchorCheck
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.packs.context_file import (
    ContextLine,
    parse_contexts,
    replace_block,
    says_the_same,
    write_plainly,
)
from vaultmem.core.packs.receipt import Expectation, judge_pack
from vaultmem.core.search.evaluation import Question, list_questions
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import format_names, one_line
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.anchors.check import (
    check_documents,
    cited_by,
    compare_since,
)
from vaultmem.services.changes.containment import find_new
from vaultmem.services.changes.ownership import find_note_secrets
from vaultmem.services.curation.curate import is_open
from vaultmem.services.packs.build import make_unseen
from vaultmem.services.packs.question_file import WantedNotes
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.services.projects.scope import find_name, view_for_file
from vaultmem.services.search.link_walk import FoundLink, LinkGraph, check_place
from vaultmem.services.similarity.pairs import Pair, compare_sentences, compare_some
from vaultmem.services.views.open_view import view_at
from vaultmem.services.watching.generated_context import find_context_file
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.code_files import CodeRepository, find_repository, read_versions
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.git.log import walk_renames
from vaultmem.storage.git.refs import Refs
from vaultmem.storage.link_table import LinkStore
from vaultmem.vault import Vault

#: The files at the top of a vault with its recorded questions.
QUESTION_FILES = ("questions.md", "questions.jsonl")


class FindingKind(StrEnum):
    """The kind of a problem that a change introduces."""

    ANCHOR = "anchor"
    CONTRADICTION = "contradiction"
    CREDENTIAL = "credential"
    SUSPICIOUS = "suspicious"
    INVALID = "invalid"
    LINK = "link"
    GENERATED = "generated"
    EXPECTATION = "expectation"
    #: A recorded question has another pack; this is not an error.
    PACK = "pack"


class ChangeFinding(NamedTuple):
    """One problem that a change introduces.

    `path` is relative to the top of the repository, `line` is 1-based.
    """

    kind: FindingKind
    path: str
    line: int
    message: str

    @property
    def is_problem(self) -> bool:
        """Return whether it must be fixed."""
        return self.kind is not FindingKind.PACK


class ChangeReport(NamedTuple):
    """The findings of a change since the commit `base`, and the number of changed vault files."""

    base: str
    files: int
    findings: tuple[ChangeFinding, ...]

    @property
    def is_ok(self) -> bool:
        """Return whether nothing must be fixed."""
        return not any(each.is_problem for each in self.findings)


class _File(NamedTuple):
    """A file that differs: its path and bytes now and in the base; "" and None if missing."""

    path: str
    data: bytes | None
    old_path: str
    old: bytes | None


class _Change(NamedTuple):
    """A vault now and at the base of a change, and the differing files by path.

    A removed file is under its old path.
    """

    new_vault: Vault
    old_vault: Vault
    repository: CodeRepository
    base: str
    files: Mapping[str, _File]

    @property
    def notes(self) -> list[_File]:
        """The notes that are new or have other bytes."""
        present_files = (each for each in self.files.values() if each.data is not None)
        return [each for each in present_files if is_note_name(each.path) and each.data != each.old]

    @property
    def renamed(self) -> dict[str, str]:
        """The present paths of renamed files, by their old paths."""
        return {each.old_path: each.path for each in self.files.values() if each.path}

    def find(self, kind: FindingKind, path: str, line: int, message: str) -> ChangeFinding:
        """Return a finding at a path of the vault."""
        return ChangeFinding(kind, f"{self.new_vault.history.prefix}{path}", line, message)

    def read_base(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the base's versions of files, by their paths from the top of the repository."""
        names = {f"{self.base}:{path}": path for path in paths}
        versions = read_versions(self.new_vault.history.git, names)
        return {names[name]: data for name, data in versions.items()}


def check_changes(vault: Vault, since: str) -> ChangeReport:
    """Return the problems that the work tree introduces since it diverged from a commit.

    `since` is a branch, tag or commit of the vault's repository. The caller can also work in
    another repository that is a project of the vault. Then `since` is of that repository, and only
    anchors are checked. The vault must be in sync.

    Raises:
        VaultError: the commit is unknown, or git cannot read the repository.
    """
    code = _find_code(vault)
    if code is not None:
        git = code.open()
        if git is None:
            raise VaultError(f"{code.top}: git does not read this repository; check its owner")
        base = _find_base(Refs(git), since, code.read_head())
        return _report(base, 0, _find_anchors(vault, code, base, {}))
    base = _find_base(vault.history.refs, since, vault.history.head().commit)
    repository = find_repository(vault.root)
    assert repository is not None  # noqa: S101 - its history was just read.
    base_vault = view_at(vault, base)
    change = _Change(vault, base_vault, repository, base, _list_files(vault, base))
    checks = (
        _find_anchors(vault, repository, base, {each.path: each for each in change.notes}),
        _find_contradictions(change),
        _find_credentials(change),
        _find_suspicious(change),
        _find_invalid(change),
        _find_broken_links(change),
        _find_outdated(change),
        _judge_questions(change),
    )
    return _report(base, len(change.files), (each for check in checks for each in check))


def _report(base: str, files: int, findings: Iterable[ChangeFinding]) -> ChangeReport:
    masked_findings = {
        each._replace(message=mask_secrets(one_line(each.message)), path=mask_secrets(each.path))
        for each in findings
    }
    order = list(FindingKind)
    ordered_findings = sorted(masked_findings, key=lambda each: (order.index(each.kind), each[1:]))
    return ChangeReport(base, files, tuple(ordered_findings))


def _find_code(vault: Vault) -> CodeRepository | None:
    """Return the caller's repository, if it is a project and not the vault's own."""
    folder = vault.here or Path.cwd()
    repository = find_repository(folder)
    if (
        repository is None
        or repository == find_repository(vault.root)
        or read_facts(vault, folder) is None
    ):
        return None
    return repository if find_name(vault, folder) else None


def _find_base(refs: Refs, since: str, head: str) -> str:
    """Return the last commit that HEAD and a commit have in common.

    Raises:
        NoteNotFoundError: there is no such commit, or no common one.
    """
    commit = refs.resolve(since).commit
    base = refs.merge_base(commit, head) if head else ""
    if not base:
        raise NoteNotFoundError(
            f"{since}: shares no commit with HEAD here; fetch the whole history "
            "(`fetch-depth: 0` on GitHub)"
        )
    return base


def _list_files(vault: Vault, base: str) -> dict[str, _File]:
    """Return the files that differ from a commit, including untracked notes.

    Git does not compare the work tree itself: it would run the repository's filters.
    """
    tree, prefix = vault.history.tree(base), vault.history.prefix
    blobs = {path: file.blob for path, file in vault.manifest.files().items()}
    output = vault.history.git.run("ls-files", "-z", *(["--", prefix] if prefix else []))
    tracked_paths = {path.removeprefix(prefix) for path in output.split("\0") if path}
    contents: dict[str, bytes | None] = {}
    for path in {*tree, *tracked_paths, *blobs}:
        entry = tree.get(path)
        if entry is None or blobs.get(path) != entry.blob:
            data = _read_present(vault.root, path)
            if not (entry and data is not None and _is_same(entry.blob, data)):
                contents[path] = data
    old_paths = {new: old for old, new in _list_renames(vault, base, tree, contents).items()}
    sources = {path: path if path in tree else old_paths.get(path, "") for path in contents}
    names = {path: f"{base}:{prefix}{old}" for path, old in sources.items() if old}
    versions = read_versions(vault.history.git, names.values())
    files = {}
    for path, data in contents.items():
        old = versions.get(names.get(path, ""))
        if (data is not None or old is not None) and path not in old_paths.values():
            new_path = path if data is not None else ""
            files[path] = _File(new_path, data, sources[path] if old is not None else "", old)
    return files


def _is_same(blob: str, data: bytes) -> bool:
    """Return whether a file has the bytes of a blob, also with CRLF lines."""
    return blob in {blob_id(data), blob_id(data.replace(b"\r\n", b"\n"))}


def _list_renames(
    vault: Vault, base: str, tree: Mapping[str, TreeEntry], contents: Mapping[str, bytes | None]
) -> dict[str, str]:
    """Return the present paths of the base's renamed files, by their old paths."""
    renames: dict[str, str] = {}
    for rename in walk_renames(vault.history, f"{base}..{vault.history.head().commit}"):
        renames[rename.previous] = renames.get(rename.path, rename.path)
    new_paths = {blob_id(data): path for path, data in contents.items() if data is not None}
    removed_blobs = {
        path: tree[path].blob for path, data in contents.items() if data is None and path in tree
    }
    renames |= {path: new_paths[blob] for path, blob in removed_blobs.items() if blob in new_paths}
    return {
        old: path
        for old, path in renames.items()
        if old in tree
        and contents.get(old, b"") is None
        and path not in tree
        and contents.get(path)
    }


def _read_present(root: Path, path: str) -> bytes | None:
    try:
        return read_file(root, PurePosixPath(path))
    except (NoteNotFoundError, UnsafeFileError, NotADirectoryError):
        return None


# Anchors: the change edits code that a note cites, or adds a note that cites changed code.


def _find_anchors(
    vault: Vault, repository: CodeRepository, base: str, notes: Mapping[str, _File]
) -> Iterator[ChangeFinding]:
    records = {each.document: each for each in vault.view.records() if is_open(each)}
    cited = LinkStore(vault.state).links_in(CITE_PROPERTIES)
    inside = _find_prefix(vault, repository)
    for document, checks in check_documents(vault, records, cited).items():
        record = records[document]
        note = notes.get(record.path)
        old = decode_text(note.old or b"").text if note else None
        for check in checks:
            if not check.is_different:
                continue
            anchor = cited_by(record, check.anchor)
            since = compare_since(vault, anchor, check.moved_to, repository, base)
            is_new = old is not None and str(check.anchor) not in old
            if not (since.was_same or is_new):
                continue
            message = f"{record.path} cites {check}; check the note"
            if since.path:
                yield ChangeFinding(FindingKind.ANCHOR, since.path, since.line, message)
            else:
                line = _find_cite(note, check)
                yield ChangeFinding(FindingKind.ANCHOR, f"{inside}{record.path}", line, message)


def _find_prefix(vault: Vault, repository: CodeRepository) -> str:
    """Return the vault's folder in a repository, or its full path if it is outside."""
    if not vault.root.is_relative_to(repository.top):
        return f"{vault.root}/"
    inside = vault.root.relative_to(repository.top).as_posix()
    return "" if inside == "." else f"{inside}/"


def _find_cite(note: _File | None, check: AnchorCheck) -> int:
    text = decode_text(note.data).text if note and note.data else ""
    return _find_line(text, str(check.anchor))


def _find_line(text: str, words: str) -> int:
    """Return the number of the first line with these words, or 1."""
    lines = text.split("\n")
    return next((n for n, line in enumerate(lines, 1) if words and words in line), 1)


# Notes: contradictions, credentials, suspicious text, frontmatter and links.


def _find_contradictions(change: _Change) -> Iterator[ChangeFinding]:
    notes = {each.path: each for each in change.notes}
    old_texts = [decode_text(each.old).text for each in change.files.values() if each.old]
    pairs = {
        pair.names: pair
        for pair in (
            *compare_sentences(change.new_vault, list(notes), old_texts),
            *compare_some(change.new_vault, list(notes)).contradictions,
        )
    }
    if not pairs:
        return
    paths = {path for names in pairs for path in names if path in notes}
    old_paths = [notes[path].old_path for path in paths if notes[path].old is not None]
    new_paths = change.renamed
    old_pairs = {
        frozenset(new_paths.get(path, path) for path in pair.names)
        for pair in compare_some(change.old_vault, old_paths).contradictions
    }
    for names, pair in pairs.items():
        if names not in old_pairs:
            yield _describe_pair(change, pair, is_ours=str(pair.ours.path) in notes)


def _describe_pair(change: _Change, pair: Pair, *, is_ours: bool) -> ChangeFinding:
    note, other = (pair.ours, pair.theirs) if is_ours else (pair.theirs, pair.ours)
    sides = [
        (each.ours, each.theirs) if is_ours else (each.theirs, each.ours)
        for each in pair.likeness.differences
    ]
    parts = [
        f'"{own_text or "nothing"}" here, "{other_text or "nothing"}" there'
        for own_text, other_text in sides
    ]
    lines = (_find_line(note.text, own_text) for own_text, _ in sides)
    line = next((line for line in lines if line > 1), 1)
    message = f"contradicts {other.path}: {'; '.join(parts[:2])}; correct or supersede one of them"
    return change.find(FindingKind.CONTRADICTION, str(note.path), line, message)


def _find_credentials(change: _Change) -> Iterator[ChangeFinding]:
    files = {path: each.data for path, each in change.files.items()}
    secrets = find_note_secrets(change.new_vault, files, lambda path: change.files[path].old)
    for path, places in secrets.items():
        for place in places:
            line, _, rule = place.removeprefix(f"{mask_secrets(path)}:").partition(": ")
            is_line = line.isdecimal()
            problem = f"looks like a credential ({rule})" if is_line else "its name is a credential"
            message = f"{problem}; remove it and renew it"
            yield change.find(FindingKind.CREDENTIAL, path, int(line) if is_line else 1, message)


def _find_suspicious(change: _Change) -> Iterator[ChangeFinding]:
    for note in change.notes:
        for passage in find_new(note.data or b"", note.old):
            message = (
                f"tries to instruct an agent ({passage.rule}); remove it or quarantine the note"
            )
            yield change.find(FindingKind.SUSPICIOUS, note.path, passage.line, message)


def _find_invalid(change: _Change) -> Iterator[ChangeFinding]:
    for note in change.notes:
        old_problems = _list_problems(note.old_path, note.old)
        for problem in _list_problems(note.path, note.data):
            if problem not in old_problems:
                line = re.search(r"\bline (\d+)", problem)
                yield change.find(
                    FindingKind.INVALID, note.path, int(line[1]) if line else 1, problem
                )


def _list_problems(path: str, data: bytes | None) -> list[str]:
    """Return why a note cannot be read, or only partly."""
    if data is None:
        return []
    try:
        note = parse_note(PurePosixPath(path), data)
    except UnreadableNoteError as error:
        return [str(error)]
    return list(dict.fromkeys(filter(None, (note.problem, *note.warnings))))


def _find_broken_links(change: _Change) -> Iterator[ChangeFinding]:
    broken_links = _list_broken(change.new_vault)
    if not broken_links:
        return
    new_paths = change.renamed
    old_links = {
        (new_paths.get(each.source, each.source), each.link.path, each.link.subpath)
        for each in _list_broken(change.old_vault)
    }
    for each in broken_links:
        if (each.source, each.link.path, each.link.subpath) in old_links:
            continue
        subpath = f"#{each.link.subpath}" if each.link.subpath else ""
        target = "file" if each.missing == "note" else each.missing
        message = f"the link to {each.link.path}{subpath} is broken: there is no such {target}"
        yield change.find(FindingKind.LINK, each.source, each.link.line, message)


def _list_broken(vault: Vault) -> list[FoundLink]:
    """Return the links whose file, heading or block does not exist."""
    graph = LinkGraph(vault)
    return [each for link in graph.links() if (each := check_place(graph, link)).missing]


# Generated files: the change must also update an outdated pack.


class _GeneratedFile(NamedTuple):
    """A generated file: its path from the top of the repository, and its pack.

    The pack is for the notes of the project of `folder`.
    """

    path: str
    folder: Path
    line: ContextLine
    is_block: bool = False


def _find_outdated(change: _Change) -> Iterator[ChangeFinding]:
    files = _list_generated(change)
    old_versions = change.read_base(each.path for each in files)
    for file in files:
        current = _read_present(change.repository.top, file.path)
        if current is None:
            continue
        old = old_versions.get(file.path)
        text, old_text = _make_text(change.new_vault, file), _make_text(change.old_vault, file)
        problem = _compare_generated(file, current, text)
        was_right = old is None or not _compare_generated(file, old, old_text)
        is_other = not says_the_same(old_text.encode(), text.encode())
        if problem and (was_right or (is_other and current == old)):
            message = f"{problem}; run `vaultmem context` and commit it"
            yield ChangeFinding(FindingKind.GENERATED, file.path, 1, message)


def _list_generated(change: _Change) -> list[_GeneratedFile]:
    """Return the generated files that git tracks in the vault's repository."""
    vault, top = change.new_vault, change.repository.top
    config = vault.config
    own = find_context_file(vault)
    lines = [*([ContextLine(own, None, "")] if own else []), *parse_contexts(config.extra_packs)]
    candidates = [(each.path, each, False) for each in lines]
    candidates += [(name, ContextLine(name, None, ""), True) for name in config.inject_context_into]
    files = []
    for name, line, is_block in candidates:
        file = vault.root / Path(name).expanduser()
        file = file.parent.resolve() / file.name
        if file.is_relative_to(top):
            folder = file.parent if is_block else vault.root
            path = file.relative_to(top).as_posix()
            files.append(_GeneratedFile(path, folder, line, is_block))
    paths = [each.path for each in files]
    output = vault.history.git.run("ls-files", "-z", "--", *paths) if paths else ""
    return [each for each in files if each.path in set(output.split("\0"))]


def _make_text(vault: Vault, file: _GeneratedFile) -> str:
    project_view = view_for_file(vault, file.folder)
    return write_plainly(
        make_unseen(project_view, file.line.query, file.line.budget, waits=False).text
    )


def _compare_generated(file: _GeneratedFile, data: bytes, text: str) -> str:
    """Return the problem of a generated file, "" if its pack is current."""
    if not file.is_block:
        return "" if says_the_same(data, text.encode()) else "the generated pack is out of date"
    try:
        is_same = says_the_same(data, replace_block(data, text))
    except RefusedError as error:
        return str(error)
    return "" if is_same else "the generated block is out of date"


# Recorded questions: the expectations on their packs, and changed sections.


def _judge_questions(change: _Change) -> Iterator[ChangeFinding]:
    for name in QUESTION_FILES:
        data = _read_present(change.new_vault.root, name)
        if data is None:
            continue
        path = f"{change.new_vault.history.prefix}{name}"
        old_data = change.read_base([path]).get(path, b"")
        old_questions = {
            each._replace(line=0) for each in list_questions(decode_text(old_data).text)[0]
        }
        questions, mistakes = list_questions(decode_text(data).text)
        old_mistakes = set(list_questions(decode_text(old_data).text)[1].values())
        for line, mistake in mistakes.items():
            if mistake not in old_mistakes:
                yield change.find(FindingKind.EXPECTATION, name, line, mistake)
        for question in questions:
            if not question.at:  # Another commit's result stays equal.
                is_known = question._replace(line=0) in old_questions
                yield from _judge_question(change, name, question, is_known)


def _judge_question(
    change: _Change, name: str, question: Question, is_known: bool
) -> Iterator[ChangeFinding]:
    answer, old_answer = _answer(change.new_vault, question), _answer(change.old_vault, question)
    if answer.reasons and not (is_known and old_answer.reasons):
        message = f'the pack for "{question.text}" is not as expected: {"; ".join(answer.reasons)}'
        yield change.find(FindingKind.EXPECTATION, name, question.line, message)
    if is_known and answer.texts != old_answer.texts:
        message = f'the pack for "{question.text}" changes: {_describe_shown(old_answer, answer)}'
        yield change.find(FindingKind.PACK, name, question.line, message)


class _Answer(NamedTuple):
    """The pack of a question: its sections' texts by address, and unmet expectations."""

    texts: dict[str, str]
    reasons: list[str]


def _answer(vault: Vault, question: Question) -> _Answer:
    pack = make_unseen(vault, question.text, waits=False)
    texts = {item.hit.address: blob_id(item.text.encode("utf-8", "replace")) for item in pack.items}
    try:
        paths = WantedNotes(vault).find_all(question)
    except (NoteNotFoundError, RefusedError) as error:
        return _Answer(texts, [str(error)])
    if not (paths or question.texts):
        return _Answer(texts, [])
    addresses = () if question.texts else paths
    return _Answer(texts, judge_pack(pack, Expectation(question.text, addresses, question.texts)))


def _describe_shown(old_answer: _Answer, new_answer: _Answer) -> str:
    """Return which sections of a pack are new, gone, or have another text."""
    kinds: dict[str, Callable[[str], bool]] = {
        "adds": lambda each: each not in old_answer.texts,
        "loses": lambda each: each not in new_answer.texts,
        "has another text of": lambda each: (
            each in new_answer.texts
            and each in old_answer.texts
            and new_answer.texts[each] != old_answer.texts[each]
        ),
    }
    addresses = list(dict.fromkeys((*new_answer.texts, *old_answer.texts)))
    parts = {kind: list(filter(test, addresses)) for kind, test in kinds.items()}
    return "; ".join(f"it {kind} {format_names(names)}" for kind, names in parts.items() if names)
