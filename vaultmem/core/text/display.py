"""Text for display: escape, shorten, count, plot, and compare look-alike names."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

#: Escapes of bytes that are not UTF-8; Python decodes them as lone surrogates.
_BYTES = {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(0x80, 0x100)}


#: The character that joins two emoji to one, as in a family. It is part of many file names.
_EMOJI_JOINER = re.compile(
    "(?<=[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2190-\u2bff\U0001f000-\U0001faff])"
)


def escape_bytes(text: str) -> str:
    r"""Return the text as valid UTF-8; other bytes become escapes: `gr\xfcn.txt`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.translate(_BYTES).encode("utf-8", "replace").decode()
    return text


def clean_text(text: str) -> str:
    """Return the text without control, format and bidirectional characters; tabs stay."""
    if text.isprintable():
        return text
    return replace_characters(
        text, lambda c: c if c == "\t" or unicodedata.category(c) not in _UNSEEN else ""
    )


def replace_characters(text: str, replace: Callable[[str], str]) -> str:
    """Return the text with each character replaced, except those that join two emoji."""
    parts = _EMOJI_JOINER.split(escape_bytes(text))
    return "\u200d".join("".join(map(replace, part)) for part in parts)


def one_line(text: str) -> str:
    """Return the text in one line; characters that are not printable become escapes."""
    if text.isprintable():
        return text
    return replace_characters(
        text, lambda c: c if c.isprintable() else c.encode("unicode_escape").decode()
    )


def truncate_line(text: str, most: int) -> str:
    """Return the text in one line of at most `most` characters; "..." marks what is cut."""
    line = one_line(text[: most + 1])
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."


def format_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first `most` names in one line, and the number of the rest."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(map(one_line, names[:most]))}{more}"


