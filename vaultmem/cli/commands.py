"""The table of commands: name, module and sentence.

`vaultmem --help` is printed from this table, without importing the commands or their library. A
test keeps each sentence equal to the first one of the command's help.
"""

from __future__ import annotations

TYPE_CHECKING = False  # Importing `typing` takes as long as reading the table.

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A heading, then on each line a command, its module in this package and its sentence. The last
#: group is for programs and measurements; the help only lists its names.
_TABLE = """
Everyday
  init          vault_commands     Make a folder a vault; existing files are not changed.
  connect       agent_commands     Let a client such as Claude Code use the vault.
  remember      note_commands      Store a memory; the next query finds it.
  recall        search_commands    Find the notes that answer a query, best first.
  pack          search_commands    Print what an agent needs to know, within a token budget.
  show          note_commands      Print a note or a section of it, or what a commit changed.
  list          note_commands      List the notes, or those of a kind, state, tag or folder.
  review        curation_commands  Decide on contradictions, duplicates and candidates.
  promote       note_commands      Make candidate notes active, and commit them.
  checkpoint    note_commands      Commit all changes, with a reason.
  log           history_commands   Show what happened in the vault, newest first.
  status        health_commands    Show what the vault holds, and what is not committed.

Notes
  edit          note_commands      Open a note in your editor, or set its properties.
  mv            search_commands    Rename or move a note, and update every link.
  tag           note_commands      Add tags to a note, or remove them.
  pin           note_commands      Show a note in every pack, or list the pinned notes.
  links         search_commands    List what a note links to, or what links to it.
  forget        note_commands      Remove notes; git keeps what was committed.

Finding
  trace         history_commands   Trace a line of code or a text to memories and who wrote them.
  similar       search_commands    List the notes that state the same as a text, or nearly.
  reference     exchange_commands  Import reference material, one note for each heading.

History
  diff          history_commands   Show what changed in the notes between two commits.
  history       history_commands   Show what each commit did to a note, newest first.
  blame         history_commands   Show who wrote each line of a note, and when.
  restore       history_commands   Restore an older version of a note, as a new change.
  undo          history_commands   Revert a commit or a session, as a new commit.
  bisect        assert_commands    Find the first commit whose pack is not as expected.

What agents saw
  queries       health_commands    List the last recalls and packs: query, caller, notes.
  receipt       assert_commands    List the packs that agents got, or print one again.
  stats         health_commands    Show how many tokens recalls and packs cost, and saved.

Upkeep
  state         note_commands      Change the state of a note, and commit it.
  supersede     note_commands      Replace a note by another; each names the other.
  curate        curation_commands  Propose notes to merge, archive, check or fix.
  dream         curation_commands  Promote what was recalled often; DREAMS.md lists it.
  compact       curation_commands  Summarize unused notes; the full text stays in git.

Machines and branches
  sync          sync_commands      Commit, merge what other machines pushed, and push.
  branch        branch_commands    List the branches, or make, remove or move one.
  switch        branch_commands    Check out a branch.
  merge         branch_commands    Merge a branch into the one that is checked out.
  resolve       branch_commands    List the conflicts of a merge, or decide one.

Many vaults
  hub           hub_commands       Share vaults in a team: a server with access control.
  fleet         fleet_commands     Serve and compare many vaults, by their remotes.

Sessions, tasks and projects
  session       session_commands   Keep sessions: what an agent did, and what is open.
  task          session_commands   Keep tasks: what is to be done, and what is next.
  projects      project_commands   List the projects, each with its notes and sessions.

Agents and other programs
  import        exchange_commands  Import memories of other programs, or an archived vault.

Watching and the page
  watch         sync_commands      Index notes as they are saved, and commit agents' changes.
  serve         serve_commands     Show the vault in a browser, and watch it meanwhile.
  export        exchange_commands  Write the vault as an archive, as JSON lines or as pages.
  demo          vault_commands     Show a sample vault, with a week of history, in a browser.

The vault itself
  doctor        health_commands    Check the vault, its repository and this machine.
  vault         vault_list         List your vaults, or add one to the list or remove it.
  trust         vault_commands     Trust this vault: its active policies may instruct.

Not in the list
  check         health_commands    Report what a change introduces or breaks in notes.
  assert        assert_commands    Test what a pack contains, for `git bisect run`.
  eval          evaluate_commands  Measure how well recall and packs answer your queries.
  embed         evaluate_commands  Compute the vectors that semantic recall lacks.
  dedup         curation_commands  List duplicate notes, or merge them.
  index         vault_commands     Update the index, and list notes with problems.
  context       health_commands    Update CONTEXT.md and other generated files.
  skill         agent_commands     Install a skill: when to recall, remember and promote.
  mcp           agent_commands     Serve the vault to an agent over MCP.
  hook          agent_commands     Answer an agent's event; agents run this themselves.
  merge-driver  merge_driver       Merge three versions of a note into OURS, for git.
  push-check    push_check         Check a push as git's pre-receive hook, by access.yaml.
"""

