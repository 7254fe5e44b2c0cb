"""Where a client's files are on this machine: its own variables, the system's, or the home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Folders that differ by the system: of programs with windows, and of extensions of VS Code.
_FOLDERS: dict[str, dict[str, tuple[str, ...]]] = {
    "APPS": {
        "darwin": ("~/Library/Application Support",),
        "win32": ("$APPDATA", "~/AppData/Roaming"),
        "": ("$XDG_CONFIG_HOME", "~/.config"),
    },
    "CODE": {"": ("$APPS/Code/User/globalStorage",)},
}


def find_place(
    places: Iterable[str], home: str, platform: str, environment: Mapping[str, str]
) -> str:
    """Return the first place whose variable is set, written out; "" if there is none.

    A place begins with `$VARIABLE/`, with `~/` for the home, or with the name of a folder above.
    `platform` is as `sys.platform` has it.
    """
    for place in places:
        first, _, rest = place.partition("/")
        by_system = _FOLDERS.get(first[1:])
        if first == "~":
            folder = home
        elif by_system:
            options = by_system.get(platform, by_system[""])
            folder = find_place(options, home, platform, environment)
        else:
            folder = environment.get(first[1:], "")
        if folder:
            return f"{folder.rstrip('/')}/{rest}".rstrip("/")
    return ""
