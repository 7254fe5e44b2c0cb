#!/bin/sh
# Run the index's contract tests on Whoosh-Reloaded, kept beside the project's own Whoosh.
set -eu
cd "$(dirname "$0")/../.."
folder=.build/whoosh-reloaded
[ -d "$folder/whoosh" ] || python -m pip install --quiet --target "$folder" Whoosh-Reloaded
VAULTMEM_WHOOSH_PATH=$folder exec python -m pytest -q tests/storage/test_search_index.py "$@"
