"""Generated packs: equal to what `pack` prints, whole at each moment, and nobody else's bytes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem import Vault, make_pack, parse_query, recall, save_checkpoint, sync_vault
from vaultmem.config import parse_config
from vaultmem.core.packs.context_file import BEGIN, END, ContextLine, parse_contexts, replace_block
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.changes.ownership import find_pending
from vaultmem.services.views.open_view import view_at
from vaultmem.services.watching.generated_context import RenderedContext, render_contexts

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/deploy.md": "# Deploy\n\nWe deploy by moving the tag.\n",
    "notes/odd.md": f"# Odd \u202e[x] | y\n\n```\n{BEGIN}\n{END}\n\u2028{BEGIN}\n\x0c{END}\r\n```\n"
    "👩\u200d🚀\ttab\n",
}


def render(vault: Vault) -> dict[str, RenderedContext]:
    sync_vault(vault)
    return {each.path: each for each in render_contexts(vault)}


def configure(root: Path, text: str) -> None:
    with open(root / "vaultmem.yaml", "a", encoding="utf-8") as file:
        file.write(text)


def kept_file(home: Path, data: bytes = f"{BEGIN}\n{END}\n".encode()) -> Path:
    file = home / "code" / "AGENTS.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def written_at(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_ino, status.st_mtime_ns


def test_context_holds_what_pack_prints(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)

    done = render(vault)

    assert done == {"CONTEXT.md": RenderedContext("CONTEXT.md", True)}
    assert (root / "CONTEXT.md").read_bytes() == make_pack(vault).text.encode()
    assert b"The ferry leaves at noon." in (root / "CONTEXT.md").read_bytes()


def test_an_unchanged_pack_is_not_written_and_a_changed_one_is(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    render(vault)
    before = written_at(root / "CONTEXT.md")

    assert not render(vault)["CONTEXT.md"].changed
    assert written_at(root / "CONTEXT.md") == before

    write_notes(root, {"MEMORY.md": "# Memory\n\nThe ferry leaves at one.\n"})
    assert render(vault)["CONTEXT.md"].changed
    assert b"leaves at one" in (root / "CONTEXT.md").read_bytes()
    assert [path.name for path in root.glob(".vaultmem-*")] == []


LINKING = """# Memory

