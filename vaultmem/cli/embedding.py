"""The command that prepares recall by meaning, and what recall and pack need of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.opening import open_synced
from vaultmem.cli.options import JsonOption, VaultOption
from vaultmem.cli.output import ProgressLine, emit_json, say, warn
from vaultmem.cli.quick_typer import PlainCommand

if TYPE_CHECKING:
    from vaultmem.services.embedding.score import DenseScorer
    from vaultmem.vault import Vault


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("embed", cls=PlainCommand)(embed)


def embed(
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="static, onnx or endpoint; else as vaultmem.yaml says.",
            show_default=False,
        ),
    ] = "",
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Prepare recall by meaning: make the vectors that are missing.

    It can be interrupted at any time, and goes on where it was.
    """
    from vaultmem.services.embedding.embed import drop_garbage, embed_sections
    from vaultmem.services.embedding.meaning import choose_model, open_meaning

    opened = open_synced(vault)
    meaning = open_meaning(opened, choose_model(opened, model))
    done = embed_sections(opened, meaning, progress=ProgressLine("embedding sections"))
    drop_garbage(opened, meaning)
    if as_json:
        emit_json(done)
        return
    each = f", {done.added / done.seconds:,.0f} a second" if done.added else ""
    say(f"{done.embedded:,} of {done.sections:,} sections have vectors ({done.model})")
    say(f"{done.added:,} new{each}")


def open_scorer(vault: Vault, wanted: bool | None) -> DenseScorer | None:
    """Return what scores by meaning, if it is wanted; where it cannot be had, say so once."""
    if wanted is False or (wanted is None and vault.config.semantic == "off"):
        return None
    from vaultmem.errors import VaultError
    from vaultmem.services.embedding.score import find_scorer

    try:
        return find_scorer(vault, wanted, ProgressLine("embedding sections"))
    except VaultError as error:
        warn(f"found by words alone: {error}")
        return None


def describe_scorer(scorer: DenseScorer | None) -> dict[str, Any] | None:
    """Return which model scored, and how many sections have vectors; None where none did."""
    if scorer is None:
        return None
    if scorer.problem:
        warn(f"found by words alone: {scorer.problem}")
        return None
    if not scorer.embedded:
        warn("found by words alone: no section has a vector yet; run `vaultmem embed`")
    return {
        "model": scorer.meaning.embedder.name,
        "weight": scorer.weight,
        "embedded": scorer.embedded,
        "sections": scorer.sections,
    }
