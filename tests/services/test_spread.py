"""What became of what a session wrote: who was shown it, who repeats it, and how it is undone.

The campaign plays sessions that write lies, sessions that are shown them and repeat, cite, correct
or ignore them, and people who write into the same notes. Whoever plays keeps the truth apart. Each
lie has a code that nothing else has, so a code in a pack is the lie, or a sentence that denies it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import pytest
from clocks import Clock, ask
from conftest import Make, Open
from support import git, write_notes

from vaultmem.core.text.timestamps import Verdict
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import edit_note
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.spread import find_spread
from vaultmem.services.sessions.undo_session import undo_session
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.query_log import SignalStore
from vaultmem.vault import Vault

#: Sessions of the campaign: its short form, and its full one.
SHORT, FULL = 20, 100

THINGS = ["staging database", "retry limit", "release branch", "cache folder", "deploy window"]
THINGS += ["queue", "log level", "region", "backup host", "owner"]
SERVICES = ["billing", "booking", "login", "search", "mail"]

#: How a session words what it was shown; the first is how it was told.
WORDINGS = [
    "The {thing} of the {service} service is {code}.",
    "In the {service} service, the {thing} is {code}.",
    "{code} is the {thing} of the {service} service.",
    "The {service} service's {thing} is {code}, as its owner confirmed.",
    "We use {code} as the {thing} of the {service} service.",
    "- {thing} of the {service} service: {code}",
]
DENIALS = [
    "The {thing} of the {service} service is not {code}.",
    "The {thing} of the {service} service is {other}, not {code}.",
]
NEUTRAL = [
    "The {thing} of the {service} service was reviewed on a Monday.",
    "Birgit asked how the {thing} of the {service} service is monitored.",
]
FILLER = ["The office closes at six.", "Tuuli reads the tide table each morning."]
FILLER += ["The printer on the second floor takes black ink.", "Ferries stop in heavy fog."]


@dataclass
class Lie:
    """A false statement: the session that wrote it, and which notes of others came to hold it."""

    thing: str
    service: str
    code: str
    session: str
    path: str = ""
    spread: set[tuple[str, str]] = field(default_factory=set)
    denials: list[str] = field(default_factory=list)
    witness: str = ""

    def word(self, form: str, other: str = "") -> str:
        return form.format(thing=self.thing, service=self.service, code=self.code, other=other)

    @property
    def question(self) -> str:
        return f"what is the {self.thing} of the {self.service} service"


class World:
    """A vault in which sessions follow each other; `lies` and `words` are what is true of it."""

    def __init__(self, root: Path, opened: Open, seed: int) -> None:
        self.root, self._open = root, opened
        self.clock = Clock()
        self.chance = random.Random(seed)
        self.lies: list[Lie] = []
        self.words: list[str] = []
        subjects = [(thing, service) for thing in THINGS for service in SERVICES]
        self._subjects = self.chance.sample(subjects, len(subjects))
        self._notes: list[str] = ["notes/shared.md"]

    def play(self, sessions: int) -> None:
        """Play so many sessions; each fifth tells a lie."""
        for number in range(sessions):
            vault = self.open(self.chance.choice(["claude", "codex", "gemini"]), f"s-{number:03}")
            start_session(vault, NewSession(vault.author.session))
            if number % 5 == 0:
                self._tell_lie(vault)
                summary = "Looked around."
            else:
                lies = self.chance.sample(self.lies[-4:], min(2, len(self.lies)))
                summary = " ".join(self._work(vault, lie) for lie in lies)
            self._add_filler(vault)
            close_session(vault, vault.author.session, summary=summary)
            self._let_others_write(vault)

    def open(self, agent: str = "", session: str = "") -> Vault:
        """Return the vault as somebody opens it, some minutes later."""
        self.clock.at += 600
        vault = self._open(self.root, agent=agent, session=session, now=self.clock)
        sync_vault(vault)
        return vault

    def is_shown(self, lie: Lie, vault: Vault) -> bool:
        """Ask for a pack about a lie's subject, and tell whether it says the lie."""
        sync_vault(vault)
        text = ask_pack(vault, AskPack(lie.question, receipt=True)).pack.text
        for denial in lie.denials:
            text = text.replace(denial, "")
        return lie.code in text

    def _make_code(self) -> str:
        return "".join(self.chance.choices("bcdfghjklmnp", k=5)) + str(self.chance.randint(10, 99))

    def _make_words(self, whose: str) -> str:
        self.words.append(f"{whose}{self._make_code()}")
        return f"{self.words[-1]} was here too."

    def _tell_lie(self, vault: Vault) -> None:
        lie = Lie(*self._subjects.pop(), self._make_code(), vault.author.session)
        self.lies.append(lie)
        told = lie.word(WORDINGS[0])
        if self.chance.random() < 0.3:
            before = self.open("claude", f"{vault.author.session}-witness")
            lie.witness = self._write(before, lie.word(self.chance.choice(WORDINGS[:3])))
            save_checkpoint(before, "seen before")
        lie.path = self._write(vault, told)
        self._notes.append(lie.path)
        if self.chance.random() < 0.4:
            self._append(vault, "notes/shared.md", told)

    def _work(self, vault: Vault, lie: Lie) -> str:
        """Ask about a lie; do with it what chance wants; return a part of the session's summary."""
        neutral = lie.word(self.chance.choice(NEUTRAL))
        if not self.is_shown(lie, vault):
            self._write(vault, neutral)
            return "Looked around."
        told = lie.word(self.chance.choice(WORDINGS))
        act = self.chance.choice(["repeat"] * 3 + ["embed", "add", "cite", "tell"] * 2 + ["deny"])
        act = self.chance.choice([act, act, act, "ignore"])
        path = ""
        if act == "repeat":
            path = remember(vault, Memory(told.removeprefix("- "))).path
        elif act == "embed":
            text = f"{self.chance.choice(FILLER)}\n\n{told}\n\n{self._make_words('by')}"
            path = self._write(vault, text)
        elif act == "add":
            path = self.chance.choice(["notes/shared.md", "notes/people.md"])
            self._append(vault, path, told)
        elif act == "cite":
            link = f"[[{PurePosixPath(lie.path).stem}]]"
            path = self._write(vault, f"{neutral} See {link}. {self._make_words('by')}")
        elif act == "tell":
            path = f"sessions/{vault.author.session}.md"
        elif act == "deny":
            denial = lie.word(self.chance.choice(DENIALS), self._make_code())
            lie.denials.append(denial)
            self._write(vault, denial)
        else:
            self._write(vault, neutral)
        if path not in {"", lie.witness}:  # A note that was there before is no note of the spread.
            lie.spread.add((vault.author.session, path))
        return f"Worked. {told.removeprefix('- ')}" if act == "tell" else "Looked around."

    def _let_others_write(self, vault: Vault) -> None:
        """Have people, and another session, write into notes that there are."""
        if self.chance.random() < 0.5:
            self._append_by_hand(self.chance.choice(self._notes))
        if self.chance.random() < 0.1:
            lie = self.chance.choice(self.lies)
            moved = f"notes/moved/{lie.code}.md"
            rename_note(self.open(), lie.path, moved)
            self._notes[self._notes.index(lie.path)] = lie.path = moved
            save_checkpoint(self.open(), "moved")
        if self.chance.random() < 0.3:
            other = self.open("gemini", f"{vault.author.session}-other")
            self._append(other, self.chance.choice(self._notes), self._make_words("other"))
            save_checkpoint(other, "more")

    def _append_by_hand(self, path: str) -> None:
        file = self.root / path
        file.write_text(f"{file.read_text()}\n{self._make_words('person')}\n")
        if self.chance.random() < 0.5:
            save_checkpoint(self.open(), "by hand")

    def _add_filler(self, vault: Vault) -> None:
        self._write(vault, f"{self.chance.choice(FILLER)} {self._make_code()} saw it.")

    def _write(self, vault: Vault, text: str) -> str:
        return remember(vault, Memory(text), force=True).path

    def _append(self, vault: Vault, path: str, text: str) -> None:
        edit_note(vault, PurePosixPath(path), lambda note: f"{note.text}\n{text}\n")


