"""Read a question file, resolve the notes in it, and add a receipt's question to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.link_syntax import LinkNames, find_place
from vaultmem.core.search.evaluation import Question, add_question, list_questions, split_notes
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.packs.receipts import find_receipt
from vaultmem.services.search.link_walk import LinkGraph
from vaultmem.services.views.resolve_names import describe_several, describe_unknown, find_titled
from vaultmem.storage.files import create_file, replace_file
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord


class AddedQuestion(NamedTuple):
    """A question with the addresses of its notes; `is_new` is true if it was not in the file."""

    question: Question
    is_new: bool


def read_file(file: Path) -> str:
    """Return the text of a question file.

    Raises:
        NoteNotFoundError: there is no such file.
        RefusedError: it is not UTF-8.
    """
    if not file.is_file():
        raise NoteNotFoundError(f"{file}: there is no such file; name a file of questions")
    try:
        return file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{file}: it is not UTF-8 (byte {error.start}); convert it") from None


def add_from_receipt(
    vault: Vault, file: Path, receipt: str, names: Sequence[str] = ()
) -> AddedQuestion:
    """Add a receipt's question to a file, which is created if needed.

    The expected notes are those with these names, by default the unpinned notes that its pack
    showed.

    Raises:
        NoteNotFoundError: there is no such receipt or note.
        RefusedError: the pack had no question, it showed nothing, or the question looks like a
            credential.
        ConflictError: another process saved the file meanwhile.
    """
    stored_receipt = find_receipt(vault, receipt, in_files=True)
    question_text = " ".join(stored_receipt.query.split())
    if not question_text:
        raise RefusedError(
            f"{stored_receipt.id}: its pack was made without a question; take another"
        )
    if find_secrets(question_text):
        raise RefusedError(f"{stored_receipt.id}: its question has what looks like a credential")
    shown_paths = dict.fromkeys(each.path for each in stored_receipt.shown if not each.pinned)
    if not (names or shown_paths):
        raise RefusedError(
            f"{stored_receipt.id}: it shows pinned notes alone; name the note that answers"
        )
    question = Question(0, question_text, tuple(names or (f"[[{path}]]" for path in shown_paths)))
    new_question = question._replace(notes=WantedNotes(vault).find_all(question))
    file = file.resolve()
    text = read_file(file) if file.exists() else ""
    duplicates = [each for each in list_questions(text)[0] if each.text == question_text]
    if duplicates:
        return AddedQuestion(duplicates[0], False)
    data = add_question(text, new_question, as_json=file.suffix != ".md").encode()
    name = PurePosixPath(file.name)
    if file.exists():
        replace_file(file.parent, name, blob_id(text.encode()), data)
    else:
        create_file(file.parent, name, data)
    return AddedQuestion(new_question, True)


class WantedNotes:
    """The notes of a view, by path, name, alias or title. `now` are the current notes.

    Renamed notes are found by their older or newer name too.
    """

    def __init__(self, vault: Vault, now: WantedNotes | None = None) -> None:
        self._seen = vault
        self._now = now

    def find_all(self, question: Question) -> tuple[str, ...]:
        """Return the addresses (path or path#Heading) of the notes that a question names.

        Raises:
            NoteNotFoundError: there is no such note or heading, or several notes have that title.
        """
        addresses: dict[str, None] = {}
        for cell in question.notes:
            try:
                addresses[self._find(cell)] = None  # A title can contain a comma.
            except NoteNotFoundError:
                names = split_notes(cell)
                if len(names) < 2:
                    raise
                addresses.update(dict.fromkeys(map(self._find, names)))
        return tuple(addresses)

    def follow(self, address: str) -> str:
        """Return the address of a current note in this view, or "" if it is missing."""
        path, mark, heading = address.partition("#")
        if path in self._graph.documents:
            return address
        for old, new in self._moves:
            path = old if path == new else path
        return f"{path}{mark}{heading}" if path in self._graph.documents else ""

    def state_of(self, address: str) -> str:
        """Return the state of a note, or "" if it is missing."""
        record = self._records.get(address.partition("#")[0])
        return record.state if record else ""

    def _find(self, name: str) -> str:
        """Return the address for a name."""
        target = name.removeprefix("[[").removesuffix("]]").partition("|")[0].strip()
        if path := self._find_path(target):
            return path
        title, _, heading = target.partition("#")
        path = self._find_path(title.strip()) if heading else ""
        if not path:
            raise NoteNotFoundError(describe_unknown(self._seen, title or target))
        sections = self._seen.view.sections_of([self._graph.documents[path]])
        place = find_place([each for _, each in sorted(sections.items())], heading, "")
        if place is None:
            raise NoteNotFoundError(f'{path} has no heading "{heading}"')
        return f"{path}#{place.heading}" if place.heading else path

    def _find_path(self, name: str) -> str:
        documents = self._graph.documents
        if (path := self._graph.names.resolve(name, "")) in documents:
            return path or ""
        paths = find_titled(self._seen, name)
        if len(paths) > 1:
            raise NoteNotFoundError(describe_several(self._seen, name, paths))
        return paths[0] if paths else self._find_renamed(name)

    def _find_renamed(self, name: str) -> str:
        """Return the path in this view of a note that was renamed, or ""."""
        if self._now is not None:
            try:
                return self.follow(self._now._find(name))
            except NoteNotFoundError:
                return ""
        renames: dict[str, str] = {}
        for old, new in self._moves:
            renames.setdefault(old, renames.get(new, new))
        path = renames.get(LinkNames(renames).resolve(name, "") or "", "")
        return path if path in self._graph.documents else ""

    @cached_property
    def _graph(self) -> LinkGraph:
        return LinkGraph(self._seen)

    @cached_property
    def _records(self) -> dict[str, NoteRecord]:
        return {record.path: record for record in self._seen.view.records()}

    @cached_property
    def _moves(self) -> Sequence[tuple[str, str]]:
        """The renames from this view to now, or in all history, newest first."""
        from vaultmem.storage.git.log import walk_renames

        now_vault = self._now._seen if self._now is not None else self._seen
        last, own_commit = _find_commit(now_vault), _find_commit(self._seen)
        if not last:
            return []
        renames = walk_renames(
            now_vault.history, f"{own_commit}..{last}" if self._now is not None else last
        )
        commit_renames = ((each.previous, each.path) for each in renames)
        return [*_list_uncommitted(now_vault, last), *commit_renames]


def _find_commit(vault: Vault) -> str:
    """Return the commit of the view, else HEAD's, or ""."""
    if vault.view.sources:
        return vault.view.sources[0].commit
    head = vault.head()
    return head.commit if head is not None else ""


def _list_uncommitted(vault: Vault, commit: str) -> list[tuple[str, str]]:
    """Return old and new path of notes that were renamed in the folder with unchanged text."""
    if not vault.view.is_work_tree:
        return []
    tree, blobs = vault.history.tree(commit), vault.view.blobs()
    new = {blob: path for path, blob in blobs.items() if path not in tree}
    removed_entries = ((path, entry.blob) for path, entry in tree.items() if path not in blobs)
    return [(path, new[blob]) for path, blob in removed_entries if blob in new]
