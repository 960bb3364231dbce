#!/bin/sh
# Makes the virtual environment that the Makefile works in: deploy/setup.sh DIRECTORY
set -eu
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "DPPCA needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2
    exit 1
}
# Debian splits ensurepip from python3; without it a virtual environment has no pip.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing python3-venv, which this Python lacks"
        apt-get update -qq && apt-get install -y -qq python3-venv
    else
        echo "this Python cannot make virtual environments: install python3-venv" >&2
        exit 1
    fi
fi
sh deploy/links.sh
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
# Exactly the locked bytes, wherever they come from. The lock is complete, so nothing is resolved.
"$venv/bin/python" -m pip install --quiet --no-compile --no-deps --require-hashes \
    --requirement requirements/dev.lock
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
# At once and on all cores: where PYTHONDONTWRITEBYTECODE is set, every command would compile what it
# imports, and take three times as long.
"$venv/bin/python" -m compileall -q -j 0 "$venv/lib"
