"""Which commands there are, what each is for, and which module has it.

`vaultmem --help` is made of this alone, without importing the commands or the library for them;
a test keeps each sentence equal to the first one of the command's own help.
"""

from __future__ import annotations

TYPE_CHECKING = False  # What `typing` has; importing that takes as long as the table.

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A heading, and below it a command, its module of this package and its sentence in each line.
_TABLE = """
Everyday
  init          vault_commands     Make a vault of a folder; nothing that is there is changed.
  connect       agent_commands     Let a client such as Claude Code use the vault.
  remember      note_commands      Write down a memory; the next question finds it.
  recall        search_commands    Find the notes that answer a question, best first.
  pack          search_commands    Print what an agent needs to know, within a token budget.
  get           note_commands      Print a note, or one section of it (NOTE#Heading).
  list          note_commands      List the notes, or those of a kind, state, tag or folder.
  review        curation_commands  Decide what waits: contradictions, duplicates, candidates.
  promote       commit_commands    Make candidate notes active, and commit them.
  checkpoint    commit_commands    Commit everything that changed, and say why.
  log           history_commands   Show what happened in the vault, newest first.
  status        health_commands    Show what the vault holds, and what is not committed.

Notes
  edit          note_commands      Open a note in your editor, and check it afterwards.
  mv            search_commands    Rename or move a note; every link to it and from it holds.
  tag           note_commands      Add tags to a note, or remove them.
  pin           note_commands      Show a note in every pack, or list what is pinned.
  links         search_commands    List what a note links to, or what links to it.
  forget        note_commands      Remove notes; git still has what was committed.

Finding
  why           history_commands   Show which notes mention a text, and who wrote them when.
  trace         history_commands   List the memories and decisions behind a file or line of code.
  similar       search_commands    List the notes that say the same as a text, or nearly.
  prime         exchange_commands  Take in reference material, a note for each heading.
  embed         evaluate_commands  Prepare recall by meaning: make the vectors that are missing.
  eval          evaluate_commands  Measure how well recall and packs answer your questions.

History
  show          history_commands   Show who made a commit, why, and what it changed.
  diff          history_commands   Show what changed in the notes between two commits.
  history       history_commands   Show what each commit did to a note, newest first.
  blame         history_commands   Show who wrote each line of a note, when and in which session.
  restore       history_commands   Write a note as it once was, as a new change.
  undo          history_commands   Take back what one commit did, as a new commit.
  bisect        assert_commands    Find the first commit at which a pack is not as expected.
  assert        assert_commands    Test what a pack says; made for `git bisect run`.

What agents saw
  recent        health_commands    Show what was shown last: what, to whom, for which question.
  replay        assert_commands    List the packs that agents got, or print one again.
  stats         health_commands    Show what recalls and packs cost in tokens, and saved.

Upkeep
  state         note_commands      Move a note to another state, and commit that.
  supersede     note_commands      Replace a note by another; each then names the other.
  dedup         search_commands    List the notes that say the same as another, or merge them.
  curate        curation_commands  Propose what to merge, archive, check or mend, with reasons.
  dream         curation_commands  Promote what was recalled often, and write it in DREAMS.md.
  compact       curation_commands  Shorten what nobody asks for; the full text stays in git.

Machines and branches
  sync          sync_commands      Commit, take in what other machines pushed, and push.
  branch        branch_commands    List the branches, or make, remove or move one.
  switch        branch_commands    Check out a branch.
  merge         branch_commands    Merge a branch into the one that is checked out.
  resolve       branch_commands    List what both sides of a merge said, or decide it.

Many vaults
  hub           hub_commands       Share vaults in a team: a place to push to, and who may.
  fleet         fleet_commands     Serve and compare many vaults, by their remotes.

Sessions, tasks and projects
  session       session_commands   Keep sessions: what an agent did, and where it stands.
  task          task_commands      Keep tasks: what is to be done, and what is next.
  projects      project_commands   List the projects, each with its notes and sessions.

Agents and other programs
  skill         agent_commands     Teach an agent when to recall, remember and promote.
  mcp           agent_commands     Serve the vault to an agent by the Model Context Protocol.
  import        exchange_commands  Take in what other programs remember, or an archived vault.

Watching and the page
  watch         sync_commands      Index what is saved, and commit what asks for it.
  serve         serve_commands     Show the vault in a browser, and watch it meanwhile.
  export        exchange_commands  Write the vault as one archive, as lines of JSON, or as pages.
  demo          vault_commands     Show a sample vault in a browser: notes, a week of history.

The vault itself
  doctor        health_commands    Check the vault, its repository and this machine.
  check         health_commands    Report what a change introduces or breaks in notes.
  vaults        vault_list         List your vaults, and how they are.
  trust         vault_commands     Say that this vault is yours: its policies count.
  index         vault_commands     Bring the index up to date, and name notes with problems.
  context       health_commands    Bring CONTEXT.md and other generated files up to date.

Run by other programs
  hook          agent_commands     Answer an agent's event; agents run this by themselves.
  merge-driver  merge_driver       Merge three versions of a note into OURS, for git.
  push-check    push_check         Check a push as git's pre-receive hook, by an access.yaml.
"""

#: What a command was called, and is now; the words that were given stand in place of `...`, or
#: behind it. They work until the next version.
RENAMED = {
    "backlinks": "links --to",
    "branches": "branch",
    "conflicts": "resolve",
    "family": "session family",
    "handoff": "task handoff",
    "orphans": "links --orphans",
    "pinned": "pin",
    "primed": "prime",
    "quarantine": "state ... quarantined",
    "receipts": "replay",
    "unpin": "pin --remove",
    "unprime": "prime --remove",
}

_HEAD = """\
Keep an agent's long-term memory as a folder of markdown in git.

Usage: vaultmem [OPTIONS] COMMAND [ARGS]...
"""

_TAIL = """\
Options, before the command or behind it
  --vault DIR    The vault's folder or name; else the one around this folder.
  --agent ID     Who is writing; else the agent that runs this, or you.
  --session ID   The session of that agent; else its own.
  --ref REF      The branch to work on; else what is checked out.

Options without a command
  --version      Print the version.
  -h, --help     Print this.
  --install-completion, --show-completion
                 Let your shell complete commands and what they take.

Learn more
  vaultmem help COMMAND
                 What it does, its options, and examples.
  vaultmem help TOPIC
                 What is behind it: agents, commits, environment, evidence,
                 exit-codes, kinds-and-states, machines, notes, obsidian,
                 packs, sessions, settings.
"""


def read_rows() -> Iterator[tuple[str, str, str]]:
    """Yield each command's name, module and sentence."""
    for line in _TABLE.splitlines():
        if line.startswith(" "):
            name, home, sentence = line.split(None, 2)
            yield name, home, sentence


def read_groups() -> Iterator[tuple[str, list[str]]]:
    """Yield each heading and the names of the commands below it."""
    for group in _TABLE.strip().split("\n\n"):
        heading, *rows = group.splitlines()
        yield heading, [row.split()[0] for row in rows]


def find_home(name: str) -> str:
    """Return the module of a command; empty, if there is none of that name."""
    return next((home for each, home, _ in read_rows() if each == name), "")


def describe_commands() -> str:
    """Return what `vaultmem --help` prints: 80 columns at most, whatever the terminal has."""
    lines = [_HEAD]
    for line in _TABLE.strip().splitlines():
        if line.startswith(" "):
            name, _, sentence = line.split(None, 2)
            line = f"  {name:<12}  {sentence}"
        lines.append(line)
    return "\n".join([*lines, "", _TAIL])
