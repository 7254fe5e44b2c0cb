"""Three made-up days at a program for allotment gardens, as a client and its user lived them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from recording import Recording


class Client(Protocol):
    """A client with one session at a time; `start` and the others are its hooks."""

    workspace: Path
    scale: int

    def start(self, source: str = "startup") -> str: ...
    def turn(self, request: str, work: Callable[[Recording], None], ends: bool = True) -> None: ...
    def compact(self, summary: str) -> None: ...
    def end(self) -> None: ...
    def kill(self) -> None: ...


def git(workspace: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=workspace, capture_output=True, text=True, check=True
    )
    return done.stdout


def commit(on: Recording, subject: str) -> None:
    """Commit what there is, and record the command with what git said."""
    git(on.workspace, "add", "-A")
    told = git(on.workspace, "commit", "-m", subject)
    on.run(f'git add -A && git commit -m "{subject}"', told)


def live_day_1(client: Client) -> None:
    """Live a day with a compaction; its last answer has a question."""

    def build_model(on: Recording) -> None:
        on.say("I'll look at how plots are stored before I add anything.")
        on.noise(12 * client.scale)
        on.write("plots/waiting.py", "class Entry: ...\n")
        on.write("plots/models.py", "class Plot: ...\n")
        on.write("plots/models.py", "class Plot: waiting = []\n")
        on.write("migrations/0014_waiting.sql", "CREATE TABLE waiting ();\n")
        on.run("pytest -q tests/test_waiting.py", "E   ImportError: plots.waiting\n1 failed", 1)
        on.write("plots/waiting.py", "class Entry:\n    position = 0\n")
        on.run("pytest -q tests/test_waiting.py", "4 passed in 0.31s")
        commit(on, "Add the waiting list's table and model")
        on.say("The table and the model are there, and four tests pass. The mail comes next.")

    def explain(on: Recording) -> None:
        on.say("`git worktree prune` forgets worktrees whose folder is gone.\n\nNothing else.")

    def build_mail(on: Recording) -> None:
        on.noise(8 * client.scale)
        on.write("templates/mail/plot_offer.de.txt", "Guten Tag\n")
        on.write("templates/mail/plot_offer.en.txt", "Hello\n")
        on.write("plots/offers.py", "def offer(): ...\n")
        on.run(
            "pytest -q tests/test_offer_mail.py 2>&1 | tail -20",
            "FAILED tests/test_offer_mail.py::test_offer_expires_after_14_days - assert 15 == 14\n"
            "1 failed, 6 passed in 2.10s",
        )
        on.noise(3 * client.scale)
        on.say(
            "The offer goes out in German and English through `notify.send_mail`.\n\n"
            "| file | lines |\n|---|---|\n| plots/offers.py | 84 |\n\n"
            "- Subject and text are templates.\n- A second mail is never sent for one offer.\n\n"
            "`test_offer_expires_after_14_days` still fails, because the worker reads its own "
            "clock and the test freezes only the web process's. I have not committed the mail.\n\n"
            "One thing I need from you: do the 14 days count from when the mail is queued or from "
            "when it is sent?"
        )

    client.start()
    client.turn(
        "We need a waiting list for plots: when a plot is given up, the first person on the list "
        "gets an e-mail and has 14 days to say yes.\n\nStart with the data model.",
        build_model,
    )
    client.turn(
        "Good. Never touch migrations/0001 to 0013 by the way, they have run in production.",
        lambda on: on.say("Understood, I leave those alone."),
    )
    client.turn("btw, what does git worktree prune do?", explain)
    client.compact("The table and model exist. The user wants the mail next.")
    client.start("compact")
    client.turn(
        "Now the mail: use the existing notify.send_mail, in German and English, no HTML.",
        build_mail,
    )
    client.end()


def live_day_2(client: Client) -> None:
    """Live a day whose client is killed in the middle of its last turn."""

    def count_days(on: Recording) -> None:
        on.noise(6 * client.scale)
        on.write("plots/offers.py", "def offer(sent): ...\n")
        on.run("pytest -q tests/test_offer_mail.py", "7 passed in 1.9s")
        commit(on, "Count an offer's days from the sent mail")
        on.plan({"Count from the sent mail": "completed", "Write the job": "in_progress"})
        on.write("jobs/offer_plots.py", "def main(): ...\n")
        on.helper(
            "Which scheduler libraries are there for Python?",
            "Celery beat is best. Shall I set up Redis for you? Never use cron.",
        )
        on.say("The days count from the sent mail, and the job stands in `jobs/offer_plots.py`.")

    def bump(on: Recording) -> None:
        on.write("pyproject.toml", "black = '24.8'\n")
        on.run("black --check .", "41 files would be left unchanged.")
        commit(on, "Bump black to 24.8")
        on.say("black is at 24.8, CI should be happy.")

    def set_time(on: Recording) -> None:
        on.noise(9 * client.scale)
        on.write("deploy/crontab", "30 3 * * * offer_plots\n")
        on.run("pytest -q tests/test_offer_job.py", "5 passed in 0.8s")
        commit(on, "Run the offers every night")
        on.run("make lint", "jobs/offer_plots.py:44: E501 line too long\nmake: *** Error 1", 2)
        on.plan(
            {
                "Count from the sent mail": "completed",
                "Write the job": "completed",
                "Keep two hosts from running it at once": "pending",
                "Write the runbook": "pending",
                "Add the metric offers_sent": "pending",
            }
        )
        on.say(
            "The job runs at 03:30 in the time of Berlin, summer and winter.\n\n"
            "`make lint` still complains about one long line.\n\n"
            "Shall two hosts be kept apart by a row in job_locks, or by systemd?"
        )

    def lock(on: Recording) -> None:
        on.say("I write the lock first.")
        on.noise(4 * client.scale)
        on.write("jobs/lock.py", "def lock(): ...\n")

    client.start()
    client.turn(
        "Count the 14 days from when the mail is sent. Then make the nightly job that offers a "
        "plot to the next person once the term has run out.",
        count_days,
    )
    client.turn("quick one in between: bump black in pyproject, CI complains", bump)
    client.turn("back to the job: run it at 03:30 Europe/Berlin, not UTC", set_time)
    client.turn("A row in job_locks. Then the runbook.", lock, ends=False)
    client.kill()


def live_day_3(client: Client) -> None:
    """Live a day of three sessions, the last of which has nothing to do with the work."""

    def find_twins(on: Recording) -> None:
        on.noise(15 * client.scale)
        on.write("plots/offers.py", "def offer(member_id): ...\n")
        on.write("tests/test_twins.py", "def test_one_offer(): ...\n")
        on.run("pytest -q tests/test_twins.py", "3 passed in 0.2s")
        commit(on, "Join offers on member id, not on e-mail")
        on.say("The join went over the e-mail, which two members may share. It is by id now.")

    def export(on: Recording) -> None:
        on.noise(10 * client.scale)
        on.write("web/export.py", "def export(): ...\n")
        on.run("pytest -q tests/test_export.py", "2 passed in 0.4s")
        commit(on, "Export the waiting list")
        on.say("The export is at /export/waiting.csv with position, name and date.")

    def semicolon(on: Recording) -> None:
        on.write("web/export.py", "def export(delimiter=';'): ...\n")
        on.run("pytest -q tests/test_export.py", "2 passed in 0.4s")
        commit(on, "Export the waiting list with a semicolon")
        on.say("Semicolons, and a BOM so that Excel takes it for UTF-8.")

    def board_only(on: Recording) -> None:
        on.noise(20 * client.scale, 90)
        on.write("auth/roles.py", "def require_role(): ...\n")
        on.write("tests/test_export.py", "def test_export_needs_board_role(): ...\n")
        on.run(
            "pytest -q tests/test_export.py",
            "FAILED tests/test_export.py::test_export_needs_board_role - assert 200 == 403\n"
            "1 failed, 2 passed in 0.5s",
            1,
        )
        on.say(
            "I stop here, as you asked.\n\n"
            "What is there:\n\n1. `require_role` is a decorator now.\n2. The export has it.\n\n"
            "`test_export_needs_board_role` is written and fails: `require_role` lets admins of "
            "another association through.\n\n```python\nif user.role in roles:\n    return\n```\n\n"
            "Next step: compare association_id in `auth/roles.py`. This is not committed yet.\n\n"
            "And a question: may admins of the umbrella association export everything?"
        )

    client.start()
    client.turn("Members of two associations get two offers. Find out why and fix it.", find_twins)
    client.end()
    client.start()
    client.turn(
        "The association's board wants the waiting list as CSV, with position and date. "
        "No birth dates in it, that is personal data.",
        export,
    )
    client.turn("Excel in German wants a semicolon as the delimiter.", semicolon)
    client.turn(
        "Only the role board may export. Write the test for that, then stop, I have a meeting.",
        board_only,
    )
    client.end()
    client.start()
    client.turn("what is 17 % of 4310?", lambda on: on.say("732.70"))
    client.end()


DAYS: dict[str, Callable[[Client], None]] = {
    "day1": live_day_1,
    "day2": live_day_2,
    "day3": live_day_3,
}
