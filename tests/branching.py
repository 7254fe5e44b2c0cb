"""What tests of branches do to a repository: commit on a branch from outside, and compare all."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import git

NOTE = """\
---
title: Session tokens
kind: semantic_fact
state: active
tags:
  - auth
reviewed-by: Birgit
---
# Session tokens

Tokens are opaque.

- They live for an hour.
- They are never logged.

## Rotation

Keys rotate weekly.
"""


def change(text: str, *pairs: str) -> str:
    """Replace the first of each pair, which must be there once, by the second."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


#: Bytes or text of a file; with a mode such as "100755" or "120000"; None where it is removed.
Content = str | bytes | tuple[str, str | bytes] | None


def copy_vault(template: Path, root: Path) -> Path:
    """Copy a vault to where a test wants it, which takes less time than to make one."""
    shutil.copytree(template, root, symlinks=True)
    git(root, "update-index", "-q", "--refresh")
    return root


def commit_on(
    root: Path,
    branch: str,
    files: Mapping[str, Content],
    message: str = "by git",
    who: str = "Bob <bob@example.org>",
) -> str:
    """Commit on a branch, made at HEAD if there is none; nothing that is checked out changes."""
    text, name = message.encode(), f"refs/heads/{branch}"
    stream = [b"committer %s now\ndata %d\n%s\n" % (who.encode(), len(text), text), b""]
    for path, content in files.items():
        quoted = b'"%s"' % "".join(f"\\{byte:03o}" for byte in os.fsencode(path)).encode()
        if content is None:
            stream.append(b"D %s\n" % quoted)
            continue
        mode, body = content if isinstance(content, tuple) else ("100644", content)
        data = body.encode() if isinstance(body, str) else body
        stream.append(b"M %s inline %s\n" % (mode.encode(), quoted))
        stream.append(b"data %d\n%s\n" % (len(data), data))
    command = ["git", "fast-import", "--quiet", "--done", "--date-format=now"]
    start, code = "", 1
    while code:  # Where somebody committed meanwhile, git changes nothing.
        start = git(root, "rev-parse", "-q", "--verify", name, check=False)
        stream[1] = b"from %s\n" % (start or git(root, "rev-parse", "HEAD")).encode()
        given = b"".join([b"commit %s\n" % name.encode(), *stream, b"done\n"])
        code = subprocess.run(command, cwd=root, input=given, capture_output=True).returncode
    return git(root, "rev-parse", name)


def read_at(root: Path, revision: str) -> bytes:
    """Return an object's bytes as git has them: `branch:path`."""
    done = subprocess.run(
        ["git", "cat-file", "blob", revision], cwd=root, capture_output=True, check=True
    )
    return done.stdout


def look_around(root: Path) -> dict[str, Any]:
    """Return all that a command may leave as it was: HEAD, index, staged changes, files, times."""
    files = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if name.split("/")[0] == ".git" or (file.is_dir() and not file.is_symlink()):
            continue
        status = file.lstat()
        data = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        files[name] = (status.st_mode, status.st_mtime_ns, status.st_ino, data)
    return {
        "HEAD": (root / ".git/HEAD").read_text() if (root / ".git").is_dir() else "",
        "commit": git(root, "rev-parse", "-q", "--verify", "HEAD", check=False),
        "index": git(root, "ls-files", "-s"),
        "staged": git(root, "diff", "--cached", "--no-ext-diff", "--no-textconv"),
        "files": files,
    }


def list_refs(root: Path) -> str:
    """Return all refs and what they are at."""
    return git(root, "for-each-ref", "--format=%(refname) %(objectname)")


def is_clean(root: Path) -> bool:
    """Tell whether work tree, index and HEAD are the same, and git finds the repository sound."""
    assert git(root, "status", "--porcelain", "-uall") == ""
    assert git(root, "diff-index", "--cached", "HEAD") == ""
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")
    return True


def tree_bytes(root: Path, revision: str) -> dict[str, tuple[str, bytes]]:
    """Return mode and bytes of each file in a commit, by path from the repository's root."""
    files = {}
    for line in filter(None, git(root, "ls-tree", "-r", "-z", revision).split("\0")):
        meta, _, path = line.partition("\t")
        mode, kind, blob = meta.split()
        if kind == "blob":
            files[path] = (mode, blob)
    wanted = "".join(f"{blob}\n" for _, blob in files.values()).encode()
    command = ["git", "cat-file", "--batch"]
    done = subprocess.run(command, cwd=root, input=wanted, capture_output=True, check=True)
    found, at = {}, 0
    for path, (mode, _) in files.items():
        end = done.stdout.index(b"\n", at)
        size = int(done.stdout[at:end].split()[2])
        found[path] = (mode, done.stdout[end + 1 : end + 1 + size])
        at = end + size + 2
    return found


def disk_bytes(root: Path) -> dict[str, tuple[str, bytes]]:
    """Return mode and bytes of each file on disk, as `tree_bytes` has them."""
    found = {}
    for file in root.rglob("*"):
        name = file.relative_to(root).as_posix()
        if name.split("/")[0] != ".git" and file.is_file() and not file.is_symlink():
            mode = "100755" if file.stat().st_mode & 0o100 else "100644"
            found[name] = (mode, file.read_bytes())
    return found
