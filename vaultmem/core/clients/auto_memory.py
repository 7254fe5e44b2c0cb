"""Files that a client writes as its own memory: their folder in a vault, and their properties.

Claude Code writes one file for each memory, with `name`, `description` and `type` at its start, and
lists them in MEMORY.md (code.claude.com/docs/en/memory). Its files are read unchanged.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from vaultmem.core.lifecycle import NoteKind

#: The folder of clients' own memories, with a folder for each client.
FOLDER = "memory"

#: The clients whose manual has a setting for the folder of their memory.
WRITERS = frozenset({"claude-code"})

#: In a client's folder: a folder for each project.
_PROJECTS = "projects"

#: The file that lists a client's memories; it states nothing else.
INDEX_NAME = "MEMORY.md"

#: Older versions write `type` as a property, newer ones as a line of `metadata`.
_TYPE = re.compile(r"(?m)^\s*type:\s*[\"']?(\w+)")
_SESSION = re.compile(r"(?m)^\s*originSessionId:\s*[\"']?([\w.-]+)")

#: The kinds of Claude Code's types. `feedback` is how the user wants work to be done.
_KINDS = {
    "user": NoteKind.SEMANTIC_FACT,
    "feedback": NoteKind.PREFERENCE,
    "project": NoteKind.SEMANTIC_FACT,
    "reference": NoteKind.SEMANTIC_FACT,
}


def choose_folder(client: str, project: str = "") -> PurePosixPath:
    """Return the folder of a client's memory, for a project or ("") for all of them."""
    folder = PurePosixPath(FOLDER) / client
    return folder / _PROJECTS / project if project else folder


def find_writer(path: str) -> str:
    """Return the client whose memory contains a path of the vault, "" if none does."""
    if not path.startswith(f"{FOLDER}/"):
        return ""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[1] in WRITERS else ""


def find_project(path: str) -> str:
    """Return the project of a path in a client's memory, "" if it has none."""
    parts = path.split("/")
    return parts[3] if len(parts) > 4 and parts[2] == _PROJECTS else ""


def is_memory_folder(folder: str, client: str) -> bool:
    """Return whether a folder of this machine has a name from `choose_folder`, in any vault."""
    parts = PurePosixPath(folder.replace("\\", "/")).parts
    ends = (parts[-2:], parts[-4:-1])
    return ends[0] == (FOLDER, client) or ends[1] == (FOLDER, client, _PROJECTS)


def read_kind(block: str) -> str:
    """Return the kind for the type in a memory's frontmatter, "" if it is missing."""
    match = _TYPE.search(block)
    return _KINDS.get(match[1], "") if match else ""


def read_session(block: str) -> str:
    """Return the session in a memory's frontmatter, "" if it is missing."""
    match = _SESSION.search(block)
    return match[1] if match else ""