See [[notes/pier#Hours|the pier]], ![[chart.png]] and [the quay](notes/quay.md), not `[[code]]`.

```
[[ -f x ]]
```
"""


def test_a_generated_pack_links_to_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault({"MEMORY.md": LINKING})

    render(opened(root))

    text = (root / "CONTEXT.md").read_text()
    assert "> See the pier (notes/pier#Hours), chart.png and the quay (notes/quay.md)" in text
    assert "`[[code]]`" in text
    assert "> [[ -f x ]]" in text


def test_the_place_of_the_vaults_own_pack_is_a_setting(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    render(opened(root))
    (root / ".obsidian").mkdir()

    assert list(render(opened(root))) == [".vaultmem/CONTEXT.md"]
    assert not (root / "CONTEXT.md").exists()
    assert git(root, "status", "--porcelain", "-uall") == ""

    (root / "vaultmem.yaml").write_text("context_file: Meta/Context.md\n")
    assert list(render(opened(root))) == ["Meta/Context.md"]
    assert not (root / ".vaultmem/CONTEXT.md").exists()
    assert "Meta/Context.md" not in find_pending(opened(root)).files
    (root / "vaultmem.yaml").write_text("context_file: none\n")
    assert render(opened(root)) == {}
    (root / "vaultmem.yaml").write_text("context_file: ../out.md\n")
    with pytest.raises(VaultError, match="leaves the vault"):
        opened(root)


@pytest.mark.campaign
def test_a_reader_never_sees_half_a_pack(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    render(vault)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add((root / "CONTEXT.md").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    written = set()
    for number in range(15):
        write_notes(root, {"MEMORY.md": f"# Memory\n\n{'Long. ' * 300 * (number % 3)}{number}\n"})
        render(vault)
        written.add((root / "CONTEXT.md").read_bytes())
    stop.set()
    reader.join()

    assert len(seen) > 5
    assert all(each.startswith(b"# Context  (vault ") and each.endswith(b"-->\n") for each in seen)
    assert len(seen - written) <= 1  # What stood there before.


def test_generated_packs_are_neither_indexed_nor_committed(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    configure(root, 'contexts:\n  - "agents/a [1].md: --budget 300 how do we deploy"\n')
    vault = opened(root)

    assert render(vault)["agents/a [1].md"].changed
    pack = make_pack(vault, "how do we deploy", 300).text
    assert (root / "agents/a [1].md").read_text() == pack
    assert set(find_pending(vault).files) == {"vaultmem.yaml"}
    save_checkpoint(vault, "all")
    sync_vault(vault)

    assert not {"CONTEXT.md", "agents/a [1].md"} & set(git(root, "ls-files").splitlines())
    assert {h.record.path for h in recall(vault, parse_query("deploy"))} == {"notes/deploy.md"}
    assert not render(vault)["agents/a [1].md"].changed  # Its first line names another commit.

    git(root, "add", "-f", "agents")
    git(root, "commit", "-q", "-m", "by hand")
    paths = {record.path for record in view_at(vault, "HEAD").view.records()}
    assert "notes/deploy.md" in paths
    assert not [path for path in paths if path.startswith("agents")]


@pytest.mark.parametrize("path", ["CONTEXT.md", "notes/mine.md"])
def test_a_file_that_vaultmem_did_not_write_is_kept(
    make_vault: Make, opened: Open, path: str
) -> None:
    root = make_vault()
    write_notes(root, {path: "# Context\n\nmy own words\n"})
    if path != "CONTEXT.md":
        configure(root, f'extra_packs: "{path}: deploy"\n')
    done = render(opened(root))

    assert not done[path].changed
    assert "kept; move it away" in done[path].problem
    assert (root / path).read_text() == "# Context\n\nmy own words\n"


def test_a_linked_context_is_not_followed(make_vault: Make, opened: Open, tmp_path: Path) -> None:
    root = make_vault(NOTES)
    target = tmp_path / "target"
    target.write_bytes(b"# Context  (vault x)\n")
    (root / "CONTEXT.md").symlink_to(target)

    assert "cannot be read safely" in render(opened(root))["CONTEXT.md"].problem
    assert target.read_bytes() == b"# Context  (vault x)\n"


def test_one_pack_that_fails_stops_no_other(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    configure(root, 'extra_packs: ["a.md: --budget 50 x", "b.md: ferry"]\n')
    done = render(opened(root))

    assert "budget of 100 tokens" in done["a.md"].problem
    assert done["b.md"].changed


def test_the_pack_of_a_configured_branch_is_kept(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    git(root, "checkout", "-q", "-b", "bot")
    write_notes(root, {"MEMORY.md": "# Memory\n\nThe bot's own.\n"})
    git(root, "commit", "-q", "-am", "bot")
    git(root, "checkout", "-q", "main")
    vault = opened(root, ref="bot")

    render(vault)

    assert b"The bot's own." in (root / "CONTEXT.md").read_bytes()
    assert (root / "CONTEXT.md").read_bytes().startswith(b"# Context  (vault bot@")


@pytest.mark.parametrize("eol", [b"\n", b"\r\n"])
@pytest.mark.parametrize(
    "head", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf# My rules\r\n\r\n", b"a\n \n"]
)
@pytest.mark.parametrize("tail", [b"", b"\r\nlast line without an end", b"\n\n  x\n", b" \r\n"])
@pytest.mark.parametrize("old", [b"", b"stale\nlines\n"])
def test_every_byte_outside_the_markers_stays(
    eol: bytes, head: bytes, tail: bytes, old: bytes
) -> None:
    data = head + BEGIN.encode() + eol + old + END.encode() + tail

    changed = replace_block(data, "one\n\ntwo\n")

    inside = b"one\n\ntwo\n".replace(b"\n", eol)
    assert changed == head + BEGIN.encode() + eol + inside + END.encode() + tail
    assert replace_block(changed, "one\n\ntwo\n") == changed


def test_a_text_with_a_marker_is_refused() -> None:
    with pytest.raises(RefusedError, match="nothing was written"):
        replace_block(f"{BEGIN}\n{END}\n".encode(), f"a\n{END} \n")


def test_a_block_in_another_file_holds_the_text_of_context(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    configure(root, "inject_context_into: ~/code/AGENTS.md\n")
    file = kept_file(home, f"\ufeff# Rules\r\n{BEGIN}\n{END}\nend".encode())
    file.chmod(0o600)
    vault = opened(root)

    assert render(vault)["~/code/AGENTS.md"].changed
    text = (root / "CONTEXT.md").read_text()
    assert file.read_bytes() == f"\ufeff# Rules\r\n{BEGIN}\n{text}{END}\nend".encode()
    lines = file.read_bytes().decode().split("\n")
    assert [lines.count(mark) for mark in (BEGIN, END)] == [1, 1]
    assert f"> {BEGIN}" in lines
    assert file.stat().st_mode & 0o777 == 0o600

    before = written_at(file)
    assert not render(vault)["~/code/AGENTS.md"].changed
    assert written_at(file) == before


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"# Rules\n", "add both lines"),
        (f"{BEGIN}\n".encode(), f'no line "{END}"'),
        (f"x {BEGIN}\n{END}\n".encode(), f'no line "{BEGIN}"'),
        (f"{END}\n{BEGIN}\n".encode(), "exchange the two lines"),
        (f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n".encode(), "more than once"),
        (f"{BEGIN}\n{END}\n".encode() + b"\xe9\n", "not UTF-8"),
        (f"{BEGIN}\n{END}\n".encode() + b"x" * 1024 * 1024, "larger than"),
        (f"{BEGIN}\n{END}\n".encode() + b"x" * (1024 * 1024 - 60), "larger than"),
    ],
)
def test_a_file_that_cannot_hold_a_block_is_untouched(
    make_vault: Make, opened: Open, home: Path, data: bytes, told: str
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home, data)
    configure(root, f"inject_context_into: {file}\n")

    done = render(opened(root))[str(file)]

    assert told in done.problem
    assert not done.changed
    assert file.read_bytes() == data


def test_missing_files_links_and_devices_are_told(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home)
    data = file.read_bytes()
    file.with_name("link.md").symlink_to(file)
    os.mkfifo(file.with_name("pipe.md"))
    names = ["missing.md", "link.md", "pipe.md"]
    listed = ", ".join(f'"{home}/code/{name}"' for name in names)
    configure(root, f'inject_context_into: [{listed}, "{home}/none/x.md", "{home}/code"]\n')

    problems = [each.problem for each in render(opened(root)).values()]

    assert problems[0] == ""
    assert "make it, with the lines" in problems[1]
    assert "cannot be read safely" in problems[2]
    assert "not a regular file" in problems[3]
    assert "there is no such file" in problems[4]
    assert "not a regular file" in problems[5]
    assert file.read_bytes() == data


def test_a_vault_that_nobody_trusts_writes_nothing_outside(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home)
    before = file.read_bytes()
    configure(root, f"inject_context_into: {file}\n")
    vault = opened(root)
    (record,) = home.rglob("trust/*.json")
    record.unlink()

    done = render(vault)

    assert "run `vaultmem trust`" in done[str(file)].problem
    assert file.read_bytes() == before
    assert done["CONTEXT.md"].changed


def test_a_note_cannot_hold_its_own_pack(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, "AGENTS.md": f"# Rules\n{BEGIN}\n{END}\n"})
    configure(root, "inject_context_into: AGENTS.md\n")
    assert "add it to `ignore`" in render(opened(root))["AGENTS.md"].problem

    configure(root, "ignore: AGENTS.md\n")
    vault = opened(root)
    assert render(vault)["AGENTS.md"].changed
    assert not render(vault)["AGENTS.md"].changed


@pytest.mark.campaign
def test_a_save_at_the_same_moment_is_never_lost(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home)
    configure(root, f"inject_context_into: {file}\n")
    vault = opened(root)
    stop = threading.Event()
    saves = 0
    told = ""

    def save() -> None:
        nonlocal saves
        while not stop.is_set():
            saves += 1
            spare = file.with_suffix(".new")
            spare.write_text(f"save {saves}\n{BEGIN}\nold\n{END}\nafter {saves}\n")
            spare.replace(file)

    person = threading.Thread(target=save)
    person.start()
    for number in range(12):
        write_notes(root, {"MEMORY.md": f"# Memory\n\nTide {number}.\n"})
        done = render(vault)[str(file)]
        told += done.problem
    stop.set()
    person.join()
    done = render(vault)[str(file)]

    assert done.problem == ""
    assert saves > 12
    # Where two saves met ours, one is the file and one a copy beside it.
    kept = {each.name: each.read_text().split("\n") for each in file.parent.glob("AGENTS*.md")}
    numbers = {name: lines[0].removeprefix("save ") for name, lines in kept.items()}
    assert str(saves) in numbers.values()
    assert all(lines[-2] == f"after {numbers[name]}" for name, lines in kept.items())
    assert len(set(numbers.values())) == len(numbers)
    text, number = (root / "CONTEXT.md").read_text(), numbers[file.name]
    assert file.read_text() == f"save {number}\n{BEGIN}\n{text}{END}\nafter {number}\n"
    assert all(name in told for name in kept if name != file.name)
    assert list(file.parent.glob(".vaultmem-*")) == []


def test_a_file_that_appears_later_is_written_then(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home)
    file.unlink()
    configure(root, f"inject_context_into: {file}\n")
    vault = opened(root)
    assert "there is no such file" in render(vault)[str(file)].problem

    file.write_bytes(f"a\r\n{BEGIN}\r\n{END}".encode())

    assert render(vault)[str(file)] == RenderedContext(str(file), True)
    inside = (root / "CONTEXT.md").read_bytes().replace(b"\n", b"\r\n")
    assert file.read_bytes() == f"a\r\n{BEGIN}\r\n".encode() + inside + END.encode()


def test_a_folder_that_cannot_be_written_is_told(
    make_vault: Make, opened: Open, home: Path
) -> None:
    root = make_vault(NOTES)
    file = kept_file(home)
    before = file.read_bytes()
    configure(root, f"inject_context_into: {file}\n")
    file.parent.chmod(0o500)
    if os.access(file.parent, os.W_OK):
        pytest.skip("root may write anywhere")
    done = render(opened(root))
    file.parent.chmod(0o700)

    assert "could not be written: Permission denied" in done[str(file)].problem
    assert file.read_bytes() == before
    assert done["CONTEXT.md"].changed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "extra_packs:\n  - a.md: how\n",
            '"extra_packs" must be one line of text; put each in double',
        ),
        ("extra_packs: [a.md: how]\n", '"extra_packs" must be one line of text'),
        ("extra_packs:\n  a.md: how\n", '"extra_packs" cannot be'),
        ('extra_packs: "a.md"\n', "not PATH: QUERY"),
        ('extra_packs: "../a.md: x"\n', "leaves the vault"),
        ('extra_packs: "/a.md: x"\n', "is absolute"),
        ('extra_packs: ".git/a.md: x"\n', "inside git's own folder"),
        ('extra_packs: ".x/a.md: x"\n', "is a hidden name"),
        ('extra_packs: "a.txt: x"\n', "does not end in .md"),
        ('extra_packs: "context.md: x"\n', "is made already"),
        ('extra_packs: ["a.md: x", "A.md: y"]\n', "is there twice"),
        ('extra_packs: "a.md: --budget few x"\n', "a budget of few"),
        ('extra_packs: "a.md: --budget"\n', "give a whole number"),
        ('extra_packs: "a.md: --limit 3 x"\n', "unknown option --limit"),
        ('extra_packs: "a.md: x\\ny"\n', "not PATH: QUERY"),
        ('inject_context_into: [""]\n', "not a file's name"),
        ('inject_context_into: "a\\0b"\n', "not a file's name"),
        ("inject_context_into:\n  a: b\n", '"inject_context_into" cannot be'),
    ],
)
def test_a_mistake_in_the_settings_names_key_and_remedy(text: str, told: str) -> None:
    with pytest.raises(VaultError) as error:
        parse_config(text)
    assert told in str(error.value)
    assert "vaultmem.yaml" in str(error.value)
    assert text.partition(":")[0] in str(error.value)


def test_settings_of_generated_packs_are_read() -> None:
    config = parse_config(
        "extra_packs:\n  - 'a/b.md:  --budget  800  how: x [1]'\n  - \"./c.md:\"\n"
        "inject_context_into: [~/x.md, y]\nignore: z\n"
    )
    assert parse_contexts(config.extra_packs) == (
        ContextLine("a/b.md", 800, "how: x [1]"),
        ContextLine("c.md", None, ""),
    )
    assert (config.ignore, config.generated) == (("z",), ("a/b.md", "c.md"))
    assert config.inject_context_into == ("~/x.md", "y")
