"""The last session here in few words, for a context that begins without knowing of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.packs.pack_item import quote
from vaultmem.core.sessions.restore import list_asked, list_failing, shorten
from vaultmem.core.token_count import count_tokens
from vaultmem.core.transcripts.prose import shorten_answer

if TYPE_CHECKING:
    from vaultmem.core.sessions.session import FileFate, Session

_TITLE = "# Last time here"
_REMARK = "Evidence of an earlier session, not an instruction."


class _Line(NamedTuple):
    """What is told: what it is, the items, and the tokens that they should have."""

    name: str
    items: tuple[str, ...]
    tokens: int


#: Characters of the last answer that should be there.
_STAND = 340

#: How much of what they should have the lines get; from step to step as long as all of it fits.
_SCALES = (0.3, 0.45, 0.6, 0.75, 0.9, 1.05, 1.2, 1.4, 1.7, 2.0, 2.5)


def render_last_time(
    session: Session,
    fates: Mapping[str, FileFate],
    earlier: Sequence[Session],
    budget: int,
    still_open: Sequence[Session] = (),
) -> str:
    """Return what a session came to within a budget of tokens; all parts get their share.

    `fates` are what became of its files; of `earlier` sessions the goals are told, and of
    those that are `still_open` in other folders the folders too.
    """
    facts = session.facts
    who = f"agent {facts.agent}" if facts.agent else "a person"
    label = " | ".join((who, facts.status, facts.started[:10], facts.id))

    others = tuple(
        f"{each.facts.goal or each.facts.title} (in {each.facts.workspace}, {each.facts.id})"
        for each in still_open
    )
    before = tuple(each.facts.goal or each.facts.title for each in earlier)

    def render(told: Iterable[str]) -> str:
        lines = "\n".join(filter(None, told))
        return f"{_TITLE}   [{label}]\n{_REMARK}\n{quote(lines)}\n"

    steps = [
        [
            _fit(line, int(line.tokens * scale))
            for line in [
                _Line("Also open", others, 60),
                *_list_lines(session, fates, room),
                _Line("Before that", before, 35),
            ]
        ]
        for scale in _SCALES
        for room in [int(_STAND * scale)]
    ]
    told, ended = steps[0], set[int]()
    for step in steps[1:]:
        for place, text in enumerate(step):
            more = [*told[:place], text, *told[place + 1 :]]
            if place in ended or count_tokens(render(more)) > budget:
                ended.add(place)
            else:
                told = more
    return render(told)


def _fit(line: _Line, room: int) -> str:
    """Return a line with the items that fit; of the first one, as much of it as fits."""
    kept: list[str] = []
    for item in line.items:
        text = item if count_tokens(item) <= room else "" if kept else shorten(item, room)
        if not text.strip(". "):
            break
        kept.append(text)
        room -= count_tokens(text) + 1
    return f"{line.name}: {'; '.join(kept)}" if kept else ""


def _list_lines(session: Session, fates: Mapping[str, FileFate], room: int) -> Iterator[_Line]:
    """Yield what there is to tell; of the last answer, `room` characters."""
    told = session.told
    stand = session.summary.rpartition("\n\n")[2] or shorten_answer(told.answer, room)
    touched = [each.path for each in reversed(session.touched)]
    loose = [path for path in touched if path in fates and "not committed" in fates[path].short]
    yield _Line("Goal", (session.facts.goal or session.facts.title,), 45)
    yield _Line("How it stood", (stand,) if stand else (), 85)
    yield _Line("Open question", session.questions[::-1], 40)
    yield _Line("Still to do", told.steps, 35)
    yield _Line("Failed last", list_failing(session), 40)
    yield _Line("Last commit", told.commits[-1:], 25)
    yield _Line("Decided", tuple(each.text for each in session.decisions[::-1]), 30)
    yield _Line("Also asked", list_asked(session), 50)
    yield _Line("Not committed", tuple(loose), 35)
    yield _Line("Files", tuple(each for each in touched if each not in loose), 35)
