"""Notes that a person renamed or moved in the folder: restored in place, and links repaired."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, hash_tree, write_notes

from vaultmem import Memory, remember, save_checkpoint, sync_vault
from vaultmem.core.text.timestamps import Verdict
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.health.status import read_status
from vaultmem.services.history.restore_note import restore_note
from vaultmem.services.memory.rename import plan_repair, rename_note, repair_links
from vaultmem.services.search.link_walk import list_backlinks, list_broken
from vaultmem.services.search.trusted import trust_vault
from vaultmem.vault import Vault

MATTER = "---\ncreated: 2026-11-01\nagent: claude\nsession: s-1\n---\n"
ELM = f"{MATTER}My dentist is Dr. Okafor in Elm Street.\n"
OAK = ELM.replace("Elm", "Oak")
INBOX, HEALTH = "notes/inbox/dentist.md", "notes/health/dentist.md"


def move(root: Path, old: str, new: str) -> None:
    (root / new).parent.mkdir(parents=True, exist_ok=True)
    (root / old).rename(root / new)


def list_notes(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in (root / "notes").rglob("*.md"))


class TestRestore:
    @pytest.fixture
    def vault(self, make_vault: Make, opened: Open) -> Vault:
        vault = opened(make_vault({INBOX: ELM, "notes/inbox/cat.md": "The cat is called Ilse.\n"}))
        sync_vault(vault)
        return vault

    @pytest.mark.parametrize("how", ["committed", "edited and committed", "folder", "edited", "mv"])
    @pytest.mark.parametrize("address", ["dentist", INBOX, HEALTH])
    def test_a_moved_note_is_restored_where_it_is_now(
        self, vault: Vault, how: str, address: str
    ) -> None:
        first = git(vault.root, "rev-parse", "HEAD")
        if how == "mv":
            rename_note(vault, "dentist", HEALTH)
        else:
            move(vault.root, INBOX, HEALTH)
        if "edited" in how:
            write_notes(vault.root, {HEALTH: OAK})
        if "committed" in how:
            save_checkpoint(vault, "moved")
            save_checkpoint(vault, "later")
        sync_vault(vault)

        done = restore_note(vault, address, first)

        assert (done.path, done.path_then) == (HEALTH, INBOX)
        assert list_notes(vault.root) == [HEALTH, "notes/inbox/cat.md"]
        assert (vault.root / HEALTH).read_text() == ELM
        assert done.is_changed == ("edited" in how)
        if "edited" in how:
            save_checkpoint(vault, "restored")
            assert git(vault.root, "show", f"HEAD~1:{HEALTH}") == OAK.strip()

    def test_a_note_of_another_text_is_not_what_a_removed_one_became(self, vault: Vault) -> None:
        write_notes(vault.root, {"notes/a.md": f"{MATTER}Ebb is at noon.\n"})
        save_checkpoint(vault, "one")
        first = git(vault.root, "rev-parse", "HEAD")
        (vault.root / "notes/a.md").unlink()
        write_notes(vault.root, {"notes/b.md": f"{MATTER}The pier is shut.\n"})
        save_checkpoint(vault, "another")
        assert "rename" in git(vault.root, "log", "-2", "--summary", "-M")

        done = restore_note(vault, "a", first)

        assert done.path == "notes/a.md"
        assert "pier" in (vault.root / "notes/b.md").read_text()

    @pytest.mark.campaign
    def test_a_note_that_was_moved_twice_and_removed_gets_its_last_path(self, vault: Vault) -> None:
        first = git(vault.root, "rev-parse", "HEAD")
        for old, new in ((INBOX, HEALTH), (HEALTH, "notes/teeth.md")):
            move(vault.root, old, new)
            save_checkpoint(vault, new)
        (vault.root / "notes/teeth.md").unlink()
        save_checkpoint(vault, "removed")

        assert restore_note(vault, "dentist", first).path == "notes/teeth.md"
        assert (vault.root / "notes/teeth.md").read_text() == ELM

    def test_on_a_branch_the_path_of_that_branch_counts(self, vault: Vault, opened: Open) -> None:
        first = git(vault.root, "rev-parse", "HEAD")
        git(vault.root, "switch", "-q", "-c", "side")
        move(vault.root, INBOX, HEALTH)
        write_notes(vault.root, {HEALTH: OAK})
        git(vault.root, "add", "-A")
        git(vault.root, "commit", "-q", "-m", "moved")
        git(vault.root, "switch", "-q", "main")
        side = opened(vault.root, ref="side")
        sync_vault(side)

        assert restore_note(side, "dentist", first).path == HEALTH
        assert git(vault.root, "show", f"side:{HEALTH}") == ELM.strip()
        assert restore_note(vault, "dentist", first).path == INBOX

    def test_the_command_says_where_and_lists_versions_without_at(self, vault: Vault) -> None:
        first = git(vault.root, "rev-parse", "HEAD")[:7]
        move(vault.root, INBOX, HEALTH)
        write_notes(vault.root, {HEALTH: OAK})
        save_checkpoint(vault, "moved")

        listed = run_here("restore", "dentist", cwd=vault.root)
        command = listed.out.splitlines()[-1].split("`")[1]
        found = run_here("restore", "dentist", "--json", cwd=vault.root).json
        done = run_here(*command.split()[1:], cwd=vault.root)

        assert listed.code == 0
        assert command == f"vaultmem restore dentist --at {first}"
        assert [each["path"] for each in found["versions"]] == [HEALTH, INBOX]
        assert done.out == f"restored  {HEALTH}  (as in {first}, there {INBOX})\n"


NOTES: Mapping[str, str | bytes] = {
    "notes/tyres.md": "# Winter tyres\n\nThe tyres are at Reifen Kurz. See [[car]].\n",
    "notes/car.md": "# Car\n\nIt is red.\r\n[[tyres#Winter tyres|them]] `[[tyres]]`\r\n",
    "notes/rule.md": "---\nkind: policy_rule\nrefs: [notes/tyres.md]\n---\n[[tyres]]\n",
    "notes/wish.md": "A link to a note that never was: [[ski]].\n",
    "notes/deep/far.md": "![x](../tyres.md) %% [[tyres]] %%\n",
    "notes/latin.md": b"[[tyres]] caf\xe9\n",
}
STORED = "notes/home/winter-tyres.md"


class TestRepair:
    @pytest.fixture
    def vault(self, make_vault: Make, opened: Open) -> Vault:
        vault = opened(make_vault(NOTES))
        sync_vault(vault)
        return vault

    @pytest.mark.parametrize("is_committed", [True, False])
    def test_links_follow_a_move_in_the_folder_and_nothing_else_changes(
        self, vault: Vault, is_committed: bool
    ) -> None:
        trust_vault(vault)
        move(vault.root, "notes/tyres.md", STORED)
        if is_committed:
            save_checkpoint(vault, "moved")
        sync_vault(vault)
        before = hash_tree(vault.root, skip=(".git",))

        plan = plan_repair(vault)
        assert hash_tree(vault.root, skip=(".git",)) == before
        done = repair_links(vault)

        assert done.edits == plan.edits
        assert (vault.root / "notes/car.md").read_bytes().decode() == str(
            NOTES["notes/car.md"]
        ).replace("[[tyres#", "[[winter-tyres#")
        rule = str(NOTES["notes/rule.md"]).replace("notes/tyres.md", STORED)
        assert (vault.root / "notes/rule.md").read_text() == rule.replace(
            "[[tyres]]", "[[winter-tyres]]"
        )
        far = "![x](../home/winter-tyres.md) %% [[winter-tyres]] %%\n"
        assert (vault.root / "notes/deep/far.md").read_text() == far
        after = hash_tree(vault.root, skip=(".git",))
        changed = {path for path in before if before[path] != after.get(path)}
        assert changed == {"notes/car.md", "notes/rule.md", "notes/deep/far.md"}
        assert done.untrusted == ("notes/rule.md",)
        sync_vault(vault)
        assert [each.link.path for each in list_broken(vault)] == ["tyres", "ski"]
        assert len(list_backlinks(vault, STORED)) == 4
        assert git(vault.root, "status", "--porcelain") == ""
        assert git(vault.root, "log", "-1", "--format=%an %s") == (
            "Maren Person repair links: car, far and rule"
        )
        assert git(vault.root, "show", "--format=", "--name-only", "HEAD").split() == sorted(
            changed
        )
        assert repair_links(vault).report.commits == ()

    @pytest.mark.campaign
    def test_a_moved_notes_own_links_and_an_attachment_follow_too(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault(
            {
                "notes/a.md": "[b](./b.md) ![[pics/boat.png]] and [[b]]\n",
                "notes/b.md": "Text.\n",
                "pics/boat.png": b"\x89PNG\0",
            }
        )
        move(root, "notes/a.md", "notes/deep/a.md")
        move(root, "pics/boat.png", "files/boat.png")
        vault = opened(root)
        sync_vault(vault)

        repair_links(vault)

        told = "[b](../b.md) ![[files/boat.png]] and [[b]]\n"
        assert (root / "notes/deep/a.md").read_text() == told

    def test_an_agents_repair_is_its_own_and_a_persons_move_the_persons(
        self, vault: Vault, opened: Open
    ) -> None:
        move(vault.root, "notes/tyres.md", STORED)
        agent = opened(vault.root, agent="claude", session="s-1")
        sync_vault(agent)

        repair_links(agent)

        assert git(vault.root, "log", "-2", "--format=%an: %s").splitlines() == [
            "claude: repair links: car, far and rule",
            "Maren Person: edit: winter-tyres",
        ]

    @pytest.mark.campaign
    def test_status_and_doctor_name_the_command(self, vault: Vault) -> None:
        move(vault.root, "notes/tyres.md", STORED)

        git_status = read_status(vault).git
        checks = {check.name: check for check in examine_vault(vault)}
        told = run_here("status", cwd=vault.root).out
        dry = run_here("links", "--repair", "--dry-run", cwd=vault.root)
        done = run_here("links", "--repair", "--json", cwd=vault.root).json
        again = run_here("links", "--repair", cwd=vault.root).out

        assert git_status is not None
        assert git_status.moved_links == 5
        assert checks["links"].verdict is Verdict.WARNING
        assert "`vaultmem links --repair`" in checks["links"].remedy
        assert "moved       5 links to files that were moved; `vaultmem links --repair`" in told
        assert "  notes/car.md:4  tyres -> winter-tyres\n" in dry.out
        assert dry.out.endswith("would repair  5 links in 3 notes\n")
        assert len(done["links"]) == 5
        assert done["commits"][-1]["subject"] == "repair links: car, far and rule"
        assert again == "No broken link leads to a file that was moved.\n"
        assert "moved  " not in run_here("status", cwd=vault.root).out

    def test_a_memorys_link_follows_its_note(self, make_vault: Make, opened: Open) -> None:
        vault = opened(make_vault({}))
        made = remember(vault, Memory("Winter tyres are at Reifen Kurz.", title="Winter tyres"))
        write_notes(vault.root, {"sessions/s-1.md": "Kept: [[Winter tyres]]\n"})
        save_checkpoint(vault, "kept")
        sync_vault(vault)
        name = made.path.rpartition("/")[2].removesuffix(".md")
        write_notes(vault.root, {"sessions/s-1.md": f"Kept: [[{name}]]\n"})
        move(vault.root, made.path, "notes/tyres.md")
        sync_vault(vault)

        repair_links(vault)

        assert (vault.root / "sessions/s-1.md").read_text() == "Kept: [[tyres]]\n"
