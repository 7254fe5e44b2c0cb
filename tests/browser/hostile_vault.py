"""A vault of 200 notes in which everything that somebody can name or write is an attack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from hostile_notes import read_hostile_notes
from support import git, write_notes

from vaultmem.core.sessions.turns import Turn
from vaultmem.services.sessions.windows import add_turns
from vaultmem.vault import open_vault

#: What runs, loads or poses wherever it is written without care.
PAYLOADS = [
    '"><script>hacked=1</script>',
    "'><img src=x onerror=hacked=1>",
    "<svg onload=hacked=1>",
    '" autofocus onfocus=hacked=1 x="',
    "javascript:hacked=1",
    "</title></textarea></style><script>hacked=1</script>",
    '<iframe srcdoc="<script>parent.hacked=1</script>">',
    '"><meta http-equiv=refresh content="0;url=//elsewhere.example/">',
    '"><link rel=stylesheet href=//elsewhere.example/a.css><base href=//elsewhere.example/>',
    "{{7*7}}{% raw %}${7*7}<%= 7*7 %>",
    '"><form action=//elsewhere.example><button data-key=y data-load=//elsewhere.example>',
    "\u202eevil\u2066<b onmouseover=hacked=1>\u0000\x1b[31m",
]

#: Where in a note a payload stands; `{p}` is the payload in quotes of JSON, which YAML reads too.
_NOTES = {
    "title": "---\ntitle: {p}\n---\nText.\n",
    "tag": "---\ntitle: Tag {n}\ntags: [{p}, hostile]\n---\nText.\n",
    "alias": "---\ntitle: Alias {n}\naliases: [{p}]\n---\nText.\n",
    "property": "---\ntitle: Property {n}\n{p}: {p}\nlist: [{p}, {p}]\nurl: {p}\n---\nText.\n",
    "state": "---\ntitle: State {n}\nstate: {p}\nkind: {p}\nagent: {p}\nsession: {p}\n---\nText.\n",
    "heading": "# {r}\n\n## {r}\n\nText of the heading.\n",
    "link": "# Link {n}\n\n[[{r}]] [[x|{r}]] [[x#{r}]] ![[{r}]] [{r}]({r}) ![{r}](<{r}>) <{r}>\n",
    "candidate": "---\ntitle: {p}\nstate: candidate\nagent: {p}\n---\nA candidate {r}\n",
    "quarantined": "---\ntitle: {p}\nstate: quarantined\nreason: {p}\n---\nNot to be read {r}\n",
    "session": "---\nkind: episodic_trace\nsession: h-{n}\nstatus: ok\nagent: {p}\n---\n"
    "# {r}\n\n## Summary\n\n{r}\n",
}

#: Messages and authors of commits.
_AUTHORS = [
    "<img src=x onerror=hacked=1>",
    "'\"</a><script>hacked=1</script>",
    "javascript:hacked=1",
]

_TRAILERS = ("Agent-Id", "Session-Id", "Intent", "Vault-Event")


def lay_hostile_vault(root: Path) -> list[str]:
    """Lay down the vault; return the paths of its notes."""
    root.mkdir()
    notes = {path: _encode(text) for path, text in _list_notes().items()}
    write_notes(root, notes)
    _run(root, "init", "--yes")
    vault = open_vault(root)
    add_turns(vault, "h-0", [Turn("user", each, "", each, (each,), each) for each in PAYLOADS])
    vault.close()
    for number, payload in enumerate(PAYLOADS):
        _commit(root, number, payload)
        _run(root, "pack", payload.replace("\0", "") or "x", "--budget", "500", agent=f"a{number}")
    return list(notes)


def _list_notes() -> dict[str, str]:
    notes = {
        f"notes/written/{number:03}.md": f"---\ntitle: {json.dumps(name)}\n---\n{text}"
        for number, (name, text) in enumerate(read_hostile_notes().items())
    }
    for number, payload in enumerate(PAYLOADS):
        plain = payload.replace("\0", "").replace("\x1b", "")
        for place, text in _NOTES.items():
            folder = "sessions" if place == "session" else "notes"
            name = f"h-{number}" if place == "session" else _name(plain, place)
            quoted = json.dumps(payload, ensure_ascii=False)
            filled = text.replace("{p}", quoted).replace("{r}", plain).replace("{n}", str(number))
            notes[f"{folder}/{name}.md"] = filled
    return notes


def _name(payload: str, place: str) -> str:
    """Return a name of a file that is an attack itself."""
    return f"{place} {payload.replace('/', '∕')}".strip()[:120]


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _commit(root: Path, number: int, payload: str) -> None:
    note = root / "notes/written/000.md"
    note.write_bytes(note.read_bytes() + f"\nLine {number}.\n".encode())
    plain = payload.replace("\0", "")
    author = _AUTHORS[number % len(_AUTHORS)].replace("<", "‹") + " <evil@elsewhere.example>"
    trailers = "\n".join(f"{name}: {plain}" for name in _TRAILERS)
    message = f"{plain}\n\n{trailers}\n"
    git(root, "add", "--all")
    git(root, "commit", "-q", f"--author={author}", "-F", "-", stdin=message)


def _run(root: Path, *words: str, agent: str = "") -> None:
    subprocess.run(
        [sys.executable, "-m", "vaultmem", *words],
        cwd=root,
        env={**os.environ, **({"VAULTMEM_AGENT": agent} if agent else {})},
        capture_output=True,
        check=True,
    )