def width(text: str) -> int:
    """Return the columns of a text in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(c) in {"Mn", "Me", "Cf"}
        else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def pad(text: str, columns: int) -> str:
    """Return the text with spaces up to this number of columns."""
    return text + " " * (columns - width(text))


# Look-alike names: letters of other scripts, quotes and invisible characters.

#: Characters that look like a Latin letter or digit, by that letter or digit. Source:
#: `confusables.txt` 15.1 of Unicode Technical Standard 39. Right-to-left characters, and those
#: that NFKC makes Latin, are omitted.
_CONFUSABLES = {
    "2": "ƧϨᒿꙄꛯꝚ",
    "3": "ƷȜЗӠⳌꝪꞫ𑣊𖼻𝈆",
    "4": "Ꮞ𑢯",
    "5": "Ƽ𑢻",
    "6": "бᏮⳒ𑣕",
    "7": "𐓒𑣆𝈒",
    "8": "Ȣȣ৪੪𐌚",
    "9": "৭੧୨൭ⳊꝮ𑢬𑣌𑣖",
    "a": "ɑΑαАаᎪᗅ⍺ꓮ𐊠𖽀",
    "b": "ƄΒВЬᏏᏴᑲᖯᗷꓐꞴ𐊂𐊡𐌁",
    "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲🝌",
    "d": "ԁᎠᏧᑯᗞᗪꓒꓓ",
    "e": "ΕЕеҽᎬ℮⋿ⴹꓰꬲ𐊆𑢦𑢮",
    "f": "ϜքᖴẝꓝꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂𝈓",
    "g": "ƍɡԌցᏀᏳᶃꓖ",
    "h": "ΗНһհᎻᏂᕼⲎꓧ𐋏",
    "i": "ıɩɪ˛ͺιіӏᎥ⍳ꙇꭵ𑣃",
    "j": "ͿϳЈјᎫᒍꓙꞲ",
    "k": "ΚКᏦᛕⲔꓗ𐔘",
    "l": "ƖǀΙІӀ۱Ꮮᒪᛁ∣⏽ⲒⳐⵏꓡꓲ￨𐊊𐌉𐌠𐐛𐔦𑢣𑢲𖼖𖼨𝈪",
    "m": "ΜϺМᎷᗰᛖⲘꓟ𐊰𐌑",
    "n": "ΝոռⲚꓠ𐔓",
    "o": "ΟοσОоՕօ۵०০੦૦ଠ୦௦౦೦ഠ൦๐໐ဝ၀ჿዐᴏᴑⲞⲟⵔ〇ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠",
    "p": "ΡρРрᏢᑭ⍴Ⲣⲣꓑ𐊕",
    "q": "ԛգզⵕ",
    "r": "ƦгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺",
    "t": "ΤТᎢ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨",
    "u": "ʋυՍսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂",
    "v": "νѴѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈𝈍",
    "w": "ɯѡԜԝաᎳᏔᴡꓪꮃ𑜊𑜎𑜏𑣦𑣯",
    "x": "×ΧХхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ɣʏΥγУуҮүყᎩᎽᶌỿⲨꓬꭚ𐊲𑢤𑣜𖽃",
    "z": "ΖᏃᴢꓜꮓ𐋵𑢩𑣄𑣥",
    "ae": "ÆæӔӕ",
    "ao": "Ꜵꜵ",
    "oe": "Œœ",
    "oo": "∞ꚘꚙꝎꝏ",
}

#: ASCII letters and digits that many fonts draw alike, as in `confusables.txt`.
_ASCII = str.maketrans("i1|0", "lllo")

_BY_MARK = {mark: latin for latin, marks in _CONFUSABLES.items() for mark in marks}
#: Lower-case forms map too; otherwise names would differ by case.
_BY_LOWERCASE_MARK = {
    mark.lower(): latin for mark, latin in _BY_MARK.items() if len(mark.lower()) == 1
}
LATIN = str.maketrans(_BY_LOWERCASE_MARK | _BY_MARK)

#: Characters that only modify the previous one, or are invisible.
_INVISIBLE = frozenset(map(chr, (0x34F, 0x115F, 0x1160, 0x3164, *range(0xFE00, 0xFE10))))


def fold_lookalikes(name: str) -> str:
    """Return the letters and digits of a name; look-alike names give the same result.

    Use it only for comparison, as the skeletons of Unicode Technical Standard 39. A name without
    letters and digits gives "".
    """
    visible = (c for c in name if unicodedata.category(c) != "Cf" and c not in _INVISIBLE)
    plain = unicodedata.normalize("NFKC", "".join(visible).translate(LATIN)).translate(LATIN)
    folded = plain.casefold().translate(LATIN).translate(_ASCII)
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c)[0] == "M")


# Counts in words.


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, plural if needed: `1 commit`, `1,200 files`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


# Plain-text plots.

Point = tuple[float, float]


def plot_lines(
    series: Sequence[tuple[str, Sequence[Point]]],
    x_name: str,
    y_name: str,
    width: int = 56,
    height: int = 12,
) -> str:
    """Return a plot of points as text; both axes are logarithmic, so values must be above 0.

    `series` are pairs of a one-character mark and its points. A later mark hides an earlier one.
    """
    points = [point for _, each in series for point in each]
    if not points:
        return ""
    (left, right), (low, high) = (_range([p[axis] for p in points]) for axis in (0, 1))
    rows = [[" "] * width for _ in range(height)]
    for mark, each in series:
        for x, y in each:
            column = round((math.log10(x) - left) / (right - left) * (width - 1))
            row = round((math.log10(y) - low) / (high - low) * (height - 1))
            rows[height - 1 - min(max(row, 0), height - 1)][min(max(column, 0), width - 1)] = mark
    labels = {
        height - 1 - round((k - low) / (high - low) * (height - 1)): 10**k
        for k in range(math.ceil(low), math.floor(high) + 1)
    }
    side = max([len(_short(value)) for value in labels.values()], default=0)
    lines = [f"{'':{side}}  {y_name}"]
    for number, cells in enumerate(rows):
        label = _short(labels[number]) if number in labels else ""
        lines.append(f"{label:>{side}} |{''.join(cells)}".rstrip())
    lines.append(f"{'':{side}} +{'-' * width}")
    scale = [" "] * (width + 8)
    for k in range(math.ceil(left), math.floor(right) + 1):
        text = _short(10**k)
        start = max(round((k - left) / (right - left) * (width - 1)) - len(text) // 2, 0)
        scale[start : start + len(text)] = text
    lines.append(f"{'':{side}}  {''.join(scale).rstrip()}  {x_name}")
    return "\n".join(lines)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the exponents of the powers of ten around the values, at least 1 apart.

    A value just above a power of ten (100,002) counts as that power.
    """
    low = math.floor(math.log10(min(values)) + 0.01)
    high = math.ceil(math.log10(max(values)) - 0.01)
    return float(low), float(max(high, low + 1))


def _short(value: float) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
