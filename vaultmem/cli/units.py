"""What tells a system to keep the watcher running: for systemd, and for launchd."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from xml.sax.saxutils import escape


def systemd_unit(command: Sequence[str]) -> str:
    """Return a user unit, to be saved as `~/.config/systemd/user/<name>.service`."""
    name = _name(command)
    line = " ".join(map(_quote, command))
    return f"""\
# Save as ~/.config/systemd/user/{name}.service, then:
#   systemctl --user enable --now {name}
[Unit]
Description=vaultmem watches {command[-1].replace("%", "%%")}

[Service]
ExecStart={line}
Restart=on-failure
RestartSec=5

[Install]
WantedBy=default.target
"""


def launchd_plist(command: Sequence[str]) -> str:
    """Return an agent, to be saved as `~/Library/LaunchAgents/<name>.plist`."""
    name = _name(command)
    words = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!-- Save as ~/Library/LaunchAgents/{name}.plist, then:
     launchctl load ~/Library/LaunchAgents/{name}.plist -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN"
  "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{name}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
</dict>
</plist>
"""


def _name(command: Sequence[str]) -> str:
    """Return a name that is another one for each vault."""
    return f"vaultmem-{hashlib.sha256(command[-1].encode()).hexdigest()[:8]}"


def _quote(word: str) -> str:
    """Return a word as systemd reads it in ExecStart."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
