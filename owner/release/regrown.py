"""Whether a study's trees are those that its curator's file of rows, and its seed, give."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from dppca.common.kernel.attestation.envelopes import digest_file
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study


class Regrown(StrEnum):
    """Whether a study's trees are those that its rows and its seed give."""

    SAME = "same"
    DIFFERENT = "different"
    UNCHECKED = "unchecked"


def compare_grown(study: Study, path: Path | None) -> Regrown | None:
    """Grow the trees of a study again, from the file of the rows; None if none were grown."""
    grown = None if study.continues is None else study.continues.grown
    if grown is None:
        return None
    if path is None:
        return Regrown.UNCHECKED
    if digest_file(path) != grown.rows:
        return Regrown.DIFFERENT
    from dppca.common.analysis.rows.refinement import grow_again  # a contribution needs none of it

    trees = grow_again(path, study.table, grown)
    again = Schema.from_document({**study.table.model_dump(mode="json"), "tables": trees})
    return Regrown.SAME if again.digest == study.table.digest else Regrown.DIFFERENT
