"""Headers of a server's answers to git, which git itself does not report.

Git writes them into a trace (`GIT_TRACE_CURL`), without credentials. Where it does
not, no header is found. This saves a request of our own, with a password that git has to ask for.
"""

from __future__ import annotations

import os
import re
from pathlib import Path


def trace_headers(file: Path) -> dict[str, str]:
    """Return settings by which git writes into a file what a server answers, without bodies."""
    return {
        "GIT_TRACE_CURL": os.path.abspath(file),
        "GIT_TRACE_CURL_NO_DATA": "1",
        "GIT_TRACE_REDACT": "1",
    }


def find_header(file: Path, name: str) -> str:
    """Return the value that a header had last, "" if no answer had it."""
    try:
        traced = file.read_bytes()
    except OSError:
        return ""
    pattern = rb"(?im)<= Recv header: %s:[ \t]*([^\r\n]*)" % re.escape(name).encode()
    found = re.findall(pattern, traced)
    return found[-1].strip().decode("ascii", "replace") if found else ""
