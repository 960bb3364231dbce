#!/usr/bin/env bash
# securesystemslib 1.6.0 with cryptography 48.0.0 and boto3 1.44.5 (PyPI, CPython 3.11, Linux): the envelopes of in-toto and TUF (DSSE).
# Guess: `securesystemslib.dsse` needs keys and signatures, so importing it loads cryptography and the library itself; the signers of
# clouds and of hardware, which are optional, are loaded when a key of that kind is asked for.
# Seen: every signer is imported with the package, and each imports its optional library where that is installed. With boto3 in the
# environment, for whatever other purpose, one import of an envelope also loads boto3, botocore and urllib3: 466 modules, not 197, and
# 0.16 s, not 0.06. Without boto3 none of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check securesystemslib==1.6.0 cryptography==48.0.0
cat > "$work/count.py" <<'PY'
import sys
import time

begun = time.process_time()
import securesystemslib.dsse  # noqa: E402, F401

seconds = time.process_time() - begun
tops = {name.partition(".")[0] for name in sys.modules}
cloud = sorted(tops & {"boto3", "botocore", "urllib3"})
print(len(sys.modules), f"{seconds:.2f}", ",".join(cloud) or "none")
PY
told() { "$work/venv/bin/python" "$work/count.py"; }
told > /dev/null # the first run writes bytecode
alone=$(told)
"$work/venv/bin/pip" install --quiet --disable-pip-version-check boto3==1.44.5
told > /dev/null
beside=$(told)
echo "modules, seconds, libraries of clouds, without boto3: $alone"
echo "the same with boto3 installed beside it:              $beside"
read -r few _ none <<< "$alone"
read -r many _ some <<< "$beside"
[ "$none" = none ]
[ "$some" = boto3,botocore,urllib3 ]
[ $((many - few)) -ge 100 ]
