"""A client as a process of its own: it runs the hooks that it is told to, until it is killed."""

from __future__ import annotations

import json
import subprocess
import sys

for line in sys.stdin:
    told = json.loads(line)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "vaultmem", "hook", *told["words"]],
        input=json.dumps(told["given"]),
        capture_output=True,
        text=True,
        check=True,
    )
    print(json.dumps({"out": done.stdout, "err": done.stderr}), flush=True)
