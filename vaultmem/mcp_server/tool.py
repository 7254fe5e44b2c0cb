"""A tool: its description for clients, the function that answers, and how long answers may be."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.packs.pack_item import quote
from vaultmem.core.text.display import escape_bytes, one_line
from vaultmem.core.text.json_values import as_plain
from vaultmem.core.text.token_count import bound_tokens, count_fitting
from vaultmem.errors import RefusedError
from vaultmem.operations.declaration import Front, Operation, list_arguments, read_request
from vaultmem.operations.schemas import Schema

if TYPE_CHECKING:
    from vaultmem.services.views.read_notes import FoundNote
    from vaultmem.vault import Vault


#: Tokens of a note that nobody set a budget for; it comes in parts.
NOTE_BUDGET = 4_000

Row = TypeVar("Row")


def price(shown: Any) -> int:
    """Return the tokens of what a client shows its model, its JSON marks included.

    A text costs more as JSON than as itself, so what is priced as data fits in either form.
    """
    return bound_tokens(json.dumps(shown, ensure_ascii=False, separators=(",", ":")))


def fit_rows(
    rows: Sequence[Row], describe: Callable[[Row], Any], budget: int
) -> tuple[list[Row], bool]:
    """Return the first rows that fit into a budget, and whether some were left out.

    At least one row is returned if there is any.
    """
    many = max(count_fitting((price(describe(row)) for row in rows), budget), 1)
    return list(rows[:many]), many < len(rows)


def list_rows(
    rows: Sequence[Row],
    describe: Callable[[Row], str],
    budget: int,
    head: str,
    foot: str,
    has_more: bool = False,
) -> tuple[str, list[Row]]:
    """Return rows in a line each, quoted, behind a head and within a budget; and those shown.

    The foot follows where some did not fit, or where it `has_more` than these rows.
    """
    shown, is_cut = fit_rows(rows, describe, budget - price([head, foot]))
    end = [foot] if is_cut or has_more else []
    return "\n".join([head, *(quote(describe(each)) for each in shown), *end]), shown


def truncate_text(text: str, offset: int, budget: int) -> tuple[str, int | None]:
    """Return what of a text from `offset` (in characters) fits a budget, and where to go on.

    It fits as data and as a quote. A cut is made at the end of a line where there is one.
    """
    rest = text[offset:]
    if _price_both(rest) <= budget:
        return rest, None
    low, high = 1, min(len(rest), 16 * budget)
    while low < high:  # The longest prefix that fits.
        middle = (low + high + 1) // 2
        if _price_both(rest[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    end = rest.rfind("\n", low // 2, low) + 1 or low
    return rest[:end], offset + end


def _price_both(text: str) -> int:
    return max(price(text), bound_tokens(quote(text)))


def view_at_arguments(vault: Vault, given: dict[str, Any]) -> Vault:
    """Return the vault at the commit that the arguments name, else on its branch as it is now."""
    if not (given.get("at") or vault.ref):
        return vault
    from vaultmem.services.views.open_view import view_at

    return view_at(vault, given.get("at", ""))


def read_shown(vault: Vault, given: dict[str, Any]) -> FoundNote:
    """Return the note or section that the arguments name, if it may be shown to an agent.

    Raises:
        RefusedError: it is quarantined.
    """
    from vaultmem.services.views.read_notes import get_note

    seen, path = vault, given["path"]
    if ":" in path:
        from vaultmem.services.vaults.companions import open_addressed

        seen, path = open_addressed(vault, path)
    found = get_note(view_at_arguments(seen, given), path, given.get("full", False))
    if found.note.state == NoteState.QUARANTINED:
        raise RefusedError(
            f"{found.note.path}: quarantined, so it is not shown here; a person can read the file"
        )
    return found


class ToolAnswer(NamedTuple):
    """What a tool says: text for the model, and data for programs.

    Some clients show their model the data alone, others the text alone. So the data has `told`, the
    text if not given: labels and quotation marks must reach every model. Beside it is what a
    caller needs to go on; what the text says already, or only a program asks for, is `detail`.
    """

    text: str
    data: dict[str, Any] = {}  # noqa: RUF012 - never changed.
    detail: dict[str, Any] = {}  # noqa: RUF012
    told: str | None = None

    def as_data(self, in_detail: bool = False) -> dict[str, Any]:
        """Return the data with what is told."""
        told = self.text if self.told is None else self.told
        return {"message": told, **self.data, **(self.detail if in_detail else {})}


def run_operation(operation: Operation, vault: Vault, given: dict[str, Any]) -> ToolAnswer:
    """Return what an operation answers to a tool's arguments."""
    return answer_request(operation, vault, read_request(operation.request, given))


