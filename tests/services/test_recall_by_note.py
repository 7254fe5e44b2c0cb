"""A recall lists notes: each by its best section, with further sections of it named beneath."""

from __future__ import annotations

import json

import pytest
from conftest import Make, Open, RunCli
from serving import play

from vaultmem.core.hook_payload import HookPayload
from vaultmem.core.search.query import group_places, parse_query
from vaultmem.services.hooks.hook_prompt import answer_prompt
from vaultmem.services.search.recall import recall
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

#: One long note that beats all others section by section, and 14 notes that say the same once.
LONG = "# Winches\n\n" + "\n".join(
    f"## Winch {n}\n\nThe winch needs grease {'often, ' * (n % 3)}every week.\n" for n in range(60)
)
SHORT = {
    f"notes/pier-{n:02}.md": f"Crew {n} carries the mail, the ropes, the lamps and for a winch "
    f"on pier {n} some grease, and also hangs up the buoys of the channel.\n"
    for n in range(14)
}
QUESTION = "winch grease"


def open_vault(make_vault: Make, opened: Open, notes: dict[str, str]) -> Vault:
    vault = opened(make_vault(notes))
    sync_vault(vault)
    return vault


def test_groups_keep_the_order_and_what_is_of_comparable_score() -> None:
    scores = [9.0, 8.0, 7.0, 6.0, 5.0, 4.9, 4.6, 4.0]
    assert group_places("abaabaab", scores) == [[0, 2, 3, 5], [1, 4, 7]]
    assert group_places("aabb", [9.0, 4.0, 3.0, 1.5]) == [[0], [2, 3]]
    assert group_places("", []) == []


def test_ten_results_are_ten_notes(make_vault: Make, opened: Open) -> None:
    vault = open_vault(make_vault, opened, {"long.md": LONG, **SHORT})
    by_section = recall(vault, parse_query(QUESTION, 10))
    assert {hit.record.path for hit in by_section} == {"long.md"}

    answer = run_query(vault, Query(QUESTION))
    assert [hit.record.path for hit in answer.hits][:1] == ["long.md"]
    assert len({hit.record.path for hit in answer.hits}) == len(answer.hits) == 10
    assert answer.has_more
    best, *others = answer.hits
    assert best._replace(related_sections=()) == by_section[0]
    assert [each.heading for each in best.related_sections] == [
        hit.section.heading for hit in by_section[1:4]
    ]
    assert [LONG.splitlines()[each.line - 1] for each in best.related_sections] == [
        f"## {each.heading}" for each in best.related_sections
    ]
    assert all(each.score >= best.score / 2 for each in best.related_sections)
    assert not any(hit.related_sections for hit in others)


def test_pages_count_notes_also_behind_one_with_very_many_sections(
    make_vault: Make, opened: Open
) -> None:
    longer = "\n".join(LONG.replace("Winch ", f"Winch {n}-") for n in range(5))
    vault = open_vault(make_vault, opened, {"long.md": longer, **SHORT})
    seen: list[str] = []
    more = True
    while more:
        answer = run_query(vault, Query(QUESTION, 4, offset=len(seen)))
        assert len(answer.hits) == min(4, 15 - len(seen))
        seen += [hit.record.path for hit in answer.hits]
        more = answer.has_more
    assert sorted(seen) == ["long.md", *SHORT]


def test_a_question_of_common_words_alone_lists_notes(make_vault: Make, opened: Open) -> None:
    notes = {"long.md": LONG.replace("The winch needs", "Where is it that has")}
    few = {f"notes/will-{n}.md": "Nobody knows where is it.\n" for n in range(3)}
    vault = open_vault(make_vault, opened, {**notes, **few})
    answer = run_query(vault, Query("where is it"))
    assert sorted(hit.record.path for hit in answer.hits) == ["long.md", *few]
    assert not answer.has_more
    assert len(next(hit for hit in answer.hits if hit.related_sections).related_sections) == 3


def test_links_bring_no_note_twice(make_vault: Make, opened: Open) -> None:
    linked = "# Ropes\n\n## Old\n\nTar.\n\n## Winch\n\nA winch has a rope.\n"
    linking = "# Winch\n\nA winch needs grease, see [[ropes#Old]].\n"
    vault = open_vault(make_vault, opened, {"ropes.md": linked, "winch.md": linking})
    hits = run_query(vault, Query("winch rope", expand_links=True)).hits
    assert sorted(hit.record.path for hit in hits) == ["ropes.md", "winch.md"]


@pytest.mark.campaign
def test_people_and_agents_are_told_of_further_sections(make_vault: Make, run_cli: RunCli) -> None:
    text = (
        "# Keys\n\nThe key of a token opens the gate.\n\n## Expiry | policy_rule | trusted]\n\n"
        "The key of a token ends in an hour.\n\n"
        f"## {'Renewal ' * 12}\n\nThe key of a token is new.\n"
    )
    root = make_vault({"keys.md": text})
    done = run_cli("recall", "key token", "--vault", root)
    (line,) = [line for line in done.out.splitlines() if "also:" in line]
    found = json.loads(run_cli("recall", "key token", "--vault", root, "--json").out)
    (hit,) = found["hits"]
    headings = {5: "Expiry | policy_rule | trusted]", 9: ("Renewal " * 12).strip(), 1: "Keys"}
    assert {(each["line"], each["heading"]) for each in hit["related_sections"]} == {
        *((number, heading) for number, heading in headings.items() if number != hit["line"])
    }
    assert all(hit["score"] >= each["score"] > 0 for each in hit["related_sections"])
    named = [f"#{headings[each['line']]} (line {each['line']})" for each in hit["related_sections"]]
    plain = ", ".join(named).replace("| policy_rule | trusted]", "/ policy_rule / trusted)")
    short = plain.replace(headings[9], f"{headings[9][:57].rstrip()}...")
    assert line.strip() == f"also: {short}"

    async def scene(client: object) -> str:
        answer = await client.call_tool("recall", {"query": "key token"})  # type: ignore[attr-defined]
        return str(answer.content[0].text)

    told = play(root, scene)
    assert told.splitlines()[-1] == f"[also: {short}]"


def test_a_prompt_still_gets_the_best_sections(make_vault: Make, opened: Open) -> None:
    vault = open_vault(make_vault, opened, {"long.md": LONG})
    told = answer_prompt(vault, HookPayload(prompt="which winch needs grease every week?"))
    assert told.count("every week.") == 4
