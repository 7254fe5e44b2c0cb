#!/bin/sh
# Build the sdist, and the wheel from it; check what they hold; run tests from the sdist; install the
# wheel in an empty environment, and use it: init, remember, recall, pack.
# Usage: tests/wheel_check.sh PYTHON   (one with the dependency groups `test` and `packages`)
set -eu
case $1 in /*) python=$1 ;; *) python=$PWD/$1 ;; esac
folder=$(mktemp -d "${TMPDIR:-/tmp}/vaultmem-wheel.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM
"$python" -m build --outdir "$folder/dist" . > "$folder/build.log" 2>&1 || {
    cat "$folder/build.log"
    exit 1
}
"$python" -m twine check --strict "$folder"/dist/*
"$python" -m check_wheel_contents --ignore W002 "$folder"/dist/*.whl
tar -xzf "$folder"/dist/vaultmem_notes-*.tar.gz -C "$folder"
(
    cd "$folder"/vaultmem_notes-*/
    export PYTHONPATH="$PWD"
    "$python" -m pytest -q --collect-only -m "" > "$folder/collected" || cat "$folder/collected"
    "$python" -m pytest -q -p no:cacheprovider tests/test_documents.py tests/test_container.py
)
"$python" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q "$folder"/dist/vaultmem_notes-*.whl
export HOME="$folder/home" XDG_STATE_HOME="$folder/state" XDG_CONFIG_HOME="$folder/config"
mkdir -p "$HOME"
source=$(pwd)
cd "$folder" # Away from the checkout, so that only the installed package can be imported.
vaultmem() { "$folder/venv/bin/vaultmem" "$@"; }
languages=$("$folder/venv/bin/python" -c "from vaultmem.core import languages; print(*languages.__path__)")
diff -r -x "*.py" -x __pycache__ "$source/vaultmem/core/languages" "$languages"
vaultmem init vault
cd vault
test -f MEMORY.md && test -f templates/decision.md && test -f .gitignore
vaultmem remember "The wheel was installed in an empty environment." --context build
vaultmem recall "empty environment" | grep -q "notes/build/"
vaultmem pack "which environment?" | grep -q "empty environment"
vaultmem checkpoint "the wheel works"
test -z "$(git status --porcelain)"
vaultmem demo --no-open | grep -q "first bad commit"
vaultmem mcp 2>&1 | grep -q "is not installed; run .pip install 'vaultmem-notes\[mcp\]'"
echo "The wheel installs and works."