def answer_request(operation: Operation, vault: Vault, asked: Any) -> ToolAnswer:
    """Return what an operation answers: its lines but for hints, and its data in detail."""
    done = operation.run(vault, asked)
    lines = [one_line(f"{line.text}{line.rest}") for line in operation.lines(done, asked)]
    told = "\n".join(line for line in lines if not line.startswith("hint:"))
    return ToolAnswer(told, detail=operation.data(done))


class ToolAction(NamedTuple):
    """One verb of a tool that has several.

    `run` is given the vault, the request, and the tokens that the answer may have, 0 where nothing
    says so. `fixed` are arguments that the action stands for, `needs` those that must be given: by
    default what the request requires.
    """

    request: Any
    run: Callable[[Vault, Any, int], ToolAnswer]
    fixed: Mapping[str, Any] = {}
    needs: Sequence[str] = ()


def run_action(
    actions: Mapping[str, ToolAction], vault: Vault, given: dict[str, Any], tool: str = ""
) -> ToolAnswer:
    """Do what a tool's action says; what it needs and is not given is empty.

    Raises:
        RefusedError: it is not given, and the `tool` is named.
    """
    action = actions[given["action"]]
    names = {each.name_for(Front.MCP): each for each in list_arguments(action.request)}
    needs = action.needs or [name for name, each in names.items() if each.is_required]
    if lacking := [name for name in needs if tool and not given.get(name)]:
        raise RefusedError(f'{tool} {given["action"]} needs "{lacking[0]}"')
    given = {**dict.fromkeys(needs, ""), **given, **action.fixed}
    named = {names[name].name if name in names else name: each for name, each in given.items()}
    return action.run(vault, read_request(action.request, named), given.get("budget", 0))


def run_tool(
    run: Callable[[Vault, dict[str, Any]], ToolAnswer], given: dict[str, Any], vault: Vault
) -> tuple[str, dict[str, Any]]:
    """Return what a tool answers, as text and as data of plain types.

    Where the answer is older than the notes, both say so.
    """
    answer = run(vault, given)
    if vault.notices.branches:
        answer = _label_branch(answer, escape_bytes(vault.notices.branches[-1]))
    late = [
        f"The index is out of date: {fault}; the next call catches up."
        for fault in vault.notices.faults
    ]
    suspicious = list(dict.fromkeys(map(escape_bytes, vault.notices.suspicious)))
    text = "\n".join([answer.text, *suspicious, *late[:1]])
    data = as_plain(answer.as_data(given.get("detail", False)))
    if suspicious:
        data["message"] = "\n".join([data["message"], *suspicious])
    if vault.notices.stale:
        told = append_stale_reason(vault, data["message"])
        return append_stale_reason(vault, text), {
            **data,
            "message": told,
            "behind": vault.notices.stale,
        }
    return text, data


def _label_branch(answer: ToolAnswer, branch: str) -> ToolAnswer:
    """Return an answer that says on which branch it is that was written."""
    told = f"On {branch}, which is not checked out."
    both = "\n".join([answer.as_data()["message"], told])
    data = {**answer.data, "ref": branch}
    return answer._replace(text=f"{answer.text}\n{told}", data=data, told=both)


def append_stale_reason(vault: Vault, text: str) -> str:
    """Return a text with why it is older than the notes, where it is."""
    return f"{text}\n\nBehind: {vault.notices.stale}" if vault.notices.stale else text


class Tool(NamedTuple):
    """One tool.

    `writes` keeps it from servers that only read; its answers then come one after the other.
    `destroys` and `repeatable` are hints to clients before they call it. Where `names_branch` of
    what is given, its `ref` is what the tool works at, not where it works. `renamed` are names
    that arguments had, and still can have until the next version.
    """

    name: str
    title: str
    description: str
    takes: Schema
    gives: Schema
    run: Callable[[Vault, dict[str, Any]], ToolAnswer]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True
    names_branch: Callable[[dict[str, Any]], bool] = lambda _: False
    renamed: Mapping[str, str] = {}

    def rename(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by the names that they have now."""
        return {self.renamed.get(name, name): value for name, value in given.items()}
