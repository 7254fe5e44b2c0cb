"""Find the sentences of a text that state a lasting preference of the user.

A missed sentence costs little, but a wrong one costs the owner's time. So a sentence counts only if
its form is neither a statement nor a single request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from vaultmem.core.languages import read_lines
from vaultmem.core.text.patterns import compile_later

# Words and phrases of lasting preferences, by sort, from `standing.txt` of all languages.

#: A sentence is checked only if it has words of these sorts, or forbids with exceptions.
_SIGNS = ("always", "anchor", "lasting", "leave", "wish", "taste", "third")

_UNMATCHABLE_PATTERN = compile_later(r"(?!)")


@cache
def read_sort(sort: str) -> frozenset[str]:
    """Return the words and phrases of a sort, such as `always`."""
    rows = (line.partition(" ") for line in read_lines("standing"))
    return frozenset(phrase for name, _, phrase in rows if name == sort)


@cache
def match_sort(*sorts: str) -> re.Pattern[str]:
    """Return an expression for whole words of any of these sorts, the longest first."""
    phrases = frozenset().union(*map(read_sort, sorts))
    if not phrases:
        return _UNMATCHABLE_PATTERN
    alternatives = "|".join(
        re.escape(each) for each in sorted(phrases, key=lambda each: (-len(each), each))
    )
    return re.compile(rf"(?<![\w'])(?:{alternatives})(?![\w'])")


def has_sign(text: str) -> bool:
    """Return whether a lower-case text might contain a lasting preference.

    Most texts lack the words; phrases are searched only in the others.
    """
    words = frozenset(text.encode("utf-8", "surrogatepass").translate(_LETTERS).split())
    signs = _sign_phrases()
    likely = [each for word in signs.keys() & words for each in signs[word] if each[1] <= words]
    if not likely:
        return False
    flat = " ".join(text.split())
    bans = _has_phrase(flat, "dont")
    return any(phrase in flat and (bans or not is_exception) for phrase, _, is_exception in likely)


def _has_phrase(flat: str, *sorts: str) -> bool:
    return any(phrase in flat for sort in sorts for phrase in read_sort(sort))


@cache
def _sign_phrases() -> dict[bytes, list[tuple[str, frozenset[bytes], bool]]]:
    """Return the phrases that mark a preference, with their words, by longest word.

    A phrase for an exception counts only together with a ban.
    """
    signs = frozenset().union(*map(read_sort, _SIGNS))
    phrases: dict[bytes, list[tuple[str, frozenset[bytes], bool]]] = {}
    for phrase in signs | read_sort("unless"):
        words = frozenset(phrase.encode().translate(_LETTERS).split())
        sign = (phrase, words, phrase not in signs)
        phrases.setdefault(max(words, key=len), []).append(sign)
    return phrases


#: Keeps the letters and apostrophes of a lower-case UTF-8 text; other bytes become spaces.
_LETTERS = bytes(c if 97 <= c <= 122 or c >= 128 or c == ord("'") else 32 for c in range(256))

#: Longer texts, in words, count as documents.
_MAX_MESSAGE_WORDS = 150
#: Most and fewest words of a lasting sentence; most words of its topic.
_MAX_SENTENCE_WORDS, _MIN_SENTENCE_WORDS, _MAX_TOPIC_WORDS = 60, 3, 8

#: Most characters of a note that is searched for preferences when it is indexed.
_LONGEST_NOTE = 4_000

#: Most words before a "from now on" in a sentence: `Hey Claude, from now on ...`.
_MAX_LEADING_WORDS = 3

_FENCED_CODE = compile_later(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
#: Additions of a program to a turn; and quotations in a note or mail.
_TAGGED = compile_later(r"<([a-zA-Z](?:[\w-]*\w)?)|<!--|%%")
_QUOTED = compile_later(r"^[ \t]*>.*$", re.MULTILINE)
_HEADING = compile_later(r"^ {0,3}#{1,6}[ \t].*$|^[ \t]*\|.*$", re.MULTILINE)
_EDGE_CHARS = " \t\n,;:.!-–—"
_WORD = compile_later(r"[^\W_]+(?:['’][^\W_]+)*")
_ITEM = compile_later(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]+(?:\[.\][ \t]+)?")
_EMPHASIS = str.maketrans("", "", "*`")


class SpeakerRole(StrEnum):
    """The author of a text: the owner, or an agent, which can only report a preference."""

    OWNER = "owner"
    AGENT = "agent"


class PreferenceSentence(NamedTuple):
    """A sentence with a lasting preference, and its topic; "" if it applies to everything."""

    text: str
    topic: str


def find_standing(text: str, speaker: SpeakerRole) -> tuple[PreferenceSentence, ...]:
    """Return the lasting preferences in a text, in order, each once.

    Long texts, and texts with tables or headings on other topics, are documents: in these, an order
    needs "me" or "please". An agent's text counts only if it reports the user's preference.
    """
    if not has_sign(_even(text)):
        return ()
    from vaultmem.core.similarity.statement import split_sentences

    prose = _QUOTED.sub("", _drop_tagged(_FENCED_CODE.sub("", text)))
    plain = _HEADING.sub("", prose)
    is_document = len(plain.split()) > _MAX_MESSAGE_WORDS or not _is_owners(_HEADING.findall(prose))
    if is_document and not match_sort("me", "please", "third").search(_even(plain)):
        return ()
    preferences: dict[str, PreferenceSentence] = {}
    for sentence in _join_abbreviated(split_sentences(plain)):
        line = " ".join(_drop_item(sentence).split())
        if _is_standing(line, speaker, is_document):
            preferences.setdefault(_even(line), PreferenceSentence(line, find_topic(line)))
    return tuple(preferences.values())


def find_in_note(text: str, speaker: SpeakerRole) -> tuple[str, ...]:
    """Return the lasting preferences in a note; () for a long one, to keep indexing fast."""
    return () if len(text) > _LONGEST_NOTE else tuple(w.text for w in find_standing(text, speaker))


def _is_owners(marked: Sequence[str]) -> bool:
    """Return whether there are no table rows, and no headings or one about the owner's work."""
    if any(line.lstrip().startswith("|") for line in marked):
        return False
    return not marked or any(match_sort("heading").search(_even(line)) for line in marked)


