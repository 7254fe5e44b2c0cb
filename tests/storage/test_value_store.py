"""Values that are kept outside the vault are read as they were written, and no other ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vaultmem.errors import VaultError
from vaultmem.storage.lock import Process
from vaultmem.storage.session_table import ActiveSession
from vaultmem.storage.trust_record import SignedList, SignedTrust, TrustRecord
from vaultmem.storage.value_store import (
    RepositoryNames,
    ValueFolder,
    read_value,
    read_value_if_sound,
)

SESSION = ActiveSession("s-1", "claude", "/w", 2.5, (Process(7, "x", ("n", "b", "s")),), ref="side")


def test_a_value_is_read_as_it_was_written_in_a_private_file(tmp_path: Path) -> None:
    ValueFolder(tmp_path / "a").write_value("s.json", SESSION)

    file = tmp_path / "a/s.json"
    assert read_value(file, ActiveSession) == SESSION
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_fields_that_are_missing_have_defaults_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    file.write_text('{"trusted": true, "notes": {"a.md": "d"}, "more": 1}')
    assert read_value(file, TrustRecord) == TrustRecord(trusted=True, notes={"a.md": "d"})


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "null", "3", "{}", "[" * 100_000, '{"notes": {}}', '{"trusted": true}'),
        *('{"trusted": 1, "notes": {}}', '{"trusted": true, "notes": {"a": 1}}'),
        '{"trusted": true, "notes": {}, "names": "ab"}',
    ],
)
def test_what_is_no_trust_record_trusts_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trust.json"
    file.write_text(text)
    with pytest.raises(VaultError, match=r"trust\.json: cannot be read"):
        read_value(file, TrustRecord)
    assert read_value_if_sound(file, TrustRecord) is None


def test_signed_lists_that_were_kept_without_names_of_fields_are_read(tmp_path: Path) -> None:
    file = tmp_path / "k.signed"
    file.write_text(json.dumps([5.0, [["/signers", 0, 0, 0]], [["anna", "{}", "signature"]]]))
    assert SignedTrust(file).lists() == (SignedList("anna", "{}", "signature"),)


def test_files_are_found_in_folders_of_the_same_repository_and_the_own_one_counts(
    tmp_path: Path,
) -> None:
    own, same, other = (
        ValueFolder(
            tmp_path / name, RepositoryNames(lambda each=root: each, lambda each=root: (each,))
        )
        for name, root in (("own", "r"), ("same", "r"), ("other", "q"))
    )
    for folder, name in ((own, "a"), (same, "a"), (same, "b"), (other, "c")):
        folder.write(name, b"x")

    assert own.find("[!.]*") == {"a": own.folder / "a", "b": same.folder / "b"}
