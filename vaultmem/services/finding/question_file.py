"""Read a file of questions, and add one to it that was taken from a receipt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.finding.questions import Question, add_question, list_questions
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.finding.receipts import find_receipt
from vaultmem.services.finding.wanted import WantedNotes
from vaultmem.storage.files import create_file, replace_file
from vaultmem.vault import Vault


class AddedQuestion(NamedTuple):
    """A question with the addresses of its notes, and whether it is new in its file."""

    question: Question
    is_new: bool


def read_file(file: Path) -> str:
    """Return the text of a file of questions.

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
    """Add a receipt's question to a file, which is made if it is not there.

    What answers it are the notes of these names, else those that its pack showed and that are not
    pinned.

    Raises:
        NoteNotFoundError: there is no such receipt or note.
        RefusedError: the pack had no question, showed nothing, or what looks like a credential was
            asked.
        ConflictError: somebody saved the file at the same moment.
    """
    kept = find_receipt(vault, receipt, in_files=True)
    asked = " ".join(kept.query.split())
    if not asked:
        raise RefusedError(f"{kept.id}: its pack was made without a question; take another")
    if find_secrets(asked):
        raise RefusedError(f"{kept.id}: its question has what looks like a credential")
    shown = dict.fromkeys(each.path for each in kept.shown if not each.pinned)
    if not (names or shown):
        raise RefusedError(f"{kept.id}: it shows pinned notes alone; name the note that answers")
    wanted = Question(0, asked, tuple(names or (f"[[{path}]]" for path in shown)))
    found = wanted._replace(notes=WantedNotes(vault).find_all(wanted))
    file = file.resolve()
    text = read_file(file) if file.exists() else ""
    known = [each for each in list_questions(text)[0] if each.text == asked]
    if known:
        return AddedQuestion(known[0], False)
    data = add_question(text, found, as_json=file.suffix != ".md").encode()
    name = PurePosixPath(file.name)
    if file.exists():
        replace_file(file.parent, name, blob_id(text.encode()), data)
    else:
        create_file(file.parent, name, data)
    return AddedQuestion(found, True)
