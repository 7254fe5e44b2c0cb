"""Trust travels signed by its owner's SSH key, and in no other way; real keys, real ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from clocks import DAY, Clock
from conftest import Make, Open
from in_process import run_here
from machines import Machine, Machines, MakeMachines
from support import git, write_notes

from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.health.doctor import check_trust
from vaultmem.services.search.trusted import (
    allow_key,
    list_trusted,
    sign_trust,
    sign_trusted,
    trust_vault,
    verify_signed,
)
from vaultmem.services.usage import evidence_refspecs, publish
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.machine_refs import REFS
from vaultmem.storage.trust_record import NAMESPACE, TrustList, format_list, parse_list, sign
from vaultmem.vault import UserFolders, Vault

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="signatures need OpenSSH's ssh-keygen"
)


RULE = "---\nkind: policy_rule\nstate: active\n---\n# Bell\n\nRing the bell {times}.\n"
BELL, HORN = "notes/bell.md", "notes/horn.md"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make keys of the owner and of somebody else."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("anna", "mallory"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@example.org"]
        subprocess.run([*command, "-f", str(folder / name)], check=True)
    return folder


class Pair:
    """Anna's two machines, each with folders of its own, and the remote between them."""

    def __init__(self, machines: Machines, opened: Open, folder: Path) -> None:
        self.folder, self.opened, self.clock = folder, opened, Clock()
        self.remote = machines.remote
        self.a, self.b = (self.open(machine) for machine in machines.all)
        self.anna = machines.all[0]

    def open(self, machine: Machine, **who: str) -> Vault:
        own = UserFolders(*(machine.home / kind for kind in UserFolders._fields))
        return self.opened(machine.root, now=self.clock, folders=own, **who)

    def send(self, vault: Vault) -> None:
        sync_vault(vault)
        ref = publish(vault)
        git(vault.root, "push", "-q", "origin", f"{ref}:{ref}")

    def receive(self, vault: Vault) -> list[str]:
        """Fetch what others sent; return what is trusted then."""
        git(vault.root, "fetch", "-q", "origin", *evidence_refspecs(vault))
        verify_signed(vault)
        return list_trusted(vault)

    def plant(self, text: str, signature: str, name: str = "0" * 16) -> None:
        """Push a list as whoever may push to the remote can."""
        tree = self.folder / f"planted-{name}"
        write_notes(tree, {"trust/x.json": text, "trust/x.sig": signature})
        git(tree, "init", "-q")
        git(tree, "add", "--all")
        git(tree, "commit", "-q", "-m", "x")
        git(tree, "push", "-q", "--force", str(self.remote), f"HEAD:{REFS}{name}.1")


@pytest.fixture
def pair(make_machines: MakeMachines, opened: Open, tmp_path: Path) -> Pair:
    notes = {BELL: RULE.format(times="twice"), HORN: RULE.format(times="never")}
    return Pair(make_machines(notes), opened, tmp_path)


def signed(vault: Vault) -> tuple[str, str]:
    """Return the list that was signed on a machine last, and its signature."""
    (found,) = vault.store.signed_trust.lists()
    return found.text, found.signature


def test_what_was_vouched_for_by_hand_elsewhere_trusts_nothing(pair: Pair) -> None:
    trust_vault(pair.a)
    pair.send(pair.a)
    assert pair.receive(pair.b) == []
    assert check_trust(pair.b).paths == (BELL, HORN)


def test_what_the_owner_signs_on_one_machine_counts_on_another_that_allows_the_key(
    pair: Pair, keys: Path
) -> None:
    assert trust_vault(pair.a) == [BELL, HORN]
    assert sign_trusted(pair.a, str(keys / "anna"))[1] == [BELL, HORN]
    pair.send(pair.a)
    assert pair.receive(pair.b) == []
    assert verify_signed(pair.b) == 1

    assert allow_key(pair.b, str(keys / "anna.pub")) == "anna@example.org"
    assert list_trusted(pair.b) == [BELL, HORN]
    assert not pair.b.trust.is_trusted()

    write_notes(pair.b.root, {BELL: RULE.format(times="for ever")})
    assert list_trusted(pair.b) == [HORN]


