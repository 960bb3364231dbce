#!/bin/sh
# Makes the virtual environment that the Makefile works in, with a lock file's packages and this
# checkout: deploy/setup.sh DIRECTORY LOCK
set -eu
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "DPPCA needs Python 3.11 or newer; set PYTHON=/path/to/it" >&2
    exit 1
}
# Debian splits from python3 the wheel of pip that new environments get. Users without rights get a
# copy of it in build/tools (tools/install.py).
if ! "$python" -c 'import ensurepip' 2>/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing python3-venv, which this Python lacks"
    apt-get update -qq && apt-get install -y -qq -o Dpkg::Use-Pty=0 python3-venv
fi
sh deploy/links.sh
exec "$python" tools/install.py "$1" "$2" --editable
