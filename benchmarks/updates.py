"""Measure which new values of old facts `remember` and `curate` see, and what they see wrongly.

    python benchmarks/updates.py                         # the pairs beside this file
    python benchmarks/updates.py --same PAIRS.jsonl      # pairs of other people: `a`, `b`, `same`
    python benchmarks/updates.py --vault FOLDER          # and all pairs of notes of a vault

update_pairs.jsonl has in each line an older sentence, a newer one, and whether that is an update.
Each part was written before the rules as they were then had seen it, and counted before it was
looked at; what it showed was mended after. Of `seventh` nothing was mended. `told` is what the
comparison of both says, `remembered` what `remember` answers in one vault with all older sentences.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from measure import isolate

PAIRS = Path(__file__).parent / "update_pairs.jsonl"


def main() -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(description="Measure updates seen.")
    parser.add_argument("--same", type=Path, metavar="FILE", help="pairs of sentences of others")
    parser.add_argument("--vault", type=Path, metavar="FOLDER", help="a vault to look through")
    parser.add_argument("--show", action="store_true", help="print what is seen wrongly or missed")
    given = parser.parse_args()
    pairs = _read_lines(PAIRS)
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        isolate(Path(name).resolve())
        remembered = _remember_all(Path(name).resolve() / "vault", pairs)
        _print_pairs(pairs, remembered, given.show)
        if given.same:
            _print_others(_read_lines(given.same), given.show)
        if given.vault:
            _print_vault(given.vault, Path(name) / "copy", given.show)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _remember_all(folder: Path, pairs: list[dict[str, Any]]) -> list[bool]:
    """Remember each older sentence, then each newer one; return which are told as another value."""
    from vaultmem.services.memory.create_vault import create_vault
    from vaultmem.services.memory.remember import Memory, remember
    from vaultmem.vault import open_vault

    create_vault(folder)
    vault = open_vault(folder)
    paths = {each: remember(vault, Memory(each)).path for each in _list(pairs, "old")}
    found = []
    for pair in pairs:
        near = remember(vault, Memory(pair["new"])).similar
        found.append(any(n.contradicts and n.path == paths[pair["old"]] for n in near))
    return found


def _list(pairs: list[dict[str, Any]], name: str) -> list[str]:
    return list(dict.fromkeys(pair[name] for pair in pairs))


def _print_pairs(pairs: list[dict[str, Any]], remembered: list[bool], shows: bool) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    for pair, is_remembered in zip(pairs, remembered, strict=True):
        key = (pair["part"], pair["kind"])
        is_told = _is_told(pair["old"], pair["new"])
        counts[*key, "all"] += 1
        counts[*key, "told"] += is_told
        counts[*key, "remembered"] += is_remembered
        if shows and is_told != (pair["kind"] == "update"):
            print(f"  {'missed' if pair['kind'] == 'update' else 'wrongly'}: ", end="")
            print(f"{pair['old']} | {pair['new']}")
    for part in dict.fromkeys(pair["part"] for pair in pairs):
        for kind in ("update", "neutral"):
            whole = counts[part, kind, "all"]
            told, seen = counts[part, kind, "told"], counts[part, kind, "remembered"]
            print(f"{part} {kind}: told {told} of {whole}, remembered {seen} of {whole}")


def _is_told(old: str, new: str) -> bool:
    from vaultmem.core.similarity.compare import KnownText, compare_texts

    return compare_texts(new, KnownText(old)).is_contradiction or _is_update(old, new)


def _is_update(old: str, new: str) -> bool:
    from vaultmem.core.similarity.facts import read_facts
    from vaultmem.core.similarity.updates import find_update

    return find_update(read_facts(old), read_facts(new)) is not None


def _print_others(pairs: list[dict[str, Any]], shows: bool) -> None:
    for same in (True, False):
        chosen = [pair for pair in pairs if pair["same"] is same]
        found = [pair for pair in chosen if _is_update(pair["a"], pair["b"])]
        print(f"others, same={same}: {len(found)} of {len(chosen)} taken for an update")
        for pair in found if shows else ():
            print(f"  {pair['a']} | {pair['b']}")


def _print_vault(source: Path, folder: Path, shows: bool) -> None:
    import shutil

    from vaultmem.services.memory.create_vault import create_vault
    from vaultmem.services.similarity.value_updates import list_updates
    from vaultmem.services.views.update_index import sync_vault
    from vaultmem.vault import open_vault

    shutil.copytree(source, folder)
    create_vault(folder)
    vault = open_vault(folder)
    sync_vault(vault)
    begin = time.process_time()
    found = list_updates(vault)
    took = time.process_time() - begin
    notes, _ = vault.view.totals()
    print(f"{source.name}: {len(found)} of {notes} notes are told to be updated, {took:.2f} s")
    for each in found if shows else ():
        print(f"  {each.update.old} | {each.update.new} | {each.why}")


if __name__ == "__main__":
    main()
