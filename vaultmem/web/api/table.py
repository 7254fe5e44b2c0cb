"""The table of operations: what it says is served, documented, checked and tested."""

from __future__ import annotations

from vaultmem.web.api.deciding import DECIDING
from vaultmem.web.api.finding import FINDING
from vaultmem.web.api.history import HISTORY
from vaultmem.web.api.judging import JUDGING
from vaultmem.web.api.notes import NOTES
from vaultmem.web.api.operation import Operation
from vaultmem.web.api.sessions import SESSIONS
from vaultmem.web.api.state import STATE
from vaultmem.web.api.writing import WRITING

OPERATIONS: tuple[Operation, ...] = (
    *NOTES,
    *FINDING,
    *JUDGING,
    *HISTORY,
    *SESSIONS,
    *STATE,
    *WRITING,
    *DECIDING,
)