@pytest.mark.campaign
def test_a_note_that_a_newer_list_drops_is_trusted_no_more_and_old_lists_never_again(
    pair: Pair, keys: Path
) -> None:
    trust_vault(pair.a)
    sign_trusted(pair.a, str(keys / "anna"))
    old = signed(pair.a)
    pair.send(pair.a)
    allow_key(pair.b, str(keys / "anna.pub"))
    assert pair.receive(pair.b) == [BELL, HORN]

    write_notes(pair.a.root, {HORN: RULE.format(times="never").replace("active", "deprecated")})
    sign_trusted(pair.a, str(keys / "anna"))
    pair.send(pair.a)
    assert pair.receive(pair.b) == [BELL]

    pair.plant(*old)
    assert pair.receive(pair.b) == [BELL]
    for ref in git(pair.b.root, "for-each-ref", "--format=%(refname)", REFS).split():
        git(pair.b.root, "update-ref", "-d", ref)
    verify_signed(pair.b)
    assert list_trusted(pair.b) == [BELL]
    assert pair.receive(pair.b) == [BELL]


def test_a_signer_who_is_allowed_no_more_vouches_for_nothing_at_once(
    pair: Pair, keys: Path
) -> None:
    trust_vault(pair.a)
    sign_trusted(pair.a, str(keys / "anna"))
    pair.send(pair.a)
    allow_key(pair.b, str(keys / "anna.pub"))
    assert pair.receive(pair.b) == [BELL, HORN]
    allowed = pair.b.store.signers_file.read_text()

    pair.b.store.signers_file.write_text("")
    assert list_trusted(pair.b) == []
    pair.b.store.signers_file.write_text(allowed)
    assert list_trusted(pair.b) == [BELL, HORN]
    over = allowed.replace(" namespaces", ' valid-before="20200101" namespaces')
    pair.b.store.signers_file.write_text(over)
    assert list_trusted(pair.b) == []
    pair.b.store.signers_file.unlink()
    assert list_trusted(pair.b) == []


def make_list(vault: Vault, **changed: object) -> TrustList:
    notes = {path: record.body_digest for record in vault.view.records() if (path := record.path)}
    names = vault.store.find_names()
    return TrustList(4_000_000_000, "2026-01-01", names, notes)._replace(**changed)  # type: ignore[arg-type]


@pytest.mark.campaign
def test_attacks_gain_nothing(pair: Pair, keys: Path) -> None:
    sync_vault(pair.b)
    allow_key(pair.b, str(keys / "anna.pub"))
    good = format_list(make_list(pair.b))
    anna, mallory = keys / "anna", keys / "mallory"
    by_anna = sign(good.encode(), anna, NAMESPACE)
    other_vault = format_list(make_list(pair.b, names=("0" * 40 + " ",)))
    no_vault = format_list(make_list(pair.b, names=("",)))
    attacks = {
        "another key": (good, sign(good.encode(), mallory, NAMESPACE)),
        "another purpose": (good, sign(good.encode(), anna, "git")),
        "another text": (good.replace("4000000000", "4000000001"), by_anna),
        "another form": (good.replace("\n", "\n "), by_anna),
        "another vault": (other_vault, sign(other_vault.encode(), anna, NAMESPACE)),
        "no vault": (no_vault, sign(no_vault.encode(), anna, NAMESPACE)),
        "no signature": (good, ""),
        "nonsense": ("[]", "\x00" * 100),
        "huge": (good + " " * 2_000_000, by_anna),
        "huge signature": (good, by_anna + "x" * 9_000),
        "deep": ("[" * 200_000, by_anna),
    }
    for number, attack in enumerate(attacks.values(), 1):
        pair.plant(*attack, name=f"{number:016x}")
    assert pair.receive(pair.b) == []

    pair.plant(good, by_anna, name="f" * 16)
    assert pair.receive(pair.b) == [BELL, HORN]


def test_a_link_among_the_evidence_is_not_followed(pair: Pair, keys: Path) -> None:
    allow_key(pair.b, str(keys / "anna.pub"))
    sync_vault(pair.b)
    good = format_list(make_list(pair.b))
    outside = pair.folder / "outside.json"
    outside.write_text(good)
    tree = pair.folder / "links"
    write_notes(tree, {"trust/x.sig": sign(good.encode(), keys / "anna", NAMESPACE)})
    (tree / "trust/x.json").symlink_to(outside)
    git(tree, "init", "-q")
    git(tree, "add", "--all")
    git(tree, "commit", "-q", "-m", "x")
    git(tree, "push", "-q", str(pair.remote), f"HEAD:{REFS}{'0' * 16}.1")
    assert pair.receive(pair.b) == []


