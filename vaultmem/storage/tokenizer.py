"""An exact tokenizer instead of the estimate, if one is installed and set.

It is set by an encoding such as `o200k_base`, which tiktoken or bpe-openai provides. The user sets
it ($VAULTMEM_TOKENIZER), not the vault: counting is many times slower than estimating.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from vaultmem.core.text.token_count import set_tokenizer
from vaultmem.errors import VaultError

VARIABLE = "VAULTMEM_TOKENIZER"

#: Packages with OpenAI's encodings, in the order of preference.
_PACKAGES = ("tiktoken", "bpe_openai")


#: The encoding used in this process, "" for the estimate.
_used = ""


def use_tokenizer(name: str) -> None:
    """Count tokens in the encoding `name` in this process; "" changes nothing.

    Raises:
        VaultError: no package is installed, or the encoding cannot be used.
    """
    global _used
    if name:
        set_tokenizer(load_tokenizer(name))
        _used = name


def get_tokenizer_name() -> str:
    """Return the encoding used in this process, empty for the estimate."""
    return _used


def load_tokenizer(name: str) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text in an encoding.

    Raises:
        VaultError: no package is installed, or the encoding cannot be used.
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
