"""What tests of importing do: take places in, and count what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.credentials import CREDENTIALS

from vaultmem.services.exchange.run_import import ImportReport, import_kind
from vaultmem.vault import Vault

AWS_KEY = next(line for name, line in CREDENTIALS if "aws" in name.lower())


def take(vault: Vault, kind: str, *places: Path, **options: Any) -> ImportReport:
    return import_kind(vault, kind, [str(place) for place in places], **options)


def counts(report: ImportReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in report.counts.values():
        for outcome, number in each.items():
            found[outcome.value] = found.get(outcome.value, 0) + number
    return found
