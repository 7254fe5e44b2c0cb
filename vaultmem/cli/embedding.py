"""The command that prepares recall by meaning."""

from __future__ import annotations

from typing import Annotated

import typer

from vaultmem.cli.output import ProgressLine, emit_json, say
from vaultmem.cli.shared import Here, takes


@takes("vault", "as_json")
def embed(
    here: Here,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="static, onnx or endpoint; else as vaultmem.yaml says.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Prepare recall by meaning: make the vectors that are missing.

    It can be interrupted at any time, and goes on where it was.

    Examples:
      vaultmem embed --model static
    """
    from vaultmem.services.embedding.embed import drop_garbage, embed_sections
    from vaultmem.services.embedding.meaning import choose_model, open_meaning

    opened = here.open_synced()
    meaning = open_meaning(opened, choose_model(opened, model))
    done = embed_sections(opened, meaning, progress=ProgressLine("embedding sections"))
    drop_garbage(opened, meaning)
    if here.as_json:
        emit_json(done)
        return
    each = f", {done.added / done.seconds:,.0f} a second" if done.added else ""
    say(f"{done.embedded:,} of {done.sections:,} sections have vectors ({done.model})")
    say(f"{done.added:,} new{each}")
