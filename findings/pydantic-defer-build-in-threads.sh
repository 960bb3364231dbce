#!/bin/bash
# pydantic 2.11.0 and 2.13.0 (Python 3.11): a model with defer_build=True, which is to save time at import, is built at
# its first use; where several threads use it first at once, some of them get AttributeError (no attribute
# '__pydantic_core_schema__') or PydanticUserError ("Pydantic models should inherit from BaseModel") for a valid
# document. In 2.14.3 none does. So a command may defer it, and a server or a library that others call may not, as long
# as 2.13 is allowed. Leaves with 0 while this is so, and with 1 once it has changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
cat > "$work/try.py" <<'END_OF_PYTHON'
import sys
import threading
from collections import Counter
from typing import Annotated, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

THREADS, ROUNDS = 8, 400
sys.setswitchinterval(1e-6)


def new_model():
    class Leaf(BaseModel):
        model_config = ConfigDict(defer_build=True)
        count: Annotated[int, Field(ge=0)]
        kind: Literal["x", "y"]

    class Tree(BaseModel):
        model_config = ConfigDict(defer_build=True)
        leaves: list[Leaf]
        first: Leaf | None = None

    return Tree


errors = Counter()
for _ in range(ROUNDS):
    model, gate = new_model(), threading.Barrier(THREADS)

    def use():
        gate.wait()
        try:
            model.model_validate({"leaves": [{"count": 1, "kind": "x"}]})
        except Exception as error:
            errors[type(error).__name__] += 1

    threads = [threading.Thread(target=use) for _ in range(THREADS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors and sys.argv[1] == "fails":
        break
print(f"pydantic {pydantic.VERSION}: {dict(errors) or 'no error'}")
sys.exit(bool(errors) != (sys.argv[1] == "fails"))
END_OF_PYTHON
for pinned in "2.11.0 fails" "2.13.0 fails" "2.14.3 works"; do
    "$work/venv/bin/pip" -q install "pydantic==${pinned% *}"
    "$work/venv/bin/python" "$work/try.py" "${pinned#* }"
done
