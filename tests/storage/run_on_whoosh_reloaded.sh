#!/bin/sh
# Run the contract tests of the index and its codec on Whoosh-Reloaded, kept beside our own Whoosh.
set -eu
cd "$(dirname "$0")/../.."
folder=.build/whoosh-reloaded
[ -d "$folder/whoosh" ] || python -m pip install --quiet --target "$folder" Whoosh-Reloaded
VAULTMEM_WHOOSH_PATH=$folder exec python -m pytest -q tests/storage/test_search_index.py "$@"
