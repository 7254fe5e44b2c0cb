"""States: which steps there are, who may make them, and that each is one commit with its reason."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from conftest import Make, Open
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support import git, note_at, write_notes

from vaultmem.core.lifecycle import TRANSITIONS, NoteState
from vaultmem.core.search.query import parse_query
from vaultmem.errors import RefusedError
from vaultmem.services.lifecycle.transition import change_state, promote_notes
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault

TEXT = "---\ntitle: T\nstate: {state}\n# a comment\nkind: {kind}\n---\n\nBody  \n"


def make_note(state: str = "active", kind: str = "semantic_fact") -> dict[str, str]:
    return {"notes/n.md": TEXT.format(state=state, kind=kind)}


def test_a_step_changes_the_state_says_why_and_is_one_commit(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(make_note())
    before = git(root, "rev-parse", "HEAD")

    done = change_state(
        opened(root, agent="claude"), ["notes/n.md"], NoteState.STALE, "not seen  since May"
    )

    assert (root / "notes/n.md").read_text() == (
        "---\ntitle: T\nstate: stale\n# a comment\nkind: semantic_fact\n"
        "state_reason: not seen since May\n---\n\nBody  \n"
    )
    assert [(m.path, m.before, m.after) for m in done.moves] == [("notes/n.md", "active", "stale")]
    assert git(root, "rev-list", f"{before}..") == done.report.commit
    assert git(root, "log", "-1", "--format=%an: %s%n%b").splitlines()[:3] == [
        "claude: state: n to stale",
        "notes/n.md: active to stale: not seen since May",
        "",
    ]
    assert "Vault-Event: state" in git(root, "log", "-1", "--format=%b")


def test_a_new_step_without_a_reason_leaves_no_old_one(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note())
    vault = opened(root)
    change_state(vault, ["notes/n.md"], NoteState.STALE, "old")

    change_state(vault, ["notes/n.md"], NoteState.ACTIVE)

    assert (root / "notes/n.md").read_text() == make_note()["notes/n.md"]


def test_the_state_that_it_has_already_is_no_step(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note())
    before = git(root, "rev-parse", "HEAD")

    assert change_state(opened(root), ["notes/n.md"], NoteState.ACTIVE).moves == ()
    assert git(root, "rev-parse", "HEAD") == before


def test_of_several_notes_all_go_in_one_commit_or_none(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "a\n", "notes/b.md": "b\n", "notes/c.md": "c\n"})
    write_notes(root, {"notes/c.md": "---\nstate: archived\n---\nc\n"})
    vault = opened(root)

    with pytest.raises(RefusedError, match="archived notes cannot become deprecated"):
        change_state(vault, ["notes/a.md", "notes/b.md", "notes/c.md"], NoteState.DEPRECATED)
    assert note_at(root, "notes/a.md").state == "active"

    done = change_state(vault, ["notes/a.md", "notes/b.md"], NoteState.DEPRECATED)
    assert git(root, "show", "--format=%s", "--name-only", done.report.commit).split("\n") == [
        "state: a and b to deprecated",
        "",
        "notes/a.md",
        "notes/b.md",
    ]


def test_what_a_person_wrote_is_committed_under_their_name_first(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(make_note())
    (root / "notes/n.md").write_text(make_note()["notes/n.md"] + "By hand.\n")

    change_state(opened(root, agent="claude"), ["notes/n.md"], NoteState.STALE)

    assert git(root, "log", "-2", "--format=%an: %s").splitlines() == [
        "claude: state: n to stale",
        "Maren Person: edit: n",
    ]


def test_a_machine_never_moves_what_is_pinned(make_vault: Make, opened: Open) -> None:
    text = "---\npinned: true\n---\nx\n"
    root = make_vault({"notes/n.md": text})
    for state in (NoteState.STALE, NoteState.DEPRECATED, NoteState.QUARANTINED):
        with pytest.raises(RefusedError, match="pinned"):
            change_state(opened(root, agent="claude"), ["notes/n.md"], state)
        with pytest.raises(RefusedError, match="pinned"):
            change_state(opened(root), ["notes/n.md"], state, is_machine=True)
    assert (root / "notes/n.md").read_text() == text

    change_state(opened(root), ["notes/n.md"], NoteState.STALE)
    assert note_at(root, "notes/n.md").state == "stale"


def test_only_a_person_lets_out_what_is_quarantined(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note())
    change_state(
        opened(root, agent="claude"), ["notes/n.md"], NoteState.QUARANTINED, "from a web page"
    )

    with pytest.raises(RefusedError, match="only a person"):
        change_state(opened(root, agent="claude"), ["notes/n.md"], NoteState.ACTIVE)

    change_state(opened(root), ["notes/n.md"], NoteState.ACTIVE)
    assert note_at(root, "notes/n.md").state == "active"


def test_whether_a_policy_counts_is_not_for_an_agent_to_say(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note(kind="policy_rule"))
    with pytest.raises(RefusedError, match="promoting_agents"):
        change_state(opened(root, agent="claude"), ["notes/n.md"], NoteState.STALE)

    (root / "vaultmem.yaml").write_text("promoting_agents: [claude]\n")
    change_state(opened(root, agent="claude"), ["notes/n.md"], NoteState.STALE)
    assert note_at(root, "notes/n.md").state == "stale"


def test_a_candidate_becomes_active_by_promotion_alone(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note("candidate"))

    with pytest.raises(RefusedError, match="vaultmem promote"):
        change_state(opened(root), ["notes/n.md"], NoteState.ACTIVE)


def test_a_reason_that_looks_like_a_credential_is_refused(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note())

    with pytest.raises(RefusedError, match="credential"):
        change_state(opened(root), ["notes/n.md"], NoteState.STALE, "key AKIA" + "IOSFODNN7EXAMPLQ")

    assert (root / "notes/n.md").read_text() == make_note()["notes/n.md"]


def test_hidden_states_leave_recall_at_once_and_stale_ranks_below(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({f"notes/{name}.md": "the gangway squeaks\n" for name in "abcd"})
    vault = opened(root)
    sync_vault(vault)
    change_state(vault, ["a"], NoteState.STALE)
    change_state(vault, ["b"], NoteState.DEPRECATED)
    change_state(vault, ["c"], NoteState.QUARANTINED)

    found = [hit.record.path for hit in recall(vault, parse_query("gangway"))]

    assert found == ["notes/d.md", "notes/a.md"]


def test_on_another_branch_it_is_a_commit_there(make_vault: Make, opened: Open) -> None:
    root = make_vault(make_note())
    git(root, "branch", "draft")
    vault = opened(root, ref="draft", agent="claude")
    sync_vault(vault)

    done = change_state(vault, ["notes/n.md"], NoteState.STALE, "draft only")

    assert "state: stale" in git(root, "show", "draft:notes/n.md")
    assert git(root, "log", "-1", "--format=%H %an", "draft") == f"{done.report.commit} claude"
    assert note_at(root, "notes/n.md").state == "active"


class Lives(RuleBasedStateMachine):
    """Notes that a person and an agent move at random, as they may."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name) / "vault"
        create_vault(self.root).vault.close()
        notes = {f"notes/{name}.md": f"---\ntitle: {name}\n---\n\n{name}\n" for name in "abc"}
        notes["notes/p.md"] = "---\ntitle: p\npinned: true\n---\n\np\n"
        notes["notes/r.md"] = "---\nkind: policy_rule\nstate: candidate\n---\n\nr\n"
        write_notes(self.root, notes)
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", "notes")
        self.states = {path: note_at(self.root, path).state for path in notes}
        self.bodies = {path: note_at(self.root, path).body for path in notes}

    @rule(
        name=st.sampled_from("abcpr"),
        state=st.sampled_from(NoteState),
        by_machine=st.booleans(),
        reason=st.sampled_from(["", "because"]),
    )
    def move(self, name: str, state: NoteState, by_machine: bool, reason: str) -> None:
        path = f"notes/{name}.md"
        before, text = self.states[path], (self.root / path).read_bytes()
        head = git(self.root, "rev-parse", "HEAD")
        vault = open_vault(self.root, agent="claude" if by_machine else "")
        try:
            if (before, state) == (NoteState.CANDIDATE, NoteState.ACTIVE):
                if by_machine and name == "p":
                    return
                made = len(promote_notes(vault, [path]).report.commits)
            else:
                made = len(change_state(vault, [path], state, reason).report.commits)
        except RefusedError:
            assert state not in TRANSITIONS[before] or by_machine
            assert (self.root / path).read_bytes() == text
            assert git(self.root, "rev-parse", "HEAD") == head
            return
        finally:
            vault.close()
        if before == state:
            assert made == 0
            return
        assert state in TRANSITIONS[before]
        assert before in TRANSITIONS[state], "each step has its way back"
        assert not (by_machine and name == "p"), "no machine moves what is pinned"
        assert not (by_machine and before is NoteState.QUARANTINED)
        assert made == 1
        assert git(self.root, "rev-list", f"{head}..").count("\n") == 0
        assert git(self.root, "show", f"HEAD~1:{path}") == text.decode().removesuffix("\n")
        self.states[path] = state

    @invariant()
    def everything_is_as_it_was_told(self) -> None:
        if not hasattr(self, "states"):
            return
        for path, state in self.states.items():
            note = note_at(self.root, path)
            assert (note.state, note.body, note.warnings) == (state, self.bodies[path], ())
        assert git(self.root, "status", "--porcelain") == ""

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


@pytest.mark.usefixtures("home")
class TestLives(Lives.TestCase):
    settings = settings(
        max_examples=2,
        stateful_step_count=8,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def test_the_table_of_steps_is_that_of_the_format() -> None:
    for state, targets in TRANSITIONS.items():
        assert state not in targets
        assert all(state in TRANSITIONS[target] for target in targets)
    assert NoteState.ARCHIVED not in TRANSITIONS[NoteState.ACTIVE]
    assert all(
        NoteState.QUARANTINED in TRANSITIONS[state] for state in set(NoteState) - {"quarantined"}
    )
