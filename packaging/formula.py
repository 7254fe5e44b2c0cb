"""Write a Homebrew formula for an sdist: what it needs, by its source and digest, from a lock.

`python packaging/formula.py SDIST LOCK OUT [--url URL]`; the lock is a pylock.toml, as
`uv pip compile --format pylock.toml` writes it, and its digests are those of the index. Without a
URL the formula names the file that it was made of: nobody publishes it anywhere yet.
"""

from __future__ import annotations

import argparse
import hashlib
import tomllib
from pathlib import Path
from typing import Any

#: What Homebrew has itself, and what only builds these or is no resource of this system's.
PROVIDED = {"numpy", "cryptography", "cffi", "pycparser", "pywin32", "colorama"}

HEAD = """class VaultmemNotes < Formula
  include Language::Python::Virtualenv

  desc "Agent's long-term memory as a folder of markdown in git"
  url "{url}"
  sha256 "{digest}"
  license "Apache-2.0"

  depends_on "rust" => :build # nh3, pydantic-core, rpds-py
  depends_on "cryptography"
  depends_on "libyaml"
  depends_on "numpy"
  depends_on "python@3.13"

"""

TAIL = """  def install
    virtualenv_install_with_resources
    system libexec/"bin/python", "docs/man.py", "--into", buildpath
    man1.install "vaultmem.1"
    generate_completions_from_executable(bin/"vaultmem", shell_parameter_format: :typer)
  end

  test do
    system "git", "config", "--global", "user.name", "Test"
    system "git", "config", "--global", "user.email", "test@example.org"
    system bin/"vaultmem", "init", "notes"
    cd "notes" do
      system bin/"vaultmem", "remember", "The ferry leaves at nine."
      assert_match "at nine", shell_output("#{bin}/vaultmem pack ferry")
    end
  end
end
"""


def format_resource(package: dict[str, Any]) -> str:
    """Return a package's source as a resource."""
    source = package["sdist"]
    return (
        f'  resource "{package["name"]}" do\n    url "{source["url"]}"\n'
        f'    sha256 "{source["hashes"]["sha256"]}"\n  end\n\n'
    )


def main() -> None:
    """Write the formula."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("sdist", "lock", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--url", default="")
    given = parser.parse_args()
    locked = tomllib.loads(given.lock.read_text(encoding="utf-8"))["packages"]
    wanted = [each for each in locked if each["name"] not in PROVIDED]
    without = [each["name"] for each in wanted if "sdist" not in each]
    if without:
        raise SystemExit(f"no source of {', '.join(without)} in the lock")
    url = given.url or given.sdist.resolve().as_uri()
    digest = hashlib.sha256(given.sdist.read_bytes()).hexdigest()
    resources = "".join(map(format_resource, wanted))
    text = HEAD.format(url=url, digest=digest) + resources + TAIL
    given.out.write_text(text, encoding="utf-8")
    print(f"{given.out}: {len(wanted)} resources")


if __name__ == "__main__":
    main()