#: Old and new names of commands; given words replace `...` or come last. Old names work until the
#: next version.
NEW_COMMAND_NAMES = {
    "backlinks": "links --to",
    "branches": "branch",
    "conflicts": "resolve",
    "family": "session report",
    "get": "show",
    "handoff": "task handoff",
    "orphans": "links --orphans",
    "pinned": "pin",
    "prime": "reference",
    "primed": "reference",
    "quarantine": "state ... quarantined",
    "receipts": "receipt",
    "recent": "queries",
    "replay": "receipt",
    "session chain": "session links",
    "session decide": "session add decision",
    "session family": "session report",
    "session note": "session add note",
    "session summarize": "session add summary",
    "session touch": "session add file",
    "session turn": "session add turn",
    "session which": "session current",
    "task set": "task update",
    "unpin": "pin --remove",
    "unprime": "reference --remove",
    "vaults": "vault",
    "why": "trace",
}

#: Old and new names of options.
RENAMED_OPTIONS = {
    "--again": "--restart",
    "--agent": "--from-agent",
    "--alone": "--in-process",
    "--as": "--push-as",
    "--confirmation": "--last-confirmation",
    "--finds": "--contains-note",
    "--idle": "--idle-timeout",
    "--join": "--allow-unrelated-histories",
    "--link": "--print-link",
    "--name": "--allowed-host",
    "--not": "--absent",
    "--of": "--from-agent",
    "--own": "--admin",
    "--part": "--partial",
    "--proxy": "--trust-proxy",
    "--says": "--contains",
    "--seconds": "--timeout",
    "--unit": "--print-service",
    "--what": "--action",
    "--who": "--user",
}

_HEAD = """\
Keep an agent's long-term memory as a folder of markdown in git.

Usage: vaultmem [OPTIONS] COMMAND [ARGS]...
"""

_OPTIONS_HELP = """\
Options, before the command or after it
  --vault DIR    Vault folder or name.  [default: the vault around this folder]
  --agent ID     Agent that writes.  [default: the calling agent, or you]
  --session ID   Session of that agent.  [default: its current session]
  --ref REF      Branch to read or write.  [default: checked-out branch]

Options without a command
  --version      Print the version.
  -h, --help     Print this.
  --install-completion, --show-completion
                 Let your shell complete commands and what they take.

Learn more
  vaultmem help COMMAND
                 What it does, its options, and examples.
  vaultmem help TOPIC
                 One concept: agents, commits, environment, evidence,
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
    """Yield each heading and its commands."""
    for group in _TABLE.strip().split("\n\n"):
        heading, *rows = group.splitlines()
        yield heading, [row.split()[0] for row in rows]


def find_home(name: str) -> str:
    """Return the module of a command, "" if there is no such command."""
    return next((home for each, home, _ in read_rows() if each == name), "")


def describe_commands() -> str:
    """Return the text of `vaultmem --help`, at most 80 columns wide."""
    lines = [_HEAD]
    listed, _, hidden = _TABLE.strip().rpartition("\n\n")
    for line in listed.splitlines():
        if line.startswith(" "):
            name, _, sentence = line.split(None, 2)
            line = f"  {name:<12}  {sentence}"
        lines.append(line)
    names = [row.split()[0] for row in hidden.splitlines()[1:]]
    lines += ["", "For programs, and for measuring", f"  {', '.join(names[:6])},"]
    return "\n".join([*lines, f"  {', '.join(names[6:])}", "", _OPTIONS_HELP])
