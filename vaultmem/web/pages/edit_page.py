"""Act on a note: edit its text, or pin, promote, replace, forget, move or restore it.

Each action is one commit by the owner, with undo. It applies only to the version of the note that
the page showed; otherwise nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.changes import diff_text
from vaultmem.core.notes.note import Note
from vaultmem.core.text.line_diff import Passage, find_line_end, mark_diff, match_lines
from vaultmem.errors import ForbiddenError, RefusedError, VaultError, VersionMismatchError
from vaultmem.vault import Vault
from vaultmem.web.markdown.html import RenderedNote, render_note
from vaultmem.web.page_requests import (
    answers,
    find_status,
    go_back,
    read,
    read_form,
    read_path,
    write,
)
from vaultmem.web.rendering import build_link_context, link_note, make_link, render_page

_LINE_END = re.compile(r"(\r\n|\r|\n)")


class Draft(NamedTuple):
    """A note's edited text, with its base version, the reason and a preview.

    `problem` is why it was not saved. `differences` are those to the current note, if
    another save came first.
    """

    note: Note
    text: str
    blob: str
    reason: str = ""
    problem: str = ""
    preview: RenderedNote | None = None
    differences: list[Passage] | None = None


def collect_draft(path: str, vault: Vault) -> Draft:
    """Return the text of a note to edit.

    Raises:
        RefusedError: the note is not UTF-8, or is a canvas.
    """
    note = _read_note(path, vault)
    return Draft(note, note.text, note.blob)


def _read_note(path: str, vault: Vault) -> Note:
    from vaultmem.services.changes.change import check_encoding
    from vaultmem.services.views.read_notes import read_as_written, resolve_whole

    note = read_as_written(vault, resolve_whole(vault, path))
    check_encoding(note)
    return note


def _preview(path: str, form: Mapping[str, str], problem: str, vault: Vault) -> Draft:
    """Return the edited text, rendered, or with the reason why it was not saved."""
    note = _read_note(path, vault)
    text = keep_line_ends(note.text, form.get("text", ""))
    draft = Draft(note, text, form.get("blob", ""), form.get("reason", ""), problem)
    if draft.blob != note.blob:
        diff, _, _ = diff_text(note.text, text)
        return draft._replace(blob=note.blob, differences=mark_diff(diff))
    if problem:
        return draft
    return draft._replace(preview=render_note(text, str(note.path), build_link_context("", vault)))


def keep_line_ends(old_text: str, text: str) -> str:
    r"""Return the text of a form with the line ends that its lines had before.

    Forms have `\r\n` at each end. New lines get the line end of the first line.
    """
    parts = _LINE_END.split(old_text)
    old_lines, ends = parts[::2], [*parts[1::2], ""]
    lines = _LINE_END.sub("\n", text).split("\n")
    new_ends = [find_line_end(old_text)] * (len(lines) - 1)
    for old_index, new_index, length in match_lines(old_lines, lines):
        for step in range(length):
            if new_index + step < len(new_ends):
                new_ends[new_index + step] = ends[old_index + step] or new_ends[new_index + step]
    return "".join(line + end for line, end in zip(lines, [*new_ends, ""], strict=True))


def _check_owner(request: Request) -> None:
    """Check that the owner may write, and that the page shows the served vault.

    Raises:
        ForbiddenError: the page is read-only, or shows another vault.
    """
    if not request.state.visitor.may_write or request.query_params.get("vault"):
        raise ForbiddenError("this page is read-only; run `vaultmem serve --write` to change notes")


@answers
async def show_edit(request: Request) -> Response:
    """Show the form with a note's text."""
    _check_owner(request)
    path = read_path(request, "/edit/")
    frame, draft = await read(request, partial(collect_draft, path))
    return render_page(request, "edit.html", vault=frame, draft=draft)


@answers
async def save_edit(request: Request) -> Response:
    """Save the edited text and redirect to the note, or show a preview.

    If saving fails, the text stays in the form, with the reason.
    """
    _check_owner(request)
    path, form = read_path(request, "/edit/"), await read_form(request)
    problem, status = "", 200
    if form.get("action") != "preview":
        try:
            message, commit = await write(request, partial(_act, path, {**form, "action": "edit"}))
            return go_back(request, link_note(path), message, commit)
        except VaultError as error:
            problem, status = str(error), find_status(error)
    frame, draft = await read(request, partial(_preview, path, form, problem))
    return render_page(request, "edit.html", status, vault=frame, draft=draft)


