"""A second study whose tables are trees grown on what a first one has published.

The first study's result gives synthetic rows; trees that predict an attribute on them
(`dppca.common.analysis.field.tree_growth`) have their leaves where it changes; the second study
counts real rows in these leaves and releases nothing else. Choosing what it counts costs nothing:
it is post-processing of the first result. The rows are kept as a file, whose digest the study
names, so that anybody can grow the same trees again.

`choose_size` has one rule for all data: the largest of `SIZES` whose leaves hold, on average,
`ROWS_PER_NOISE` times as many rows as the standard deviation of the noise of a count.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from math import sqrt
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet
import yaml

from dppca.common.analysis.field.tree_growth import grow_trees
from dppca.common.analysis.rows.synthesis import make_generator, synthesize
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.table_files import labelled_writer, with_metadata
from dppca.common.kernel.attestation.tables import label_inside, read_rows
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import METADATA_KEY, Form
from dppca.common.kernel.durable.files import digest_file, replacing, writing
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.laws import every_law
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.release import sensitivity_of
from dppca.common.kernel.privacy.sensitivity import TablesShape
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import GrownTrees, Study

ROWS = 60_000
"""Synthetic rows that trees are grown on."""
SIZES = ((5, 32), (10, 64), (20, 128), (40, 256))
"""Numbers of trees and of leaves, ascending."""
ROWS_PER_NOISE = 5  # deviations of a count's noise, so that a leaf stands out of it


@dataclass(frozen=True, slots=True)
class TreeSize:
    """Size of the trees of a second study, and what it means for their counts."""

    trees: Annotated[int, "number of trees"]
    leaves: Annotated[int, "most leaves of each"]
    rows_per_leaf: Annotated[float, "rows of all owners in a leaf, on average"]
    noise: Annotated[float, "standard deviation of the noise of a count, in rows"]

    @property
    def is_clear(self) -> bool:
        """Return True if a leaf's rows stand out of the noise."""
        return self.rows_per_leaf >= ROWS_PER_NOISE * self.noise


def choose_size(first: Study, *, epsilon: Decimal, delta: Decimal | None, n_rows: int) -> TreeSize:
    """Return the size of the trees of a second study, by public numbers alone.

    Parameters
    ----------
    first
        The study that is continued; the second has its mechanism and its trust.
    epsilon, delta
        What the second study's releases may cost.
    n_rows
        Rows of all owners.
    """
    for size in reversed(SIZES):
        found = _measure(first, size, epsilon, delta, n_rows)
        if found.is_clear:
            break
    return found


@dataclass(frozen=True, slots=True)
class PlannedRounds:
    """A budget divided between a study and one that continues it: half of the noise's cost each."""

    epsilon: Annotated[Decimal, "epsilon of each of the two studies, at the same delta"]
    size: Annotated[TreeSize, "trees of the second one"]


def plan_rounds(study: Study, whole: Calibration, *, n_rows: int) -> PlannedRounds | None:
    """Return a study's budget in two parts; None for one that continues another, or the ball.

    ``whole`` is the study's calibration. A Gaussian budget is halved in rho, a pure one in epsilon.
    """
    table = study.table
    if study.continues is not None or table.row_norm is not None:
        return None
    half = PrivacyCost(whole.charge.epsilon / 2, whole.charge.rho / 2).epsilon_at(whole.delta)
    delta = study.privacy.delta
    return PlannedRounds(half, choose_size(study, epsilon=half, delta=delta, n_rows=n_rows))


def _measure(
    first: Study, size: tuple[int, int], epsilon: Decimal, delta: Decimal | None, n_rows: int
) -> TreeSize:
    trees, leaves = size
    bits = first.table.resolution_bits
    sens = sensitivity_of(first.table, TablesShape(trees), n_entries=trees * leaves)
    noise = calibrate_noise(
        every_law()[first.privacy.mechanism].of_continuation(),
        sens,
        epsilon=epsilon,
        delta=delta,
        max_rows_per_person=first.unit.factor,
    )
    noise = replace(noise, n_honest_owners=first.n_honest_owners)
    deviation = noise.law.deviation * sqrt(noise.mechanisms(len(first.owners))) / 4**bits
    return TreeSize(trees, leaves, n_rows / leaves, deviation)


def require_refinable(first: Study, target: str, delta: Decimal | None) -> None:
    """Raise `SettingError` if a study cannot be continued with these trees and this noise.

    The target is no attribute, the noise needs a delta or has none, or the study continues another.
    """
    if first.continues is not None:
        raise SettingError(f"study {first.name} continues another itself: refine that one")
    if target not in (attribute.name for attribute in first.table.attributes):
        raise SettingError(f"{target} is not an attribute of study {first.name}")
    if every_law()[first.privacy.mechanism].needs_delta != (delta is not None):
        needs = "no delta" if delta is not None else "a delta"
        raise SettingError(f"study {first.name} has {first.privacy.mechanism} noise: give {needs}")


