"""Days of the old calendar, which is Julian before 15 October 1582, in Parquet of Spark and Hive.

Both name a day by that calendar and store where it lies: 1000-01-01 as the day that is 1000-01-06
in ours. The footer says so: Spark's version before 3.0 (before 3.1 for INT96; the first of 2.x give
their schema without a version), its LEGACY modes since, and Hive's word on its dates. Each such day
becomes the day of its name, as Spark reads it; 29 February of 1000, which ours lacks, is 1 March.
Times are those of UTC, without Spark's NTZ, which never was of the old calendar.

Sources: Apache Spark, ``DataSourceUtils.datetimeRebaseSpec`` and ``int96RebaseSpec``; Apache Hive,
``DataWritableWriteSupport`` (``writer.date.proleptic``).
"""

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dppca.owner.records.statistical_days import array_of

_VERSION: Final = b"org.apache.spark.version"
_ROW: Final = b"org.apache.spark.sql.parquet.row.metadata"
_LEGACY: Final = b"org.apache.spark.legacyDateTime"
_LEGACY_INT96: Final = b"org.apache.spark.legacyINT96"
_HIVE: Final = b"writer.date.proleptic"
_OUR_FIRST: Final = -141_427  # 1582-10-15, in days since 1970
_JULIAN_ZERO: Final = 719_470  # days from 1 March of the year 0 in the Julian calendar to 1970
_PER_DAY: Final = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}


def find_old(metadata: pq.FileMetaData) -> frozenset[str]:
    """Return the columns of a Parquet file whose dates or times are of the old calendar."""
    said = metadata.metadata or {}
    version = (99, 0)
    if found := re.match(rb"(\d+)\.(\d+)", said.get(_VERSION, b"")):
        version = (int(found[1]), int(found[2]))
    elif _VERSION not in said and _ROW in said:
        version = (2, 0)
    old = version < (3, 0) or _LEGACY in said
    old_dates = old or said.get(_HIVE, b"").lower() == b"false"
    old_int96 = version < (3, 1) or _LEGACY_INT96 in said
    schema = metadata.schema
    if not (old_dates or old_int96):
        return frozenset()
    columns = [schema.column(index) for index in range(len(schema))]
    int96 = {each.path for each in columns if each.physical_type == "INT96"}
    return frozenset(
        field.name
        for field in schema.to_arrow_schema()
        if (pa.types.is_date(field.type) and old_dates)
        or (
            pa.types.is_timestamp(field.type)
            and (old_int96 if field.name in int96 else old and field.type.tz)
        )
    )


def of_old_calendar(cells: pa.Array) -> pa.Array:
    """Return dates or times of the old calendar as those that have their names in ours."""
    kind = cells.type
    width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    ticks = cells.view(width).fill_null(0).to_numpy()
    unit = None if width == pa.int32() else "ms" if pa.types.is_date64(kind) else kind.unit
    per_day = 1 if unit is None else _PER_DAY[unit]
    if (ticks >= _OUR_FIRST * per_day).all():
        return cells
    days = ticks.astype(np.int64) // per_day
    years = (4 * (days + _JULIAN_ZERO) + 3) // 1461  # Julian ones, which begin in March
    later = np.where(days < _OUR_FIRST, years // 100 - years // 400 - 2, 0)
    moved = (ticks - later * per_day).astype(ticks.dtype)
    return array_of(moved, kind, pc.is_valid(cells).to_numpy(zero_copy_only=False))
