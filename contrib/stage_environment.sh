#!/usr/bin/env bash
# A copy of this checkout with its .venv/ on the disk of a node, where hundreds of ranks import from it.
#
#   stage_environment.sh pack ARCHIVE              once, where the checkout is: one file, which nodes read in one piece
#   stage_environment.sh unpack ARCHIVE FOLDER     once on each node, as by srun --ntasks-per-node=1
#
# Then ranks start FOLDER/.venv/bin/python FOLDER/bench.py. A complete copy of the same archive is used again.
set -euo pipefail

usage() {
    echo "usage: $0 pack ARCHIVE | unpack ARCHIVE FOLDER" >&2
    exit 2
}

pack() {
    local checkout
    checkout=$(cd "$(dirname "$0")/.." && pwd)
    [ -e "$checkout/.venv/.complete" ] || { echo "$0: $checkout/.venv is not complete; allowed: after make install" >&2; exit 2; }
    # The first entry is the path that files of the environment name.
    names=$(mktemp -d)
    trap 'rm -rf "$names"' EXIT
    printf '%s\n' "$checkout" >"$names/packed-from"
    tar --create --file "$1.part" -C "$names" packed-from -C "$checkout" \
        hpcai kernels bench.py setup.py inputs contrib .venv/
    mv "$1.part" "$1"
}

unpack() {
    local archive=$1 folder=$2 was identity
    identity=$(stat -Lc '%n %s %y' "$archive")
    [ "$(cat "$folder/unpacked" 2>/dev/null)" != "$identity" ] || return 0
    mkdir -p "$folder"
    tar --extract --file "$archive" -C "$folder"
    folder=$(cd "$folder" && pwd)
    was=$(cat "$folder/packed-from")
    # Scripts and the entry of this package name the folder in which they were installed.
    { grep -rIlF "$was/" "$folder"/.venv/bin "$folder"/.venv/lib/python*/site-packages/__editable__* \
        "$folder"/.venv/lib/python*/site-packages/*.pth 2>/dev/null || true; } |
        while read -r file; do sed -i "s|$was/|$folder/|g" "$file"; done
    printf '%s\n' "$identity" >"$folder/unpacked"
}

case "$#:${1:-}" in
2:pack) pack "$2" ;;
3:unpack) unpack "$2" "$3" ;;
*) usage ;;
esac
