#!/usr/bin/env bash
# diffprivlib 0.6.6 with scikit-learn 1.9.1, Python 3.11.
#
# Expected: pip takes a scikit-learn that works with it, since the package states what it needs.
# Seen: only a lower bound is stated, pip takes the newest, and "import diffprivlib" raises ImportError: cannot import
# name 'DOUBLE' from 'sklearn.tree._tree'. That holds for its means and histograms, too, which need no scikit-learn.
# With scikit-learn 1.5.2 it is imported.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "diffprivlib==0.6.6" "scikit-learn==1.9.1"
"$work/venv/bin/pip" check
"$work/venv/bin/pip" freeze
if "$work/venv/bin/python" -c "from diffprivlib.tools import mean" 2>"$work/words"; then exit 1; fi
tail -n 1 "$work/words"
grep -q "cannot import name 'DOUBLE'" "$work/words"
"$work/venv/bin/pip" install --quiet "scikit-learn==1.5.2"
"$work/venv/bin/python" -c "from diffprivlib.tools import mean; print('imported with scikit-learn 1.5.2')"