# Actions on a note: each returns a message and the commit to undo, "" if there is none.

Form = Mapping[str, str]
ActResult = tuple[str, str]


def _edit(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.services.memory.new_note import NoteUpdate, commit_update
    from vaultmem.services.views.read_notes import read_as_written

    text = keep_line_ends(read_as_written(vault, path).text, form.get("text", ""))
    update = NoteUpdate(text=text, reason=form.get("reason", ""))
    report = commit_update(vault, path, update, "write")
    message = f"{path}: saved." if report.commit else f"{path}: no changes to save."
    return " ".join([message, *vault.notices.suspicious]), report.commit


def _pin(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.services.memory.new_note import NoteUpdate, commit_update

    is_pinned = form["action"] == "pin"
    update = NoteUpdate({"pinned": True if is_pinned else None})
    report = commit_update(vault, path, update, form["action"])
    return f"{path}: {'pinned' if is_pinned else 'unpinned'}.", report.commit


def _promote(vault: Vault, path: PurePosixPath, _: Form) -> ActResult:
    from vaultmem.services.lifecycle.transition import promote_notes

    result = promote_notes(vault, [str(path)])
    return f"{path}: active{' and trusted' if result.trusted else ''}.", result.report.commit


def _supersede(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.operations.note_changes import supersede

    if not form.get("by"):
        raise RefusedError(f"{path}: name the note that replaces it")
    result = supersede(vault, str(path), form["by"], reason=form.get("reason", ""))
    return f"{result.old}: replaced by {result.new}.", result.report.commit


def _forget(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.services.memory.forget import forget_notes, select_notes

    selection = select_notes(vault, [str(path)])
    result = forget_notes(vault, selection.notes, form.get("reason") or "forgotten in the browser")
    return f"{path}: forgotten.", result.report.commit


def _move(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.operations.projects import move

    project = form.get("to", "")
    if not project:
        raise RefusedError(f"{path}: name the project, or global")
    result = move(vault, (str(path),), project)
    scope = f"in {result.project}" if result.project else "global"
    return f"{path}: now {scope}.", result.report.commit


def _restore(vault: Vault, path: PurePosixPath, form: Form) -> ActResult:
    from vaultmem.services.history.restore_note import restore_note

    result = restore_note(vault, str(path), form.get("commit", ""), commits=True)
    if not result.is_changed:
        return f"{result.path}: this is the current version; nothing was changed.", ""
    return f"{result.path}: restored from {result.commit[:7]}.", result.commits[-1][0]


_ACTIONS: Mapping[str, Callable[[Vault, PurePosixPath, Form], ActResult]] = {
    "edit": _edit,
    "pin": _pin,
    "unpin": _pin,
    "promote": _promote,
    "supersede": _supersede,
    "forget": _forget,
    "move": _move,
    "restore": _restore,
}


def _act(path: str, form: Form, vault: Vault) -> ActResult:
    """Run a form's action on the version of the note that the form names.

    Raises:
        RefusedError: the action or the version is unknown.
        VersionMismatchError: the note has changed.
    """
    from vaultmem.core.text.paths import parse_note_path
    from vaultmem.services.views.read_notes import read_as_written, resolve_whole

    act = _ACTIONS.get(form.get("action", ""))
    if act is None:
        raise RefusedError("invalid form; reload the page")
    if act is _restore:  # The note can be missing; a commit keeps its current text.
        return act(vault, parse_note_path(path), form)
    note_path, blob = resolve_whole(vault, path), form.get("blob", "")
    if blob != read_as_written(vault, note_path).blob:
        raise VersionMismatchError(
            f"{note_path}: changed since you opened the page; nothing was written"
        )
    return act(replace(vault, expected={str(note_path): frozenset([blob])}), note_path, form)


@answers
async def act_on_note(request: Request) -> Response:
    """Run one action on a note, and redirect to it."""
    _check_owner(request)
    path, form = read_path(request, "/note/"), await read_form(request)
    message, commit = await write(request, partial(_act, path, form))
    address = make_link("/") if form["action"] == "forget" else link_note(path)
    return go_back(request, address, message, commit)
