#!/bin/sh
# Prints what an image is made of, for its label: the commit; with "-changed" where files differ from it; "unknown" in a source
# archive.
set -eu
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || { echo unknown; exit; }
[ -z "$(git status --porcelain)" ] || commit=$commit-changed
echo "$commit"
