"""Commands about links between notes: links, mv."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.links import (
    backlinks_json,
    broken_json,
    links_json,
    orphans_json,
    renamed_json,
)
from vaultmem.answers.notes import repaired_json
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.options import DryRunOption
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vaultmem.core.links.rewrite import LinkEdit
    from vaultmem.services.finding.links import FoundLink
    from vaultmem.vault import Vault


@takes("vault", "ref", "at", "agent", "as_json")
def links(
    here: Here,
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="The note; else the broken links of all notes.")
    ] = "",
    to: Annotated[bool, typer.Option("--to", help="The links of other notes to it.")] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="The notes that no other note links to.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Change the broken links to files that were moved since."),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """List what a note links to, or what links to it.

    What leads nowhere is marked. Pinned notes and primed reference material are no orphans.
    --repair changes broken links whose file has another path now, in one commit.

    Examples:
      vaultmem links refund-rules
      vaultmem links --to refund-rules
      vaultmem links --orphans
      vaultmem links --repair --dry-run
    """
    from vaultmem.services.reading.read_notes import resolve_whole

    if (to and not path) or (orphans and (path or to)):
        raise typer.BadParameter("give PATH, --to PATH, or --orphans")
    if repair and (path or to or orphans or here.at):
        raise typer.BadParameter("--repair is about all notes as they are; give --dry-run at most")
    opened = here.open_view(reads=not repair or dry_run)
    if repair:
        _repair_links(opened, dry_run, here.as_json)
    elif path:
        show = _list_backlinks if to else _list_links
        show(opened, str(resolve_whole(opened, path)), here.as_json)
    elif orphans:
        _list_orphans(opened, here.as_json)
    else:
        _list_broken(opened, here.as_json)


def _repair_links(opened: Vault, dry_run: bool, as_json: bool) -> None:
    from vaultmem.services.notes.repair import plan_repair, repair_links

    done = plan_repair(opened) if dry_run else repair_links(opened)
    if as_json:
        emit_json(repaired_json(done, is_dry=dry_run))
        return
    _say_edits(done.edits)
    counted = f"{count_things(done.links, 'link')} in {count_things(len(done.edits), 'note')}"
    if done.edits:
        say_painted("would repair  " if dry_run else "repaired  ", "green", counted)
    else:
        say("No broken link leads to a file that was moved.")
    say_commits(done.report.commits)
    _warn_of_trust(done.untrusted)


def _say_edits(edits: Mapping[str, Sequence[LinkEdit]]) -> None:
    for path, made in edits.items():
        for edit in made:
            say(
                f"  {one_line(path)}:{edit.link.line}  {one_line(edit.old)} -> {one_line(edit.new)}"
            )


def _warn_of_trust(paths: Iterable[str]) -> None:
    for path in paths:
        warn(
            f"{path}: its text or path is another one now, so it may not instruct; promote it again"
        )


def _list_broken(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.finding.links import list_broken

    broken = list_broken(opened)
    if as_json:
        emit_json(broken_json(broken))
        return
    for each in broken:
        say(f"{one_line(each.source)}:{each.link.line}  {_as_written(each)}  no such note")
    say(count_things(len(broken), "broken link"))


def _list_links(opened: Vault, name: str, as_json: bool) -> None:
    from vaultmem.services.finding.links import list_links

    found = list_links(opened, name)
    if as_json:
        emit_json(links_json(name, found))
        return
    for each in found:
        target = "" if each.target is None else f"{each.target}{_subpath(each)}"
        missing = f"no such {each.missing}" if each.missing else ""
        say_painted(
            f"{each.link.line:>4}  ", "dim", f"{_as_written(each)}  {target}  {missing}".rstrip()
        )
    say(f"{count_things(len(found), 'link')}, {sum(bool(each.missing) for each in found):,} broken")


def _list_backlinks(opened: Vault, name: str, as_json: bool) -> None:
    from vaultmem.services.finding.links import list_backlinks

    found = list_backlinks(opened, name)
    if as_json:
        emit_json(backlinks_json(name, found))
        return
    for each in found:
        missing = f"  no such {each.missing}" if each.missing else ""
        say(f"{one_line(each.source)}:{each.link.line}  {_as_written(each)}{missing}")
    notes = len({each.source for each in found})
    say(f"{count_things(len(found), 'link')} from {count_things(notes, 'note')}")


def _list_orphans(opened: Vault, as_json: bool) -> None:
    from vaultmem.services.finding.links import list_orphans

    found = list_orphans(opened)
    if as_json:
        emit_json(orphans_json(found))
        return
    for record, count in found:
        say(f"{one_line(record.path)}{'' if count else '  (no links of its own either)'}")
    say(count_things(len(found), "orphan"))


@takes("vault", "ref", "agent", "as_json")
def mv(
    here: Here,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The note.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its new path, or a folder.")],
    dry_run: DryRunOption = False,
) -> None:
    """Rename or move a note; every link to it and from it holds.

    Interrupted, nothing is changed.

    Examples:
      vaultmem mv lint-before-commit "check before commit.md"
    """
    from vaultmem.services.notes.rename import plan_rename, rename_note

    opened = here.open_view()
    done = plan_rename(opened, old, new) if dry_run else rename_note(opened, old, new)
    if here.as_json:
        emit_json(renamed_json(done, is_dry=dry_run))
        return
    say_painted("would move  " if dry_run else "moved  ", "green", f"{done.old} -> {done.new}")
    _say_edits(done.edits)
    _warn_of_trust(done.new if path == done.old else path for path in done.untrusted)


def _as_written(found: FoundLink) -> str:
    link = found.link
    path = f"{link.path}{_subpath(found)}"
    if link.kind == "wikilink":
        text = f"[[{path}]]"
    elif link.kind == "markdown":
        text = f"[{link.text}]({path})"
    else:
        text = f"refs: {path}"
    return one_line(("!" if link.is_embed else "") + text)


def _subpath(found: FoundLink) -> str:
    return f"#{found.link.subpath}" if found.link.subpath else ""
