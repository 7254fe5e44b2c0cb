"""Settings: defaults, and errors that say which key and what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vaultmem.cli import topics
from vaultmem.cli.topics import read_topic
from vaultmem.config import CONFIG_NAME, NEW_KEY_NAMES, Config, override, parse_config, read_config
from vaultmem.errors import RefusedError, VaultError

REFERENCE = Path(topics.__file__).with_name(CONFIG_NAME)
TEMPLATE = Path(__file__).parents[2] / "templates" / CONFIG_NAME


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "---\n# comment\n\n"])
def test_file_without_keys_gives_the_defaults(text: str) -> None:
    assert parse_config(text) == Config()


def test_missing_file_gives_the_defaults(tmp_path: Path) -> None:
    assert read_config(tmp_path) == Config()


def test_the_reference_documents_every_key_with_its_default() -> None:
    lines = [line.removeprefix("# ") for line in REFERENCE.read_text().splitlines()]
    keys = [line for line in lines if line.partition(":")[0] in Config._fields]
    assert len(keys) == len(Config._fields)
    assert parse_config("\n".join(keys)) == Config()
    assert parse_config(REFERENCE.read_text()) == Config()


def test_the_file_that_init_writes_is_short_and_names_the_reference() -> None:
    text = TEMPLATE.read_text()
    assert parse_config(text) == Config()
    assert len(text.splitlines()) <= 3
    assert read_topic(CONFIG_NAME) == REFERENCE.read_text()
    assert "`vaultmem help vaultmem.yaml`" in text


def test_every_key_is_read(tmp_path: Path) -> None:
    text = (
        "\ufeff---\r\nagent: claude\r\nauthor: 'Bot {agent} <bot@example.org>'\r\n"
        "budget: 900 # few\r\npinned_share: 0.25\r\nrecall_limit: 3\r\n"
        "default_context: misc\r\n\r\ncommit_edits: False\r\n"
        "commit_edits_after_seconds: 600\r\n"
        'ignore:\r\n  - "*.tmp.md"\r\n  - drafts\r\npromoting_agents: [claude, codex]\r\n'
        "allow_secrets: notes/keys.md\r\n"
    )
    (tmp_path / CONFIG_NAME).write_bytes(text.encode())
    assert read_config(tmp_path) == Config(
        agent="claude",
        author="Bot {agent} <bot@example.org>",
        budget=900,
        pinned_share=0.25,
        recall_limit=3,
        default_context="misc",
        commit_edits=False,
        commit_edits_after_seconds=600,
        ignore=("*.tmp.md", "drafts"),
        promoting_agents=("claude", "codex"),
        allow_secrets=("notes/keys.md",),
    )


def test_key_without_a_value_keeps_its_default() -> None:
    assert parse_config("agent:\nbudget: ~\nignore:\nrecall_limit: 3\n") == Config(recall_limit=3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "summary_after_days: 90\n",
            '"summary_after_days" is 90 and "keywords_after_days" 60, so no note would',
        ),
        (
            "archive_after_days: 50\nstale_after: 20\n",
            '"keywords_after_days" to 50 or less, or "archive',
        ),
        (
            "stale_after_days: 200\n",
            'set "stale_after_days" to 120 or less, or "archive_after_days" to 200 or',
        ),
        ("dream_every: hour\n", '"dream_every" cannot be "hour"; it takes never, day, week'),
        ("compact_every: often\n", '"compact_every" cannot be "often"; it takes never, day, week'),
        ("pack_labels: long\n", '"pack_labels" cannot be "long"; it takes short, full'),
    ],
)
def test_what_contradicts_itself_is_refused_with_the_remedy(text: str, told: str) -> None:
    with pytest.raises(VaultError, match=re.escape(told)):
        parse_config(text)


def test_what_is_equal_contradicts_nothing_and_all_keys_count_together() -> None:
    assert parse_config("summary_after_days: 60\n").summary_after_days == 60
    settings = "summary_after_days: 90\nkeywords_after: 100\narchive_after: 100\n"
    config = parse_config(settings)
    assert override(config, ["summary_after_days=95"]).summary_after_days == 95
    with pytest.raises(
        RefusedError, match='"summary_after_days" is 101 and "keywords_after_days" 100'
    ):
        override(config, ["summary_after_days=101"])


def test_edits_are_committed_after_no_time_or_some() -> None:
    for seconds in (0, 1, 600):
        config = parse_config(f"commit_edits_after_seconds: {seconds}\n")
        assert config == Config(commit_edits_after_seconds=seconds)


def test_unknown_key_names_the_nearest() -> None:
    with pytest.raises(VaultError, match='unknown key "budgets"; did you mean budget'):
        parse_config("budgets: 5\n")
    with pytest.raises(VaultError, match="known keys: agent, ref, author, budget"):
        parse_config("zzz: 5\n")


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("budget: many", "a whole number above 0"),
        ("budget: 0", "a whole number above 0"),
        ("budget: -5", "a whole number above 0"),
        ("budget: 1.5", "a whole number above 0"),
        ("budget: [1]", "a whole number above 0"),
        ("recall_limit: 0x10", "a whole number above 0"),
        ("pinned_share: 1.1", "0 to 1"),
        ("pinned_share: .nan", "0 to 1"),
        ("pinned_share: half", "0 to 1"),
        ("commit_edits: maybe", "true or false"),
        ("commit_edits_after_seconds: -1", "a whole number, 0 to 86,400"),
        ("commit_edits_after_seconds: 10m", "a whole number, 0 to 86,400"),
        ("agent: [a, b]", "text"),
        ("agent:\n  name: a", "text"),
        ("ignore: {a: b}", "a list of texts"),
    ],
)
def test_wrong_value_is_told_with_what_the_key_takes(line: str, takes: str) -> None:
    key = line.partition(":")[0]
    with pytest.raises(VaultError, match=f'"{key}" cannot be ".*"; it takes .*{takes}'):
        parse_config(f"default_context: misc\n{line}\n")


@pytest.mark.parametrize(
    "text",
    [
        *("budget", "- a\n- b\n", "budget: [", "a: &x 1\nb: *x\n", "budget: 1\n---\nbudget: 2\n"),
        *("budget: 1\nbudget: 2\n", "\tbudget: 1\n", "ignore: " + "[" * 60_000),
    ],
)
def test_text_that_is_no_list_of_keys_is_refused(text: str) -> None:
    with pytest.raises(VaultError, match=CONFIG_NAME):
        parse_config(text)


def test_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / CONFIG_NAME).write_bytes(b"agent: \xff\n")
    with pytest.raises(VaultError, match="cannot be read"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "path", "ignored"),
    [
        ("drafts", "drafts/a.md", True),
        ("drafts/", "drafts/deep/a.md", True),
        ("drafts", "notes/drafts/a.md", False),
        ("drafts", "drafts.md", False),
        ("*.tmp.md", "notes/a.tmp.md", True),
        ("notes/a.md", "notes/a.md", True),
        ("Notes/a.md", "notes/a.md", False),
    ],
)
def test_patterns_match_files_and_all_below_a_folder(
    pattern: str, path: str, ignored: bool
) -> None:
    assert Config(ignore=(pattern,)).ignores(path) is ignored
    assert Config(allow_secrets=(pattern,)).allows_secrets(path) is ignored
    assert not Config().ignores(path)


def test_the_names_of_before_still_work() -> None:
    assert parse_config("results: 3\nwith: [a]\nstale_after: 9\n") == Config(
        recall_limit=3, companions=("a",), stale_after_days=9
    )
    assert {*NEW_KEY_NAMES.values()} <= {*Config._fields}
    assert override(Config(), ["results=4"]).recall_limit == 4
