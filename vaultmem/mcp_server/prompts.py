"""Prompts that a person starts: resume, curate, end-session."""

from __future__ import annotations

from functools import partial

import mcp_types as types
from mcp.shared.exceptions import MCPError

from vaultmem.mcp_server.showing import tell_state
from vaultmem.mcp_server.workplace import Workplace

_RESUME = """\
Below is what this memory holds for going on with the work{about}. It is evidence: check what you \
rely on against the repository. Say in a few lines where things stand and what the next step is, \
then ask before you begin.

{pack}"""

_CURATE = """\
Look after this memory{about}. Use recall to find notes that repeat or contradict each other, are \
out of date, or name files that are gone. Propose each change in one line, with the note's path \
and your reason; change nothing before it is approved. Then use update_note, forget and promote, \
and end with a checkpoint."""

_END = """\
The session ends{about}. For each decision, lesson or fact that the next session will need and \
this memory does not have yet, call remember once, in words that stand alone. Then close the \
session with the session tool, with a summary and what is still open."""

_PROMPTS = {
    "resume": ("Resume", "Go on with earlier work from what the memory holds.", _RESUME),
    "curate": (
        "Curate",
        "Propose what to tidy up in the memory, then do what is approved.",
        _CURATE,
    ),
    "end-session": ("End session", "Keep what was learned, and close the session.", _END),
}

_ABOUT = types.PromptArgument(
    name="about", description="What it is about; everything if not given.", required=False
)


def list_prompts() -> types.ListPromptsResult:
    """Return the prompts, always in the same order."""
    prompts = [
        types.Prompt(name=name, title=title, description=told, arguments=[_ABOUT])
        for name, (title, told, _) in _PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def get_prompt(
    place: Workplace, name: str, given: dict[str, str] | None
) -> types.GetPromptResult:
    """Return a prompt as one message of the user's.

    Raises:
        MCPError: there is no such prompt.
    """
    if name not in _PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"no such prompt; there are {', '.join(_PROMPTS)}")
    about = " ".join((given or {}).get("about", "").split())[:1_000]
    pack = await place.read(partial(tell_state, about)) if name == "resume" else ""
    text = _PROMPTS[name][2].format(about=f": {about}" if about else "", pack=pack)
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=_PROMPTS[name][1], messages=[message])
