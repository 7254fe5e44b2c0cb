"""Follow and write links: outgoing links, backlinks, and recall along links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from vaultmem.core.lifecycle import STATE_WEIGHT, NoteState
from vaultmem.core.notes.link_syntax import (
    UNLINKABLE,
    Link,
    LinkKind,
    LinkNames,
    encode_destination,
    find_place,
    link_in_markdown,
    link_to,
    spell_new,
)
from vaultmem.core.notes.obsidian import LinkFormat
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.search.query import Hit, RecallQuery
from vaultmem.core.text.paths import is_text
from vaultmem.services.views.texts import read_sections, read_text
from vaultmem.storage.link_table import LinkStore, find_attachments
from vaultmem.vault import Vault


class FoundLink(NamedTuple):
    """A link of the note `source` and its target file; `missing` names the missing part.

    `missing` is "note" (without a `target`), "heading", "block", or "".
    """

    source: str
    link: Link
    target: str | None
    missing: str = ""


class LinkGraph:
    """The links of all viewed notes, and the names needed to follow them.

    The vault must be in sync.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._store = LinkStore(vault.state)
        self.paths = vault.view.paths()
        self.documents = {path: number for number, path in self.paths.items()}
        aliases = self._store.aliases()
        self._files = list_files(vault)
        self._aliases = {self.paths[n]: names for n, names in aliases.items() if n in self.paths}
        self.names = LinkNames(self._files, self._aliases)
        self.files = frozenset(self._files)

    def links(self) -> Iterator[FoundLink]:
        """Yield every visible link, without looking up headings."""
        for document, links in self.all_links():
            yield from self._follow(self.paths[document], links)

    def links_of(self, document: int) -> list[FoundLink]:
        """Return the links of one note, without looking up headings."""
        links = self._store.links([document]).get(document, [])
        return list(self._follow(self.paths[document], links))

    def names_with(self, path: str, without: str) -> LinkNames:
        """Return the names that links could find if `path` existed and `without` did not."""
        aliases = {p: names for p, names in self._aliases.items() if p not in {path, without}}
        moved_aliases = self._aliases.get(path) or self._aliases.get(without)
        files = [each for each in self._files if each != without]
        return LinkNames(dict.fromkeys([*files, path]), {**aliases, path: moved_aliases or []})

    def names_before(self, moves: Mapping[str, str]) -> LinkNames:
        """Return the names that links could find before and after files moved (old path to new)."""
        aliases = {old: self._aliases.get(new, []) for old, new in moves.items()}
        return LinkNames(dict.fromkeys([*self._files, *moves]), {**self._aliases, **aliases})

    def link_shortly(self, path: str) -> str:
        """Return a new link to a note from the root: the shortest, or in Obsidian's format."""
        return NewLinks(self._vault, self.names).in_body(path, "")

    def all_links(self) -> Iterator[tuple[int, list[Link]]]:
        """Yield each note's document with its links as written, including hidden ones."""
        for document, links in self._store.all_links().items():
            if document in self.paths:
                yield document, links

    def find_section(self, found_link: FoundLink) -> SectionRecord | None:
        """Return the section that a link leads to, None if there is no such section."""
        document = self.documents.get(found_link.target or "")
        if document is None:
            return None
        view = self._vault.view
        sections = [s for _, s in sorted(view.sections_of([document]).items())]
        text = ""
        if found_link.link.subpath.startswith("^"):
            record = view.records_of([document])[document]
            text = read_text(self._vault, record.path, record.blob) or ""
        return find_place(sections, found_link.link.subpath, text)

    def _follow(self, source: str, links: list[Link]) -> Iterator[FoundLink]:
        for link in links:
            if link.is_hidden:
                continue
            target = self.names.find(link, source)
            if link.kind is LinkKind.PATH and target not in self.documents:
                continue  # A note's sources can be outside the vault.
            yield FoundLink(source, link, target, "" if target else "note")


class LinkMap(NamedTuple):
    """The notes that link to each file, with the position in the text, and each note's targets."""

    sources: Mapping[str, Mapping[str, int]]
    targets: Mapping[str, Sequence[str]]


def open_names(vault: Vault) -> LinkNames:
    """Return the names that links can find, cached until the vault's files change."""
    return vault.view.keep("names", lambda: LinkGraph(vault).names)


