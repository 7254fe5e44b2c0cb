"""What a person or an agent does to the notes of one machine, by hand or by `vaultmem`."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path

from laptop import Laptop
from notes import (
    CALLOUT,
    MATTER,
    STATES,
    list_notes,
    make_fact,
    make_note,
    make_sentence,
    name_note,
    read_state,
)
from plan import Intent
from words import NOTE, Oracle


class Desk:
    """A person who edits notes; with `has_tool` and agents beside, by `vaultmem` too."""

    def __init__(self, laptop: Laptop, oracle: Oracle, has_tool: bool) -> None:
        self.laptop, self.oracle, self.has_tool = laptop, oracle, has_tool
        self.kills = 0
        self.told: list[str] = []

    def do(self, intent: Intent) -> None:
        """Do one edit."""
        if intent.kind in {"shared fact", "own fact"}:
            self._remember(intent)
            return
        if intent.kind == "new note":
            text = make_note(intent.word, "active", random.Random(intent.word))
            self._save(self.laptop.root / f"notes/new/{intent.word}.md", "", text)
            return
        notes = list_notes(self.laptop.root)
        if not notes:
            return
        path = notes[int(intent.note**2.5 * len(notes))]
        text = path.read_text()
        if intent.kind in _BY_HAND and not self._may_resolve(text, intent):
            new = _BY_HAND[intent.kind](text, intent)
            if new != text:
                self._save(path, text, new)
        else:
            getattr(self, f"_{intent.kind}")(path, text, intent)

    def _may_resolve(self, text: str, intent: Intent) -> bool:
        return intent.kind == "settle" and self.has_tool and intent.place < 0.6

    def _save(self, path: Path, before: str, after: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(after)
        self.oracle.edit(before, after, self._name(path))

    def _name(self, path: Path) -> str:
        return f"{self.laptop.name} {path.relative_to(self.laptop.root)}"

    def _run(self, intent: Intent, *words: str, agent: str = "") -> bool:
        """Give a command; tell whether it did it. One that is killed may have."""
        after = 0.01 + 0.25 * intent.place if intent.killed else 0
        done = self.laptop.vaultmem(*words, kill_after=after, agent=agent)
        self.kills += done.killed
        if done.code and not done.killed:
            self.told.append(f"{self.laptop.name}: {words[0]}: {done.code} {done.err.strip()}")
        return not done.code and not done.killed

    def _remember(self, intent: Intent) -> None:
        is_shared = intent.kind == "shared fact"
        fact = make_fact(int(intent.note * 40)) if is_shared else ""
        fact = fact or f"{intent.word}: {make_sentence(random.Random(intent.word))}"
        agent = f"agent-{self.laptop.name}"
        if self.has_tool:
            if self._run(intent, "remember", fact, agent=agent):
                self.oracle.edit("", fact, f"{self.laptop.name} remember")
            else:
                self.oracle.doubt(fact)
            return
        if any(fact in path.read_text() for path in list_notes(self.laptop.root)):
            return
        slug = re.sub(r"[^a-z0-9]+", "-", fact.lower()).strip("-")[:60]
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text = f"---\ntitle: '{fact}'\ncreated: {made}\nagent: {agent}\n---\n\n{fact}\n"
        self._save(self.laptop.root / f"notes/inbox/{slug}.md", "", text)

    def _tag(self, path: Path, text: str, intent: Intent) -> None:
        if not self.has_tool:
            self._save(path, text, _add_to_list(text, "tags", intent.word))
        elif self._run(intent, "tag", self._place(path), intent.word):
            self.oracle.edit("", intent.word, self._name(path))
        else:
            self.oracle.doubt(intent.word)

    def _mv(self, path: Path, text: str, intent: Intent) -> None:
        new = path.with_name(f"{path.stem.partition('--')[0]}--{intent.word}.md")
        if self.has_tool:
            self._run(intent, "mv", self._place(path), self._place(new))
        else:
            path.rename(new)

    def _rename(self, path: Path, text: str, intent: Intent) -> None:
        folder = self.laptop.root / f"notes/area-{int(intent.place * 4)}"
        folder.mkdir(exist_ok=True)
        new = folder / path.name
        if not new.exists():
            path.rename(new)

    def _forget(self, path: Path, text: str, intent: Intent) -> None:
        if not self.has_tool:
            self._rm(path, text, intent)
        elif self._run(intent, "forget", self._place(path)):
            self.oracle.edit(text, "", self._name(path))
        else:
            self.oracle.doubt(text)

    def _rm(self, path: Path, text: str, intent: Intent) -> None:
        path.unlink()
        self.oracle.edit(text, "", self._name(path))

    def _promote(self, path: Path, text: str, intent: Intent) -> None:
        if read_state(text) != "candidate":
            return
        if self.has_tool:
            self._run(intent, "promote", self._place(path))
        else:
            self._save(path, text, _set_property(text, "state", "active"))

    def _state(self, path: Path, text: str, intent: Intent) -> None:
        state = STATES[int(intent.place * len(STATES))]
        if name_note(text).startswith("f") or state == read_state(text):
            return
        if not self.has_tool:
            self._save(path, text, _set_property(text, "state", state))
        elif state == "quarantined":
            self._run(
                intent, "state", self._place(path), "quarantined", "--reason", "nobody knows it"
            )
        else:
            self._run(intent, "state", self._place(path), state)

    def _settle(self, path: Path, text: str, intent: Intent) -> None:
        if not CALLOUT.search(text):
            return
        side = ("--ours", "--theirs", "--both")[int(intent.place * 5)]
        if self._run(intent, "resolve", self._place(path), side):
            is_gone = side == "--theirs" and "] Removed by " in text and not path.exists()
            self.oracle.edit(text, "" if is_gone else path.read_text(), self._name(path))
        else:
            self.oracle.doubt(text)

    def _place(self, path: Path) -> str:
        return str(path.relative_to(self.laptop.root))


def _body_lines(text: str) -> list[int]:
    lines = text.split("\n")
    first = 1 + lines.index("---", 1) if text.startswith("---\n") and "---" in lines[1:] else 0
    marks = ("> ", ">", "- ", "<<<<<<<", "=======", ">>>>>>>")
    plain = [n for n in range(first, len(lines)) if lines[n] and not lines[n].startswith(marks)]
    return [n for n in plain if not NOTE.match(lines[n])]


def _choose(found: list[int], place: float) -> int:
    return found[int(place * len(found))]


def _change_line(text: str, intent: Intent) -> str:
    if not (found := _body_lines(text)):
        return _add_line(text, intent)
    lines = text.split("\n")
    lines[_choose(found, intent.place)] = _say(intent)
    return "\n".join(lines)


def _add_line(text: str, intent: Intent) -> str:
    lines = text.split("\n")
    found = _body_lines(text)
    at = _choose(found, intent.place) + 1 if found else len(lines) - 1
    return "\n".join([*lines[:at], "", _say(intent), *lines[at:]])


def _remove_line(text: str, intent: Intent) -> str:
    found, lines = _body_lines(text), text.split("\n")
    if len(found) < 2:
        return text
    del lines[_choose(found, intent.place)]
    return "\n".join(lines)


def _say(intent: Intent) -> str:
    return f"Now {intent.word}. {make_sentence(random.Random(intent.word))}"


def _items(text: str) -> list[int]:
    lines = text.split("\n")
    first = lines.index("---", 1) if text.startswith("---\n") and "---" in lines[1:] else 0
    return [n for n in range(first, len(lines)) if lines[n].startswith("- ")]


def _add_item(text: str, intent: Intent) -> str:
    if not (found := _items(text)):
        return f"{text}\n- {_say(intent)}\n"
    lines = text.split("\n")
    return "\n".join([*lines[: found[-1] + 1], f"- {_say(intent)}", *lines[found[-1] + 1 :]])


def _change_item(text: str, intent: Intent) -> str:
    if not (found := _items(text)):
        return text
    lines = text.split("\n")
    lines[_choose(found, intent.place)] = f"- {_say(intent)}"
    return "\n".join(lines)


def _set_property(text: str, name: str, value: str) -> str:
    match = MATTER.match(text)
    if match is None:
        return f"---\n{name}: {value}\n---\n{text}"
    head = match[1]
    line = f"{name}: {value}\n"
    new, count = re.subn(rf"(?m)^{name}:.*\n(?:[ -].*\n)*", line, head)
    return f"---\n{new if count else head + line}---\n{text[match.end() :]}"


def _add_to_list(text: str, name: str, item: str) -> str:
    match = MATTER.match(text)
    inside = re.search(rf"(?m)^{name}: \[(.*)\]$", match[1]) if match else None
    if match and not inside:
        listed = re.search(rf"(?m)^{name}:\n((?:[ ]*- .*\n)+)", match[1])
        if listed:
            lead = listed[1].partition("-")[0]
            at = match.start(1) + listed.end(1)
            return f"{text[:at]}{lead}- {item}\n{text[at:]}"
        if re.search(rf"(?m)^{name}:", match[1]):
            return text
    known = f"{inside[1]}, " if inside else ""
    return _set_property(text, name, f"[{known}{item}]")


def _settle(text: str, intent: Intent) -> str:
    return CALLOUT.sub("", text)


_BY_HAND: dict[str, Callable[[str, Intent], str]] = {
    "change line": _change_line,
    "add line": _add_line,
    "remove line": _remove_line,
    "add item": _add_item,
    "change item": _change_item,
    "owner": lambda text, intent: _set_property(text, "owner", intent.word),
    "title": lambda text, intent: _set_property(text, "title", f"The berth {intent.word}"),
    "confidence": lambda text, i: _set_property(text, "confidence", f"{i.place:.2f}"),
    "tags by hand": lambda text, intent: _add_to_list(text, "tags", intent.word),
    "alias": lambda text, intent: _add_to_list(text, "aliases", f"berth {intent.word}"),
    "settle": _settle,
}
