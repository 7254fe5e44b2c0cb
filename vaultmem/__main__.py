"""Run the command line: `python -m vaultmem`, and `vaultmem` itself."""

from __future__ import annotations

from vaultmem.cli.interrupt import end_at_once


def main() -> None:
    """Run the command that the process was started with."""
    end_at_once()
    from vaultmem.cli.start import main as start

    start()


if __name__ == "__main__":
    main()