@pytest.mark.parametrize("whose", ["mine", "a colleague's", "the vault's", "named by the vault"])
def test_of_the_signers_that_git_allows_only_the_person_counts(
    pair: Pair, keys: Path, home: Path, whose: str
) -> None:
    trust_vault(pair.a)
    sign_trusted(pair.a, str(keys / "anna"))
    pair.send(pair.a)
    inside = whose == "the vault's"
    file = (pair.b.root if inside else pair.folder) / "signers"
    file.write_text(f"anna@example.org {(keys / 'anna.pub').read_text()}")
    email = "ben@example.org" if whose == "a colleague's" else "anna@example.org"
    where = "--local" if whose == "named by the vault" else "--global"
    git(pair.b.root, "config", where, "gpg.ssh.allowedSignersFile", str(file))
    git(pair.b.root, "config", where, "user.email", email)

    assert pair.receive(pair.b) == ([BELL, HORN] if whose == "mine" else [])


def test_verified_lists_are_read_without_ssh_keygen_until_a_day_is_over(
    pair: Pair, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust_vault(pair.a)
    sign_trusted(pair.a, str(keys / "anna"))
    pair.send(pair.a)
    allow_key(pair.b, str(keys / "anna.pub"))
    assert pair.receive(pair.b) == [BELL, HORN]

    with monkeypatch.context() as patch:
        tools = Path(str(shutil.which("git"))).parent
        alone = pair.folder / "bin"
        alone.mkdir()
        (alone / "git").symlink_to(tools / "git")
        patch.setenv("PATH", str(alone))
        assert list_trusted(pair.b) == [BELL, HORN]
        pair.clock.at += DAY
        assert list_trusted(pair.b) == []
        with pytest.raises(VaultError, match="ssh-keygen: not found"):
            sign_trust(pair.a, {}, str(keys / "anna"))
    pair.clock.at += DAY
    assert list_trusted(pair.b) == [BELL, HORN]


def test_only_a_person_signs_and_allows(pair: Pair, keys: Path) -> None:
    agent = pair.open(pair.anna, agent="claude")
    trust_vault(pair.a)
    with pytest.raises(RefusedError, match="only a person"):
        sign_trusted(agent, str(keys / "anna"))
    with pytest.raises(RefusedError, match="only a person"):
        allow_key(agent, str(keys / "mallory.pub"))


def test_nothing_is_signed_where_nothing_is_trusted(pair: Pair, keys: Path) -> None:
    with pytest.raises(RefusedError, match="say `vaultmem trust` first"):
        sign_trusted(pair.a, str(keys / "anna"))


TWO_KEYS = "x ssh-ed25519 AAAA\ny ssh-ed25519 AAAA"


@pytest.mark.parametrize("given", ["", "no key", "a b ssh-ed25519 AAAA", TWO_KEYS])
def test_what_is_no_public_key_is_not_allowed(pair: Pair, given: str) -> None:
    with pytest.raises(RefusedError):
        allow_key(pair.a, given)
    assert not pair.a.store.signers_file.exists()


def test_a_list_has_one_text_alone() -> None:
    listed = TrustList(1, "2026-01-01", ("r ",), {"notes/a.md": "0" * 64})
    text = format_list(listed)
    assert parse_list(text) == listed
    for old, new in (("\n", ""), (": 1", ": true"), ("0" * 64, "0"), ('"notes"', '"note"')):
        assert parse_list(text.replace(old, new)) is None


def test_the_commands_say_what_counts_and_how(make_vault: Make, keys: Path) -> None:
    root = make_vault({BELL: RULE.format(times="twice")})
    run_here("trust", cwd=root)
    done = run_here("trust", "--sign", "--key", str(keys / "anna"), cwd=root)
    assert done.out.startswith(f"signed   {BELL}\n1 active")
    assert "by maren@example.org; " in done.out
    done = run_here("trust", "--allow-signer", str(keys / "mallory.pub"), "--json", cwd=root)
    assert done.json == {"trusted": [BELL], "signer": None, "allowed": "mallory@example.org"}
    assert run_here("trust", "--sign", "--from", "x", cwd=root).code == 2
