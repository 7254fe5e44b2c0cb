"""The part of somebody's file that vaultmem keeps: what stands between two lines, and no more."""

from __future__ import annotations

from vaultmem.errors import RefusedError

BEGIN = "<!-- vaultmem:begin -->"
END = "<!-- vaultmem:end -->"

_BOM = b"\xef\xbb\xbf"


def replace_block(data: bytes, text: str) -> bytes:
    """Return a file's bytes with `text` between the two marker lines; all else stays as it is.

    The text gets the line ends of the first marker's line.

    Raises:
        RefusedError: it is not UTF-8; the markers do not stand there once each in their order; or
            the text itself holds such a line.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError("it is not UTF-8; save it as UTF-8") from None
    if any(line.strip() in {BEGIN, END} for line in text.splitlines()):
        raise RefusedError("the pack has a line that is a marker; nothing was written")
    lines = data.split(b"\n")
    begins, ends = _find_lines(lines, BEGIN), _find_lines(lines, END)
    if not begins or not ends:
        lacking = " and ".join(
            f'"{mark}"' for mark, found in ((BEGIN, begins), (END, ends)) if not found
        )
        raise RefusedError(f"it has no line {lacking}; add both lines where the pack belongs")
    if len(begins) > 1 or len(ends) > 1:
        twice = BEGIN if len(begins) > 1 else END
        raise RefusedError(f'it has the line "{twice}" more than once; leave one of each')
    if begins[0] > ends[0]:
        raise RefusedError(f'"{END}" stands before "{BEGIN}"; exchange the two lines')
    eol = b"\r\n" if lines[begins[0]].endswith(b"\r") else b"\n"
    inside = text.rstrip("\n").encode("utf-8").replace(b"\n", eol) + eol
    before = b"\n".join(lines[: begins[0] + 1]) + b"\n"
    return before + inside + b"\n".join(lines[ends[0] :])


def _find_lines(lines: list[bytes], mark: str) -> list[int]:
    """Return the numbers of the lines that are a marker and nothing else but white space."""
    wanted = mark.encode()
    found = [number for number, line in enumerate(lines) if line.rstrip() == wanted]
    if lines[0].removeprefix(_BOM).rstrip() == wanted and 0 not in found:
        found.insert(0, 0)
    return found
