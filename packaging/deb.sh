#!/bin/sh
# Build a Debian package of a wheel: an environment of its own, a command, its manual page,
# completions and documents. It is for the Debian and Python that it was built on.
# Usage: packaging/deb.sh WHEEL MANUAL OUT [PYTHON]
set -eu
wheel=$1 manual=$2 out=$3 python=${4:-/usr/bin/python3}
name=vaultmem-notes
home=/usr/lib/$name
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/vaultmem-deb.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM
root=$folder/root
mkdir -p "$root/usr/bin" "$root/usr/share/man/man1" "$root/usr/share/doc/$name" "$root/DEBIAN"
umask 022

"$python" -m venv "$root$home"
"$root$home/bin/python" -m pip install -q --no-compile "$wheel[mcp,web]"
"$root$home/bin/python" -m pip uninstall -q -y pip setuptools
complete() {
    mkdir -p "$(dirname "$root/usr/share/$2")"
    _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 \
        "$root$home/bin/vaultmem" --show-completion "$1" > "$root/usr/share/$2"
}
complete bash bash-completion/completions/vaultmem
complete zsh zsh/vendor-completions/_vaultmem
complete fish fish/vendor_completions.d/vaultmem.fish
version=$("$root$home/bin/vaultmem" --version | sed 's/.* //')
find "$root$home" -name __pycache__ -prune -exec rm -r {} +
rm -f "$root$home"/bin/[Aa]ctivate*
# What is written there of where it was built is where it will be.
grep -rlIZ "$root$home" "$root$home" | xargs -0r sed -i "s|$root$home|$home|g"
ln -s "$home/bin/vaultmem" "$root/usr/bin/vaultmem"

gzip -9n < "$manual" > "$root/usr/share/man/man1/vaultmem.1.gz"
gzip -9n < "$here/CHANGELOG.md" > "$root/usr/share/doc/$name/changelog.gz"
cp "$here/README.md" "$root/usr/share/doc/$name/"
cp -r "$here/docs" "$root/usr/share/doc/$name/docs"
rm -rf "$root/usr/share/doc/$name/docs"/*.py "$root/usr/share/doc/$name/docs"/__pycache__
printf 'Copyright: The vaultmem authors\nLicense: Apache-2.0\n See /usr/share/common-licenses/Apache-2.0\n' \
    > "$root/usr/share/doc/$name/copyright"

minor=$("$python" -c "import sys; print(sys.version_info.minor)")
cat > "$root/DEBIAN/control" <<END
Package: $name
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The vaultmem authors
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), libc6 (>= 2.28), libgcc-s1, libstdc++6, git
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Section: utils
Priority: optional
Description: agent's long-term memory as a folder of markdown in git
 People edit the folder in Obsidian or vim, agents ask it by a command or by
 MCP, and git says what was known, who told it, and since when.
END
mkdir -p "$out"
dpkg-deb --build --root-owner-group -Zxz "$root" "$out" > /dev/null
ls "$out/${name}_${version}"_*.deb