def write_rows(path: Path, result: Result, study: Study, *, sha256: bytes, mode: int) -> None:
    """Write the rows that trees are grown on, unless they lie there: they are never drawn again.

    The SHA-256 of the result file decides them; ``mode`` has the permissions of the file. Raise
    `SettingError` if it cannot be written, or is there and was not drawn for this study.
    """
    if path.exists():
        if _study_inside(path) != study.digest:
            raise SettingError(
                f"{path} is there, and is no file of rows for study {study.name}: name another "
                "output, or move it away"
            )
        return
    rng = make_generator("refine", sha256, ROWS)
    drawn = synthesize(result, study, Form.DECODED, n_rows=ROWS, rng=rng)
    fields = with_metadata(drawn.fields, label_inside(drawn.claims))
    with (
        writing(path),
        replacing(path, durable=False) as draft,
        labelled_writer(draft, path.suffix, fields, mode=mode) as writer,
    ):
        for batch in pa.Table.from_batches(drawn.batches()).combine_chunks().to_batches():
            writer.write(batch)


def _study_inside(path: Path) -> object:
    """Return the digest of the study in a file of rows; None if there is none."""
    try:
        return json.loads(pa.parquet.read_schema(path).metadata[METADATA_KEY])["study_digest"]
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError):
        return None


def grow_again(path: Path, schema: Schema, grown: GrownTrees) -> list[dict[str, Any]]:
    """Return the trees that a file of rows and a seed give, as entries of a schema's ``tables``.

    Raise `ArtefactError` or `AlteredError` if the file is no table of rows of the schema.
    """
    columns = read_rows(path, schema, n_rows=ROWS)
    return grow_trees(
        schema, columns, grown.target, count=grown.trees, leaves=grown.leaves, seed=grown.seed
    )


def refine(
    first: Study,
    *,
    sha256: bytes,
    rows: Path,
    target: str,
    size: tuple[int, int],
    epsilon: Decimal,
    delta: Decimal | None,
    changes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the document of a study that continues another, without keys of owners.

    Parameters
    ----------
    sha256
        Digest of the first study's result file, 32 bytes; it decides the seed.
    rows
        File of `write_rows`.
    target
        Attribute that the trees predict.
    size
        Number of trees, and of the leaves of each.
    epsilon, delta
        What each owner's release may cost; the rest of its privacy is the first study's.
    changes
        Other fields that differ from the first study's: its name, its times.

    Raise as `require_refinable`.
    """
    require_refinable(first, target, delta)
    grown = GrownTrees(
        rows=digest_file(rows),
        target=target,
        trees=size[0],
        leaves=size[1],
        seed=int.from_bytes(sha256[:6], "big"),  # below 2^53, for every reader of JSON
    )
    kept = first.model_dump(mode="json", by_alias=True, exclude_none=True)
    schema, privacy = kept.pop("schema"), kept.pop("privacy")
    for name in ("identities", "openers", "open_by", "deadline"):
        kept.pop(name, None)
    weights = ("target_weight", "square_weight", "count_weight", "tables_weight")
    for name in ("targets", "tables", *weights):
        schema.pop(name, None)
    for name in ("scale", "nominal_epsilon"):
        privacy.pop(name, None)
    privacy["mechanism"] = every_law()[privacy["mechanism"]].of_continuation().name
    amounts = {"epsilon": epsilon, "delta": delta}
    said = {name: decimal_text(each) for name, each in amounts.items() if each is not None}
    origin = {"study": first.digest, "result": sha256.hex()}
    return {
        **kept,
        **changes,
        "components": None,
        "privacy": {**privacy, **said},
        "continues": {**origin, "grown": grown.model_dump(mode="json")},
        "schema": {**schema, "only_tables": True, "tables": grow_again(rows, first.table, grown)},
    }


def draft_text(document: Mapping[str, Any]) -> str:
    """Return a study file (YAML), each tree on a line of its own, to which keys can be added."""
    others = {key: value for key, value in document.items() if key != "schema"}
    schema = {key: value for key, value in document["schema"].items() if key != "tables"}
    others["schema"] = schema  # the last key: its tables follow
    lines = [
        yaml.safe_dump(others, sort_keys=False, allow_unicode=True).rstrip(),
        "  tables:",
        *(f"  - {json.dumps(each, ensure_ascii=False)}" for each in document["schema"]["tables"]),
    ]
    return "\n".join(lines) + "\n"
