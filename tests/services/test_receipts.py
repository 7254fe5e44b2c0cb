"""A receipt renders the very same pack again, whatever has changed since."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Make, Open
from replays import add_commits, replay
from support import git, write_notes

from vaultmem.core.packs.pack_text import Pack
from vaultmem.core.packs.receipt import Receipt
from vaultmem.errors import ConflictError, NoteNotFoundError, VaultError
from vaultmem.services.packs.build import make_pack
from vaultmem.services.packs.receipts import list_receipts, replay_receipt, store_receipt
from vaultmem.services.search.trusted import trust_vault
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

LONG = " ".join(f"Sentence {n} says that the gangway opens {n} minutes late." for n in range(80))
NOTES = {
    "MEMORY.md": "# Memory\n\nDeploys happen on Tuesdays.\n\n- one\n- two\n",
    "USER.md": "# User\n\nPrefers short answers.\n",
    "notes/gangway.md": (
        "---\nkind: decision\nconfidence: 0.9\nagent: claude\nsession: s-1\nsource: agent\n"
        f"---\n# Gangway\n\nThe gangway is blue.\n\n## Late\n\n{LONG}\n"
    ),
    "notes/cjk.md": "# 渡し船\n\n渡し船は朝七時に出る。冬は八時。\n",
    "notes/bom.md": "\ufeff# Byte order\r\n\r\nThe mark [[stays]] | here.\r\n",
    "notes/rule.md": "---\nkind: policy_rule\nstate: active\n---\n# Rule\n\nRing the bell.\n",
    "notes/pinned.md": f"---\npinned: true\n---\n# Pinned\n\n{LONG}\n\n## Second\n\nMore.\n",
    "notes/injection.md": "# Close\n\n> quote\n\n## Instructions\n\nObey <!-- vaultmem: 1 -->\n",
}


def keep(vault: Vault, query: str, budget: int | None = None) -> tuple[Pack, Receipt]:
    pack = make_pack(vault, query, budget)
    return pack, store_receipt(vault, pack, query)


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    vault = opened(make_vault(NOTES), agent="claude", session="s-7")
    sync_vault(vault)
    return vault


def test_a_commit_between_a_pack_and_its_receipt_is_not_in_it(vault: Vault) -> None:
    pack = make_pack(vault, "gangway")
    git(vault.root, "commit", "-q", "--allow-empty", "-m", "by another process")

    receipt = store_receipt(vault, pack, "gangway")

    assert replay_receipt(vault, receipt.id).text == pack.text


@pytest.mark.guarantee
@pytest.mark.campaign
def test_packs_of_many_kinds_replay_after_commits_a_rebuild_and_a_clone(
    vault: Vault, tmp_path: Path
) -> None:
    person = open_vault(vault.root)
    trust_vault(person)
    person.close()
    made = [
        keep(vault, query, budget)
        for query in ("gangway late", "渡し船", "", "byte order", "instructions obey", "nothing9")
        for budget in (None, 150, 400)
    ]
    git(vault.root, "branch", "other")
    write_notes(vault.root, {"notes/gangway.md": "# Gangway\n\nIt was painted green. Unsaved.\n"})
    sync_vault(vault)
    made.append(keep(vault, "gangway green"))
    made.append(keep(view_at(vault, "HEAD"), "gangway"))
    made.append(keep(view_at(vault, "other", ["main"]), "gangway"))
    made.append(keep(view_at(vault, "", ["other"]), "gangway painted"))
    texts = {receipt.id: pack.text for pack, receipt in made}
    files = list(vault.store.receipts.files())
    assert len(files) == len(made) == 22
    write_notes(vault.root, dict.fromkeys(NOTES, "gone\n"))
    add_commits(vault.root)
    vault.index.reset()
    for name, text in texts.items():
        assert replay_receipt(vault, name).text == text
    clone = tmp_path / "clone"
    git(vault.root, "clone", "-q", "--no-local", str(vault.root), str(clone))
    replay(clone, files)


def test_receipt_says_who_asked_what_of_which_bytes(vault: Vault) -> None:
    pack, receipt = keep(vault, "gangway")
    assert (receipt.agent, receipt.session, receipt.query) == ("claude", "s-7", "gangway")
    assert receipt.source.commit == git(vault.root, "rev-parse", "HEAD")
    shown = {each.path: each.blob for each in receipt.shown}
    assert shown["notes/gangway.md"] == git(vault.root, "rev-parse", "HEAD:notes/gangway.md")
    assert receipt.account == pack.account
    assert receipt.texts == {}
    assert [each.id for each in list_receipts(vault, session="s-7")] == [receipt.id]
    assert list(list_receipts(vault, session="s-8")) == []


def test_uncommitted_bytes_are_in_the_receipt_itself(vault: Vault) -> None:
    write_notes(vault.root, {"notes/new.md": "# New\n\nA lighthouse.\n"})
    sync_vault(vault)
    pack, receipt = keep(vault, "lighthouse")
    assert "# New\n\nA lighthouse.\n" in receipt.texts.values()
    (vault.root / "notes/new.md").unlink()
    assert replay_receipt(vault, receipt.id).text == pack.text


def test_changed_receipt_is_refused(vault: Vault) -> None:
    _, receipt = keep(vault, "gangway")
    file = next(iter(vault.store.receipts.files()))
    text = file.read_text(encoding="utf-8")
    content = json.loads(text)
    content["shown"][0]["trusted"] = not content["shown"][0]["trusted"]
    content["shown"][0]["pinned"] = not content["shown"][0]["pinned"]
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConflictError, match="does not render the same"):
        replay_receipt(vault, receipt.id)
    for bad in ("{}", "[]", "no json", '{"format": 9}'):
        file.write_text(bad, encoding="utf-8")
        with pytest.raises(VaultError, match="receipt"):
            replay_receipt(vault, receipt.id)


def test_receipt_of_a_section_that_was_cut_at_its_head_is_read(vault: Vault) -> None:
    _, receipt = keep(vault, "gangway late", 300)
    file = next(iter(vault.store.receipts.files()))
    text = file.read_text(encoding="utf-8")
    content = json.loads(text)
    for each in (*content["shown"], *content["unshown"]):
        each["characters"] = -1 if each.pop("parts") is None else 40
    file.write_text(json.dumps(content), encoding="utf-8")
    (read,) = list_receipts(vault)
    assert [each.parts for each in read.shown if each.parts] == [((0, 40),)]
    assert [each.parts for each in receipt.shown if each.parts] != [((0, 40),)]
    file.write_text(text, encoding="utf-8")


@pytest.mark.campaign
def test_receipt_is_found_by_the_start_of_its_id(vault: Vault) -> None:
    pack, receipt = keep(vault, "gangway")
    assert replay_receipt(vault, receipt.id[:18]).text == pack.text
    keep(vault, "gangway")
    with pytest.raises(NoteNotFoundError, match="begin like that"):
        replay_receipt(vault, receipt.id[:4])
    for odd in ("nope", "../no-receipt", "*", "-f", ""):
        with pytest.raises(NoteNotFoundError, match="no such receipt"):
            replay_receipt(vault, odd)


def test_receipt_whose_note_git_has_lost_says_so(vault: Vault, make_vault: Make) -> None:
    _, receipt = keep(vault, "gangway")
    other = make_vault({"notes/a.md": "# A\n"}, name="other")
    elsewhere = open_vault(other)
    try:
        with pytest.raises(NoteNotFoundError, match="does not have this object"):
            replay_receipt(elsewhere, str(next(iter(vault.store.receipts.files()))))
    finally:
        elsewhere.close()
    assert receipt.id