def _drop_tagged(text: str) -> str:
    """Return a text without tagged parts; each missing end tag is searched once."""
    parts: list[str] = []
    missing: set[str] = set()
    place = 0

    def find(mark: str, start: int) -> int:
        index = -1 if mark in missing else text.find(mark, start)
        missing.update([mark] if index < 0 else [])
        return index + len(mark) if index >= 0 else 0

    for opening in _TAGGED.finditer(text):
        if opening.start() < place:
            continue
        start, closing = opening.end(), "-->" if opening[0] == "<!--" else opening[0]
        if opening[1]:
            start, closing = find(">", start), f"</{opening[1]}>"
        if start and (end := find(closing, start)):
            parts += [text[place : opening.start()], " "]
            place = end
    return "".join([*parts, text[place:]])


def find_topic(sentence: str) -> str:
    """Return the topic of a lasting preference, in its own words, or ""."""
    plain = sentence.translate(_EMPHASIS)
    for start, end in _find_conditions(_even(plain)):
        words = [each.strip(_EDGE_CHARS) for each in plain[start:end].split()]
        while words and words[0].lower() in read_sort("talk"):
            del words[0]
        while words and words[-1].lower() in read_sort("talk"):
            del words[-1]
        if 0 < len(words) <= _MAX_TOPIC_WORDS:
            return " ".join(words)
    return ""


