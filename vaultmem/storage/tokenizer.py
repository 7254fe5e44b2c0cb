"""An exact tokenizer in place of the estimate, where one is installed and asked for.

It is named by an encoding such as `o200k_base`; tiktoken or bpe-openai counts in it. Who opens a
vault says so ($VAULTMEM_TOKENIZER in the front ends) and not the vault: counting is many times
slower than estimating.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from vaultmem.core.text.token_count import set_tokenizer
from vaultmem.errors import VaultError

VARIABLE = "VAULTMEM_TOKENIZER"

#: Packages that know OpenAI's encodings, in the order in which they are tried.
_PACKAGES = ("tiktoken", "bpe_openai")


#: The encoding in which this process counts, "" for the estimate.
_used = ""


def use_tokenizer(name: str) -> None:
    """Count tokens exactly from now on, in this process, where an encoding is named.

    Raises:
        VaultError: no package that knows it is installed.
    """
    global _used
    if name:
        set_tokenizer(load_tokenizer(name))
        _used = name


def get_tokenizer_name() -> str:
    """Return the encoding in which this process counts, empty for the estimate."""
    return _used


def load_tokenizer(name: str) -> Callable[[str], int]:
    """Return what counts the tokens of a text in an encoding.

    Raises:
        VaultError: no package that knows it is installed.
    """
    for package in _PACKAGES:
        try:
            encoding = importlib.import_module(package).get_encoding(name)
        except ImportError:
            continue
        except Exception as error:
            reason = str(error).partition("\n")[0][:200]
            raise VaultError(f"{VARIABLE}: {name}: cannot be used ({reason})") from error
        return lambda text: len(encoding.encode_ordinary(text))
    raise VaultError(f"{VARIABLE}: {name}: no tokenizer is installed; pip install tiktoken")