def map_links(vault: Vault) -> LinkMap:
    """Return the map of links, cached until the vault's files change."""
    return vault.view.keep("link map", lambda: _map_links(vault))


def _map_links(vault: Vault) -> LinkMap:
    sources: dict[str, dict[str, int]] = {}
    targets: dict[str, dict[str, None]] = {}
    for found_link in LinkGraph(vault).links():
        if found_link.target is not None and found_link.target != found_link.source:
            sources.setdefault(found_link.target, {}).setdefault(
                found_link.source, found_link.link.start
            )
            targets.setdefault(found_link.source, {})[found_link.target] = None
    return LinkMap(
        {path: dict(sorted(each.items())) for path, each in sources.items()},
        {path: tuple(each) for path, each in targets.items()},
    )


def resolve_few(vault: Vault, links: Sequence[tuple[str, Link]]) -> list[int | None]:
    """Return the target documents of a few links (note, link).

    All names are read only for links that are not ASCII.
    """
    store = LinkStore(vault.state)
    targets = [link.path.rpartition("/")[2].removesuffix(".md") for _, link in links]
    if not all(target.isascii() for target in targets):  # SQLite folds no other letters.
        graph = LinkGraph(vault)
        target_paths = [graph.names.find(link, source) for source, link in links]
        return [graph.documents.get(path or "") for path in target_paths]
    aliases = store.aliases_among(dict.fromkeys(link.path for _, link in links))
    ids = ", ".join(map(str, aliases))
    patterns = [f"%{_as_pattern(target)}.md" for target in dict.fromkeys(targets)]
    condition = " OR ".join("d.path LIKE ? ESCAPE '!'" for _ in patterns) or "0"
    paths = vault.view.paths(f"d.id IN ({ids}) OR {condition}", patterns)
    documents = {path: number for number, path in paths.items()}
    names = LinkNames(
        documents, {paths[number]: each for number, each in aliases.items() if number in paths}
    )
    return [documents.get(names.find(link, source) or "") for source, link in links]


def list_links(vault: Vault, path: str) -> list[FoundLink]:
    """Return the links of a note in their order, with `missing` set for broken ones."""
    graph = LinkGraph(vault)
    return [check_place(graph, found_link) for found_link in graph.links_of(graph.documents[path])]


def list_backlinks(vault: Vault, path: str) -> list[FoundLink]:
    """Return the links of other notes to this one, by their paths."""
    graph = LinkGraph(vault)
    backlinks = [each for each in graph.links() if each.target == path != each.source]
    backlinks.sort(key=lambda each: (each.source, each.link.start))
    return [check_place(graph, each) for each in backlinks]


def list_broken(vault: Vault) -> list[FoundLink]:
    """Return the links of all notes that lead to no file, by path."""
    links = [found_link for found_link in LinkGraph(vault).links() if found_link.missing]
    return sorted(links, key=lambda each: (each.source, each.link.start))


def list_orphans(vault: Vault) -> list[tuple[NoteRecord, int]]:
    """Return the notes that no other note links to, each with the number of its own links.

    Pinned notes and reference material (`primed/`) are omitted.
    """
    targets: set[str] = set()
    outgoing: dict[str, int] = {}
    for found_link in LinkGraph(vault).links():
        if found_link.target is not None and found_link.target != found_link.source:
            targets.add(found_link.target)
            outgoing[found_link.source] = outgoing.get(found_link.source, 0) + 1
    return [
        (record, outgoing.get(record.path, 0))
        for record in vault.view.records("d.pinned = 0 AND d.path NOT LIKE 'primed/%'")
        if record.path not in targets
    ]


def _as_pattern(text: str) -> str:
    """Return text as a LIKE pattern that matches only this text."""
    return "".join(f"!{mark}" if mark in "!%_" else mark for mark in text)


def check_place(graph: LinkGraph, found_link: FoundLink) -> FoundLink:
    """Return a link with `missing` set if the heading or block that it names is missing."""
    if (
        found_link.missing
        or not found_link.link.subpath
        or found_link.target not in graph.documents
    ):
        return found_link
    if graph.find_section(found_link) is not None:
        return found_link
    missing = "block" if found_link.link.subpath.startswith("^") else "heading"
    return FoundLink(found_link.source, found_link.link, found_link.target, missing)


#: The number of best sections whose links are followed.
_MAX_FOLLOWED_SECTIONS = 10

