#!/bin/sh
# In an unpacked source archive, which holds copies where a checkout has links, makes the links again:
# what is changed in a room then counts in dppca too. A copy that differs stays as it is.
set -eu
for room in common curator deploy owner; do
    if [ ! -L "dppca/$room" ] && diff -r -q -x __pycache__ "$room" "dppca/$room" >/dev/null; then
        rm -r "dppca/$room"
        ln -s "../$room" "dppca/$room"
    fi
done
