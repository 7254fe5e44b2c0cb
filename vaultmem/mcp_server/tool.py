"""An MCP tool: its description, its function, and the token budget of its results."""

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
from vaultmem.operations.declaration import FrontEnd, Operation, list_arguments, read_request
from vaultmem.operations.schemas import Schema

if TYPE_CHECKING:
    from vaultmem.services.views.read_notes import FoundNote
    from vaultmem.vault import Vault


#: Default token budget for a note; longer notes are read in parts.
NOTE_BUDGET = 4_000

Row = TypeVar("Row")


def price(data: Any) -> int:
    """Return the tokens of data that a client shows its model, including JSON syntax.

    A text costs more as JSON, so data that fits a budget also fits as text.
    """
    return bound_tokens(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def fit_rows(
    rows: Sequence[Row], describe: Callable[[Row], Any], budget: int
) -> tuple[list[Row], bool]:
    """Return the first rows that fit into a budget, and whether some were omitted.

    At least one row is returned, unless there are none.
    """
    count = max(count_fitting((price(describe(row)) for row in rows), budget), 1)
    return list(rows[:count]), count < len(rows)


def list_rows(
    rows: Sequence[Row],
    describe: Callable[[Row], str],
    budget: int,
    head: str,
    foot: str,
    has_more: bool = False,
) -> tuple[str, list[Row]]:
    """Return a head and the rows that fit into a budget, quoted, one a line; and those rows.

    The foot is added if rows were omitted or the caller `has_more`.
    """
    fitting_rows, is_cut = fit_rows(rows, describe, budget - price([head, foot]))
    end = [foot] if is_cut or has_more else []
    return "\n".join([head, *(quote(describe(each)) for each in fitting_rows), *end]), fitting_rows


def truncate_text(text: str, offset: int, budget: int) -> tuple[str, int | None]:
    """Return the part of a text from `offset` that fits a budget, and the next offset.

    Offsets are in characters. The part fits as JSON and as a quote. It ends at a line end if
    possible.
    """
    rest = text[offset:]
    if _price_both(rest) <= budget:
        return rest, None
    low, high = 1, min(len(rest), 16 * budget)
    while low < high:  # Finds the longest prefix that fits.
        middle = (low + high + 1) // 2
        if _price_both(rest[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    end = rest.rfind("\n", low // 2, low) + 1 or low
    return rest[:end], offset + end


def _price_both(text: str) -> int:
    return max(price(text), bound_tokens(quote(text)))


def view_at_arguments(vault: Vault, arguments: dict[str, Any]) -> Vault:
    """Return the vault at the commit that the arguments name, or on its branch."""
    if not (arguments.get("at") or vault.ref):
        return vault
    from vaultmem.services.views.open_view import view_at

    return view_at(vault, arguments.get("at", ""))


def read_shown(vault: Vault, arguments: dict[str, Any]) -> FoundNote:
    """Return the note or section that the arguments name.

    Raises:
        RefusedError: it is quarantined.
    """
    from vaultmem.services.views.read_notes import get_note

    note_vault, path = vault, arguments["path"]
    if ":" in path:
        from vaultmem.services.vaults.companions import open_addressed

        note_vault, path = open_addressed(vault, path)
    result = get_note(view_at_arguments(note_vault, arguments), path, arguments.get("full", False))
    if result.note.state == NoteState.QUARANTINED:
        raise RefusedError(
            f"{result.note.path}: quarantined, so it is not shown here; a person can read the file"
        )
    return result


class ToolAnswer(NamedTuple):
    """A tool's result: text for the model, and data for programs.

    Some clients show their model only the data, others only the text. The data therefore includes
    `message` (by default the text), because labels and quotation marks must reach every model.
    `data` is what a caller needs next; `detail` repeats the text as data or is for programs.
    """

    text: str
    data: dict[str, Any] = {}  # noqa: RUF012 - never changed.
    detail: dict[str, Any] = {}  # noqa: RUF012
    message: str | None = None

    def as_data(self, in_detail: bool = False) -> dict[str, Any]:
        """Return the data including the message."""
        message = self.text if self.message is None else self.message
        return {"message": message, **self.data, **(self.detail if in_detail else {})}


def run_operation(operation: Operation, vault: Vault, arguments: dict[str, Any]) -> ToolAnswer:
    """Run an operation with a tool's arguments; return its result."""
    return answer_request(operation, vault, read_request(operation.request, arguments))


def answer_request(operation: Operation, vault: Vault, request: Any) -> ToolAnswer:
    """Run an operation; return its lines without hints, and its data as detail."""
    result = operation.run(vault, request)
    lines = [one_line(f"{line.text}{line.rest}") for line in operation.lines(result, request)]
    message = "\n".join(line for line in lines if not line.startswith("hint:"))
    return ToolAnswer(message, detail=operation.data(result))


class ToolAction(NamedTuple):
    """One action of a tool that has several.

    `run` receives the vault, the request, and the result's token budget (0: not given). `fixed` are
    arguments that the action sets. `needs` are the required arguments, by default those that the
    request requires.
    """

    request: Any
    run: Callable[[Vault, Any, int], ToolAnswer]
    fixed: Mapping[str, Any] = {}
    needs: Sequence[str] = ()


def run_action(
    actions: Mapping[str, ToolAction], vault: Vault, arguments: dict[str, Any], tool: str = ""
) -> ToolAnswer:
    """Run a tool's action; missing arguments that it needs become "".

    Raises:
        RefusedError: a needed argument is missing, and `tool` is given.
    """
    action = actions[arguments["action"]]
    names = {each.name_for(FrontEnd.MCP): each for each in list_arguments(action.request)}
    needs = action.needs or [name for name, each in names.items() if each.is_required]
    if missing_names := [name for name in needs if tool and not arguments.get(name)]:
        raise RefusedError(f'{tool} {arguments["action"]} needs "{missing_names[0]}"')
    arguments = {**dict.fromkeys(needs, ""), **arguments, **action.fixed}
    request_values = {
        names[name].name if name in names else name: each for name, each in arguments.items()
    }
    return action.run(
        vault, read_request(action.request, request_values), arguments.get("budget", 0)
    )


def run_tool(
    run: Callable[[Vault, dict[str, Any]], ToolAnswer], arguments: dict[str, Any], vault: Vault
) -> tuple[str, dict[str, Any]]:
    """Run a tool; return its result as text and as plain data.

    Both report if the index is out of date.
    """
    answer = run(vault, arguments)
    if vault.notices.branches:
        answer = _label_branch(answer, escape_bytes(vault.notices.branches[-1]))
    fault_lines = [
        f"The index is out of date: {fault}; the next call catches up."
        for fault in vault.notices.faults
    ]
    warnings = list(dict.fromkeys(map(escape_bytes, vault.notices.suspicious)))
    text = "\n".join([answer.text, *warnings, *fault_lines[:1]])
    data = as_plain(answer.as_data(arguments.get("detail", False)))
    if warnings:
        data["message"] = "\n".join([data["message"], *warnings])
    if vault.notices.stale:
        message = append_stale_reason(vault, data["message"])
        return append_stale_reason(vault, text), {
            **data,
            "message": message,
            "behind": vault.notices.stale,
        }
    return text, data


def _label_branch(answer: ToolAnswer, branch: str) -> ToolAnswer:
    """Return a result that names the written branch."""
    notice = f"On {branch}, which is not checked out."
    message = "\n".join([answer.as_data()["message"], notice])
    data = {**answer.data, "ref": branch}
    return answer._replace(text=f"{answer.text}\n{notice}", data=data, message=message)


def append_stale_reason(vault: Vault, text: str) -> str:
    """Return a text with the reason why it is out of date, if it is."""
    return f"{text}\n\nBehind: {vault.notices.stale}" if vault.notices.stale else text


class Tool(NamedTuple):
    """One MCP tool.

    A tool that `writes` is not offered to read-only servers; its calls run one at a time.
    `destroys` and `repeatable` are hints to clients. If `names_branch` returns true for the
    arguments, `ref` is the tool's object, not the branch to work on. `renamed` maps retired
    argument names, accepted until the next version, to the current ones.
    """

    name: str
    title: str
    description: str
    input_schema: Schema
    output_schema: Schema
    run: Callable[[Vault, dict[str, Any]], ToolAnswer]
    writes: bool = False
    destroys: bool = False
    repeatable: bool = True
    names_branch: Callable[[dict[str, Any]], bool] = lambda _: False
    renamed: Mapping[str, str] = {}

    def rename(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments under their current names."""
        return {self.renamed.get(name, name): value for name, value in arguments.items()}