_Key = tuple[int, int]


def expand_hits(vault: Vault, hits: Sequence[Hit], query: RecallQuery) -> list[Hit]:
    """Return the hits and the sections that the best of them link to, at most `query.limit`.

    A linked section gets a share of the linking section's score. The query's filter applies to it,
    except author, folder, date and conflict.
    """
    from vaultmem.core.search.ranking import share_scores

    graph = LinkGraph(vault)
    hits_by_key = {hit.local_key: hit for hit in hits}
    places: dict[_Key, tuple[NoteRecord, SectionRecord]] = {}
    links: dict[_Key, list[_Key]] = {}
    for hit in hits[:_MAX_FOLLOWED_SECTIONS]:
        for found_link in graph.links_of(hit.record.document):
            if _is_in(hit, found_link) and (place := _find_place(vault, graph, query, found_link)):
                key = (place[0].document, place[1].ordinal)
                places[key] = place
                links.setdefault(hit.local_key, []).append(key)
    results = []
    scores = [(hit.local_key, hit.score) for hit in hits]
    for key, score, giver in share_scores(scores, links)[: query.limit]:
        source = hits_by_key[giver].record.path if giver else ""
        linked_hit = hits_by_key.get(key) or _read_hit(vault, *places[key])
        if linked_hit is not None:
            results.append(linked_hit._replace(score=score, linked_from=source))
    return results


def _is_in(hit: Hit, found_link: FoundLink) -> bool:
    """Return whether a link is in a section; links in properties belong to the first."""
    if found_link.link.property:
        return hit.section.ordinal == 0
    return hit.section.start <= found_link.link.start < hit.section.end


def _find_place(
    vault: Vault, graph: LinkGraph, query: RecallQuery, found_link: FoundLink
) -> tuple[NoteRecord, SectionRecord] | None:
    document = graph.documents.get(found_link.target or "")
    section = graph.find_section(found_link) if document is not None else None
    if document is None or section is None:
        return None
    record = vault.view.records_of([document])[document]
    # Author, folder, date and conflict filter the hits, not their targets.
    any_author = query.filter._replace(session="", agent="", conflicted=False)
    note_filter = any_author._replace(paths=(), since=None, until=None)
    return (record, section) if note_filter.admits(record) else None


def _read_hit(vault: Vault, record: NoteRecord, section: SectionRecord) -> Hit | None:
    weight = STATE_WEIGHT.get(NoteState(record.state), 1.0)
    for _, _, text in read_sections(vault, [(record, section)]):
        return Hit(record, section, text, 0.0, (), 0.0, weight)
    return None


class NewLinks:
    """Writes links to notes of a vault; the vault's names are read on first use."""

    def __init__(self, vault: Vault, names: LinkNames | None = None) -> None:
        self._vault = vault
        self._told = vault.store.obsidian
        self._known = names

    @cached_property
    def _names(self) -> LinkNames:
        return self._known or LinkNames(list_files(self._vault))

    def in_body(self, path: str, source: str) -> str:
        """Return the link to a note for the text of another; the shortest without Obsidian."""
        if not self._told.markdown_links:
            return self.in_property(path, source)
        return link_in_markdown(path, f"{encode_destination(self._spell(path, source))}.md")

    def in_property(self, path: str, source: str) -> str:
        """Return the wikilink to a note, or a markdown link if its path needs one."""
        target = self._spell(path, source)
        return link_to(path) if UNLINKABLE & set(target) else f"[[{target}]]"

    def _spell(self, path: str, source: str) -> str:
        """Return the path of a link as written, without its extension."""
        if self._told.link_format is LinkFormat.ABSOLUTE:
            return path.removesuffix(".md")
        is_relative = self._told.link_format is LinkFormat.RELATIVE
        return spell_new(path, source, self._names, is_relative=is_relative)


def list_files(vault: Vault) -> list[str]:
    """Return the paths of all possible link targets: notes and attachments."""
    files = dict.fromkeys(vault.view.paths().values())
    if vault.view.has_work_tree:
        files.update(dict.fromkeys(vault.manifest.stats()))
        files.update(dict.fromkeys(find_attachments(vault.root)))
    for source in vault.view.sources:
        if source.number is not None:
            files.update(dict.fromkeys(vault.history.tree(source.commit)))
    return list(filter(is_text, files))