SEED_NOTES = {
    "notes/shared.md": "# What all write to\n\nThis page is Maren's.\n",
    "notes/people.md": "# People\n\nMaren leads. Jonas runs operations.\n",
}


def read_words(root: Path) -> str:
    """Return all that the notes say."""
    return "\n".join(file.read_text() for file in sorted(root.rglob("*.md")))


@pytest.mark.parametrize(
    "sessions",
    [
        pytest.param(SHORT, marks=pytest.mark.campaign),
        pytest.param(FULL, marks=pytest.mark.long),
    ],
)
def test_lies_are_found_where_they_spread_and_undone_with_them(
    sessions: int, make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    world = World(make_vault(SEED_NOTES), opened, seed=45)
    world.play(sessions)

    hits = wrong = missed = 0
    for lie in world.lies:
        found = {(x.session, x.path) for x in find_spread([world.open()], lie.session).reached}
        hits += len(found & lie.spread)
        wrong += len(found - lie.spread)
        missed += len(lie.spread - found)
    print(f"{sessions} sessions: {hits} found, {wrong} wrong, {missed} missed")
    assert hits >= sessions / 2
    assert hits / (hits + wrong) >= 0.95
    assert hits / (hits + missed) >= 0.95

    # Another machine has no receipt, only what the commits name.
    git(world.root, "clone", "-q", ".", str(elsewhere))
    clone = opened(elsewhere)
    sync_vault(clone)
    committed = set(git(elsewhere, "ls-files").split())
    hits = wrong = missed = 0
    for lie in world.lies:
        spread = {each for each in lie.spread if each[1] in committed}
        found = {(x.session, x.path) for x in find_spread([clone], lie.session).reached}
        hits += len(found & spread)
        wrong += len(found - spread)
        missed += len(spread - found)
    print(f"in a clone: {hits} found, {wrong} wrong, {missed} missed")
    assert hits / (hits + wrong) >= 0.95
    assert hits / (hits + missed) >= 0.95

    for lie in world.lies:
        owner = world.open()
        undone = undo_session(owner, lie.session, with_spread=True, apply=True)
        assert undone.report is not None
    reader = world.open("claude", "s-last")
    for lie in world.lies:
        assert lie.witness or not world.is_shown(lie, reader), lie
    words = read_words(world.root)
    assert [each for each in world.words if each not in words] == []
    assert "error" not in git(world.root, "fsck", "--strict", "--no-dangling", "--no-progress")
    checks = examine_vault(world.open(), now=time.time())
    assert [each for each in checks if each.verdict is Verdict.PROBLEM] == []


PORT = "The staging database listens on port 6543."


def say(opened: Open, root: Path, session: str, text: str, clock: Clock, title: str = "") -> str:
    """Remember a text in a session and commit it; return its note."""
    clock.at += 60
    vault = opened(root, agent="codex", session=session, now=clock)
    sync_vault(vault)
    path = remember(vault, Memory(text, title=title), force=True).path
    save_checkpoint(vault, "said")
    return path


def look(opened: Open, root: Path, session: str, clock: Clock) -> None:
    """Recall as a session does; a recall has no receipt."""
    clock.at += 60
    ask(opened(root, agent="codex", session=session, now=clock), "staging database port")


def reached(opened: Open, root: Path, target: str) -> list[tuple[str, str, str]]:
    vault = opened(root)
    sync_vault(vault)
    found = find_spread([vault], target).reached
    return [(each.session, each.path, each.relation.value) for each in found]


def test_only_what_was_written_after_it_was_shown_is_spread(
    make_vault: Make, opened: Open, clock: Clock
) -> None:
    root = make_vault()
    source = say(opened, root, "s-1", PORT, clock, "Staging port")
    say(opened, root, "s-2", f"I know: {PORT}", clock, "Unseen")
    say(opened, root, "s-3", f"I see: {PORT}", clock, "Before")
    for session in ("s-3", "s-4", "s-5"):
        look(opened, root, session, clock)
    told = "In staging, port 6543 is where the database listens."
    again = say(opened, root, "s-3", told, clock, "Reworded")
    cited = say(opened, root, "s-4", "Ports are listed in [[staging-port]].", clock, "Ports")
    say(opened, root, "s-5", f"{PORT[:-5]}5432. [[staging-port]] is wrong.", clock, "Right port")

    found = [("s-3", again, "repeats"), ("s-4", cited, "cites")]
    assert reached(opened, root, "s-1") == found
    assert reached(opened, root, source) == found
    commit = git(root, "log", "--format=%H", "--grep=said", "--reverse").split()[0]
    assert reached(opened, root, commit) == found


def test_who_repeats_a_statement_spreads_it_further(
    make_vault: Make, opened: Open, clock: Clock
) -> None:
    root = make_vault()
    source = say(opened, root, "s-1", PORT, clock, "Staging port")
    look(opened, root, "s-2", clock)
    second = say(opened, root, "s-2", f"Tuuli asked. {PORT}", clock, "Tuuli asked")
    git(root, "rm", "-q", source)
    git(root, "commit", "-qm", "gone")
    look(opened, root, "s-3", clock)
    third = say(opened, root, "s-3", f"Birgit asked. {PORT}", clock, "Birgit asked")

    found = reached(opened, root, "s-1")

    assert found == [("s-2", second, "repeats"), ("s-3", third, "repeats")]


def test_branches_and_other_vaults_are_searched_and_what_is_not_committed(
    make_vault: Make, opened: Open, clock: Clock
) -> None:
    root, other = make_vault({}, "one"), make_vault({}, "two")
    say(opened, root, "s-1", PORT, clock, "Staging port")
    look(opened, root, "s-2", clock)
    git(root, "branch", "plans")
    there = opened(root, agent="codex", session="s-2", ref="plans", now=clock)
    sync_vault(there)
    remember(there, Memory(f"Planned: {PORT}", title="Planned"), force=True)
    say(opened, other, "s-2", f"Noted: {PORT}", clock, "Noted")
    late = opened(root, agent="codex", session="s-2", now=clock)
    sync_vault(late)
    remember(late, Memory(f"Late: {PORT}", title="Late"), force=True)
    vaults = [opened(root), replace(opened(other), name="two")]
    for vault in vaults:
        sync_vault(vault)

    found = find_spread(vaults, "s-1").reached

    assert [(each.vault, each.path, each.branches) for each in found] == [
        ("", "notes/inbox/late.md", ()),
        ("", "notes/inbox/planned.md", ("plans",)),
        ("two", "notes/inbox/noted.md", ("main",)),
    ]


def test_another_machine_finds_the_spread_in_the_commits_alone(
    make_vault: Make, opened: Open, clock: Clock, tmp_path: Path
) -> None:
    root = make_vault({".gitignore": "own/\n", "own/port.md": f"# Own port\n\n{PORT}\n"})
    source = say(opened, root, "s-1", PORT, clock, "Staging port")
    before = say(opened, root, "s-2", f"I know: {PORT}", clock, "Before")
    look(opened, root, "s-2", clock)
    again = say(opened, root, "s-2", f"I see: {PORT}", clock, "After")
    say(opened, root, "s-2", "The office closes at six.", clock, "Office")
    git(root, "clone", "-q", ".", str(tmp_path / "elsewhere"))

    assert reached(opened, tmp_path / "elsewhere", "s-1") == [("s-2", again, "repeats")]
    logged = SignalStore((vault := opened(root)).state, vault.state_folder).shown_to("s-2")
    assert "own/port.md" in logged  # Git ignores it.
    form = "--format=%(trailers:key=Shown-Notes,valueonly,separator=%x2C)"
    *_, shown, of_the_last = git(root, "log", "--reverse", form).split("\n")
    assert set(shown.partition(" ")[2].split(" | ")) == {source, before}
    assert of_the_last == ""


def test_a_vault_that_shares_notes_alone_names_no_shown_note(
    make_vault: Make, opened: Open, clock: Clock
) -> None:
    root = make_vault({"vaultmem.yaml": "share_usage: false\n"})
    say(opened, root, "s-1", PORT, clock, "Staging port")
    look(opened, root, "s-2", clock)
    say(opened, root, "s-2", f"I see: {PORT}", clock, "After")
    assert "Shown-Notes" not in git(root, "log", "--format=%B")


def test_what_cannot_be_followed_is_refused(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault({"notes/bare.md": "---\ntags: [x]\n---\n"}))
    sync_vault(vault)
    with pytest.raises(RefusedError, match=r"notes/bare\.md: no statement in it"):
        find_spread([vault], "notes/bare.md")
    with pytest.raises(NoteNotFoundError, match=r"s-77.*no such session wrote a note, see"):
        find_spread([vault], "s-77")
    write_notes(vault.root, {"notes/ports.md": "# Ports\n\nGuests log in on port 6543.\n"})
    git(vault.root, "add", "-A")
    git(vault.root, "commit", "-qm", "Add a note of no session")
    for empty in ("", " ", "[[ ]]"):
        with pytest.raises(RefusedError, match="name a note, session or commit"):
            find_spread([vault], empty)