def _find_conditions(even: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the clauses with conditions, without their first words."""
    wish = match_sort("wish").search(even)
    for match in match_sort("about").finditer(even, wish.end() if wish else 0):
        comma = even.find(",", match.end())
        yield match.end(), comma if comma >= 0 else len(even)
    if (first := re.match(r"for ([^,]{3,60}),", even)) and not match_sort("once").search(first[1]):
        yield first.span(1)


def _is_standing(sentence: str, speaker: SpeakerRole, is_document: bool) -> bool:
    even = _even(sentence).strip(_EDGE_CHARS)
    count = len(_WORD.findall(even))
    if sentence.rstrip().endswith("?") or not _MIN_SENTENCE_WORDS <= count <= _MAX_SENTENCE_WORDS:
        return False
    if match_sort("third").match(even):
        return not match_sort("once").search(even)
    if speaker is not SpeakerRole.OWNER:
        return False
    if is_document and not match_sort("me", "please").search(even):
        return False
    body = _drop_opening(even)
    return _is_wish(body) or _is_order(body, is_asked="please" in even or "bitte" in even)


def _is_wish(even: str) -> bool:
    """Return whether a sentence is about a preference of "I" in general, not a single case."""
    if match_sort("once").search(even):
        return False
    if match_sort("wish").match(even):
        return True
    taste = match_sort("taste").match(even)
    if taste is None:
        return False
    return _first_word(even[taste.end() :]) not in read_sort("statement") - {"my"}


def _is_order(even: str, is_asked: bool) -> bool:
    """Return whether a sentence asks for something always, in certain cases, or with exceptions."""
    is_lasting, body = _drop_lasting(even)
    if is_lasting and match_sort("wish", "want", "please").match(body):
        return True
    condition, main = _split(body)
    main = _drop_opening(main)
    before = match_sort("before").match(main)
    if before:
        main = main[before.end() :].strip(_EDGE_CHARS)
    always = match_sort("always").match(main)
    if always:
        is_verb_next = always[0] not in read_sort("always-second")  # Else a statement can end so.
        return _is_imperative(main[always.end() :], is_verb_next)
    if before:
        return False
    words = _WORD.findall(main)
    if len(words) > 2 and any(each in read_sort("always-second") for each in words[1:3]):
        return _is_imperative(main, False) and not words[0].endswith(
            tuple(read_sort("second-ending"))
        )
    if match_sort("once").search(main) or not _is_imperative(main):
        return is_lasting and is_asked
    is_anchored = match_sort("anchor").match(condition) or match_sort("anchor").search(main)
    if is_lasting or is_anchored or match_sort("leave").search(main):
        return True
    return bool(match_sort("dont").match(main) and match_sort("unless").search(main))


def _split(even: str) -> tuple[str, str]:
    """Return the condition at the start of a sentence, or "", and the rest."""
    opens = match_sort("about", "anchor").match(even) or re.match(r"for\b", even)
    if not opens:
        return "", even
    head, comma, rest = even.partition(", ")
    if head in read_sort("about") | {"jedes mal"}:
        second, comma, rest = rest.partition(", ")
        head = f"{head}, {second}"
    return (head, rest) if comma else ("", even)


def _drop_lasting(even: str) -> tuple[bool, str]:
    """Return whether a sentence applies from now on, and the sentence without that phrase."""
    lasting = match_sort("lasting").search(even)
    if not lasting:
        return False, even
    before, after = (
        even[: lasting.start()].strip(_EDGE_CHARS),
        even[lasting.end() :].strip(_EDGE_CHARS),
    )
    if before and after and len(before.split()) > _MAX_LEADING_WORDS:
        return False, even
    return True, _drop_opening(f"{before} {after}".strip())


def _drop_opening(even: str) -> str:
    while (match := match_sort("opening").match(even)) and not match_sort("before").match(even):
        rest = even[match.end() :].strip(_EDGE_CHARS)
        if not rest:
            break
        even = rest
    return even


def _is_imperative(even: str, is_verb_next: bool = True) -> bool:
    """Return whether words might be an order: no start of a statement; in English, a verb first."""
    words = _WORD.findall(even)
    if not words:
        return False
    if match_sort("dont").match(even):
        return True
    if words[0] in read_sort("statement") or (words[1:] and words[1] in read_sort("verb")):
        return False
    endings = tuple(read_sort("stating-ending"))
    is_form = is_verb_next and words[0].endswith(endings) and words[0] not in read_sort("order")
    return not is_form


def _join_abbreviated(sentences: Iterable[str]) -> list[str]:
    """Return the sentences; those that were split after an abbreviation are joined."""
    result: list[str] = []
    for sentence in sentences:
        last = result[-1].rpartition(" ")[2].lower() if result else ""
        if last in read_sort("abbreviation"):
            result[-1] = f"{result[-1]} {sentence}"
        else:
            result.append(sentence)
    return result


def _drop_item(sentence: str) -> str:
    match = _ITEM.match(sentence)
    return sentence[match.end() :] if match else sentence


def _first_word(even: str) -> str:
    match = _WORD.search(even)
    return match[0] if match else "it"


def _even(text: str) -> str:
    """Return a text in lower case with plain apostrophes, without emphasis."""
    return text.translate(_EMPHASIS).lower().replace("’", "'")
