"""Make many vaults of real notes, each a bare git repository, as a fleet's remotes are.

    python benchmarks/fleet_remotes.py NOTES OUT --vaults 1000 --each 100

Which notes a vault has is drawn by a fixed seed, none twice in one vault. Where all vaults together
have more notes than the folder, a note is in several of them, with the same bytes.
"""

from __future__ import annotations

import argparse
import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from generate import SEED

#: When the commits of all vaults are dated, in seconds since the epoch.
_AT = 1_760_000_000


def make_remotes(notes: Sequence[Path], out: Path, vaults: int, each: int) -> list[str]:
    """Make the repositories and return their names, `NAME.git` in `out`; what is there stays."""
    rng = random.Random(SEED)
    texts = [note.read_bytes() for note in notes]
    names = []
    out.mkdir(parents=True, exist_ok=True)
    for number in range(vaults):
        name = f"agent-{number:04}"
        chosen = rng.sample(range(len(notes)), each)
        names.append(name)
        repository = out / f"{name}.git"
        if repository.exists():
            continue
        fresh = out / f".{name}.new"
        run = ["git", "init", "-q", "--bare", "-b", "main", str(fresh)]
        subprocess.run(run, check=True)
        stream = b"".join(_write_stream(name, [(notes[n].stem, texts[n]) for n in chosen]))
        run = ["git", "-C", str(fresh), "fast-import", "--quiet"]
        subprocess.run(run, input=stream, check=True)
        fresh.rename(repository)
    return names


def copy_remotes(names: Iterable[str], remotes: Path, out: Path) -> None:
    """Copy repositories that are written to, so that those that are kept stay as they are.

    Git's own clone links the files of objects, which are never written again, and writes the rest
    (refs, HEAD, config) anew.
    """
    for name in names:
        run = ["git", "clone", "-q", "--bare", "--local", f"{remotes / name}.git"]
        subprocess.run([*run, f"{out / name}.git"], check=True)


def _write_stream(name: str, notes: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield what `git fast-import` makes one commit of: the settings and the notes."""
    yield b"commit refs/heads/main\n"
    yield f"committer {name} <{name}@agents.localhost> {_AT} +0000\n".encode()
    yield _data(b"the notes of a vault\n")
    files = {"vaultmem.yaml": f"agent: {name}\n".encode()}
    for number, (stem, text) in enumerate(notes):
        files[f"notes/{stem}-{number}.md"] = text
    for path, text in files.items():
        yield f"M 100644 inline {path}\n".encode() + _data(text)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def main() -> None:
    """Make what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notes", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--vaults", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=100)
    given = parser.parse_args()
    files = sorted(given.notes.rglob("*.md"))
    print(len(make_remotes(files, given.out, given.vaults, given.each)), "vaults in", given.out)


if __name__ == "__main__":
    main()
