"""Who comes in, and what no browser is let do."""

from __future__ import annotations

import asyncio

import pytest
from visiting import HOST, TOKEN, Served

from vaultmem.web.access import accept_code, make_code
from vaultmem.web.web_app import PAGES

_FORM = "application/x-www-form-urlencoded"


def test_nobody_comes_in_without_a_link(served: Served) -> None:
    answer = served.visit().get("/")
    assert answer.status_code == 401
    assert "vaultmem serve --print-link" in answer.text
    assert "MEMORY" not in answer.text


def test_a_link_lets_one_browser_in_and_no_second(served: Served) -> None:
    code = make_code(served.site.folder)
    first, second = served.visit(), served.visit()
    answer = first.get(f"/enter?code={code}")
    cookie = answer.headers["set-cookie"].casefold()
    assert answer.status_code == 200
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert second.get(f"/enter?code={code}").status_code == 403
    assert first.get("/").status_code == 200
    assert second.get("/").status_code == 401


def test_a_code_that_nobody_made_counts_for_nothing(served: Served) -> None:
    assert not accept_code(served.site.folder, "guessed")
    assert served.visit().get("/enter?code=guessed").status_code == 403
    assert served.visit().get("/enter").status_code == 403


@pytest.mark.parametrize("cookie", ["forged", "a" * 43, '"; vaultmem-8421="x', "\\303\\251"])
def test_a_forged_cookie_opens_nothing(served: Served, cookie: str) -> None:
    browser = served.visit()
    answer = browser.get("/", headers={"Cookie": f"{served.site.cookie}={cookie}"})
    assert answer.status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8421", "127.0.0.1", f"{HOST}.evil"])
def test_another_name_for_this_machine_gets_nothing(served: Served, host: str) -> None:
    browser = served.enter()
    assert browser.get("/", headers={"Host": host}).status_code == 421


#: Each address that a form of a page posts to.
_FORMS = [
    place.removeprefix("POST ").replace("{path:path}", "MEMORY.md")
    for place in PAGES
    if place.startswith("POST ")
]


@pytest.mark.parametrize("place", _FORMS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", ""])
def test_another_sites_page_cannot_post(owned: Served, place: str, origin: str) -> None:
    browser = owned.enter()
    answer = browser.post(place, data={"action": "pin"}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "Request from another site rejected" in answer.text


@pytest.mark.parametrize("place", _FORMS)
def test_a_post_that_does_not_say_where_it_comes_from_is_refused(owned: Served, place: str) -> None:
    assert owned.enter().post(place, data={"commit": "x"}).status_code == 403


@pytest.mark.parametrize("place", _FORMS)
def test_a_post_under_another_name_or_without_a_visit_is_refused(owned: Served, place: str) -> None:
    own = {"Origin": f"http://{HOST}"}
    browser = owned.enter()
    assert browser.post(place, headers={**own, "Host": "rebound.example:8421"}).status_code == 421
    assert owned.visit().post(place, headers=own).status_code == 401


def test_another_sites_script_cannot_read(served: Served) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert served.enter().get("/", headers=headers).status_code == 403


def test_a_program_shows_its_token(served: Served) -> None:
    assert served.connect().get("/search?q=refunds").status_code == 200
    wrong = served.visit()
    for token in ("", "Bearer", "Bearer wrong", "Basic x"):
        assert wrong.get("/", headers={"Authorization": token}).status_code == 401


def test_what_is_too_long_is_not_read(owned: Served) -> None:
    program = owned.connect()
    assert program.post("/undo", content=b"x" * (3 << 20)).status_code == 413


def test_every_answer_says_what_a_browser_may_do_with_it(served: Served) -> None:
    browser = served.enter()
    pages = [browser.get(place) for place in ("/", "/nowhere", "/static/style.css")]
    for answer in [*pages, served.visit().get("/")]:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'; base-uri 'none'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in policy
    assert pages[0].headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "../../../../etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "..%2fMEMORY.md",
        ".git/config",
        "/etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_vault(served: Served, path: str) -> None:
    browser = served.enter()
    for place in ("note", "file", "rail", "edit"):
        answer = browser.get(f"/{place}/{path}")
        assert answer.status_code in {403, 404, 422}, (place, path)
        assert "root:" not in answer.text


def test_a_body_that_does_not_come_is_not_waited_for(
    owned: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.web.access._BODY_TIMEOUT_SECONDS", 0.05)
    sent: list[dict[str, object]] = []
    parts = iter([{"type": "http.request", "body": b"commit=", "more_body": True}])

    async def receive() -> dict[str, object]:
        for part in parts:
            return part
        await asyncio.sleep(60)
        raise AssertionError("it was waited for")

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    names = {"Host": HOST, "Authorization": f"Bearer {TOKEN}", "Content-Type": _FORM}
    headers = [(name.lower().encode(), value.encode()) for name, value in names.items()]
    scope = {"type": "http", "method": "POST", "path": "/undo", "raw_path": b"/undo"}
    scope |= {"headers": headers, "query_string": b"", "scheme": "http", "http_version": "1.1"}
    asyncio.run(owned.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 422
    assert b"took over" in sent[1]["body"]  # type: ignore[operator]
