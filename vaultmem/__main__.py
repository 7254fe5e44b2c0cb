"""The entry point of `python -m vaultmem` and `vaultmem`."""

from __future__ import annotations

from vaultmem.cli.interrupt import end_at_once


def main() -> None:
    """Run the command in `sys.argv`."""
    end_at_once()
    from vaultmem.cli.start import main as start

    start()


if __name__ == "__main__":
    main()
