#!/bin/sh
# The main job of vaultmem on a copy of sample-vault: ask, edit, promote, checkpoint, look back.
# Run it with `make demo`. It touches nothing outside a temporary folder.
set -eu
# What it shows is a person's word, so it needs a terminal, and none of an agent's marks.
[ "${DEMO-}" ] || exec env -i DEMO=1 PATH="$PATH" LANG="${LANG-C.UTF-8}" TERM="${TERM-dumb}" TMPDIR="${TMPDIR-/tmp}" \
    python -c "import os, subprocess as s, sys; sys.exit(s.call(['sh', *sys.argv[1:]], stdin=os.openpty()[1]))" "$0"
project=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/vaultmem-demo.XXXXXX")
trap 'rm -rf "$folder"' EXIT INT TERM
export HOME="$folder/home" XDG_STATE_HOME="$folder/state" XDG_CONFIG_HOME="$folder/config"
mkdir -p "$HOME"
git config --global user.name "Maren"
git config --global user.email "maren@example.com"
cp -R "$project/sample-vault" "$folder/ferrylane"
cd "$folder/ferrylane"

# In a terminal, wait for Enter before each part.
title() {
    if [ -t 1 ] && (: < /dev/tty) 2> /dev/null; then
        printf '\n[Enter]' && read -r _ < /dev/tty
    fi
    printf '\n\n== %s\n' "$1"
}
run() {
    printf '\n$'
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./%=-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    printf '\n'
    "$@"
}

title "A folder of markdown becomes a vault; nothing that was there is changed"
run vaultmem init --yes
run vaultmem trust

title "Three questions"
run vaultmem recall "how are refunds handled?" -n 3
run vaultmem recall "what did we decide about session tokens?" -n 2 --explain
run vaultmem recall "how do I roll back a deploy?" -n 3

title "What an agent reads: a pack of at most 1,200 tokens instead of the whole vault"
run vaultmem pack "what did we decide about session tokens?" --budget 1200

title "An agent remembers something; a person edits a note in their editor"
run vaultmem --agent claude --session s-0502 remember "Holmpay answers 429 above 120 refunds a minute; the queue waits 30 seconds and goes on." --title "Holmpay limits refunds to 120 a minute" --context payments --tag payments/refunds --confidence 0.9
run sed -i.bak "s/^- Agents work on staging/- Nobody deploys during a storm warning.\n- Agents work on staging/" MEMORY.md
rm -f MEMORY.md.bak
run vaultmem recall "storm warning" -n 1

title "A candidate is promoted, and the rest is committed at a checkpoint"
run vaultmem list --state candidate
run vaultmem promote notes/payments/half-refunds-round-up.md
run vaultmem --agent claude --session s-0502 checkpoint "before the winter timetable"

title "Git is the audit log"
run git log --format='%h  %an  %s'
run git show --stat --format='%an <%ae>%n%n%B' HEAD
run vaultmem pack "refunds a minute" --budget 1200
