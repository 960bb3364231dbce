"""Days of the old calendar: which files say that they have them, and which day each one is."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dppca.owner.records.file_locations import local_files
from dppca.owner.records.old_calendar import find_old, of_old_calendar
from dppca.owner.records.sources import Wanted

EPOCH = date(1970, 1, 1)
NAMES = ("0001-01-01", "0300-02-28", "1000-01-01", "1582-10-04", "1582-10-15", "2020-01-31")
PLACES = (-719_164, -609_897, -354_280, -141_428, -141_427, 18_292)
"""Days since 1970 where the old calendar has these names."""
OURS = [(date.fromisoformat(each) - EPOCH).days for each in NAMES]
SPARK = "org.apache.spark."


def julian_day(year: int, month: int, day: int) -> int:
    """Days from 1970 to a date of the Julian calendar (Fliegel and Van Flandern)."""
    shifted, months = year + 4800 - (14 - month) // 12, month + 12 * ((14 - month) // 12) - 3
    return day + (153 * months + 2) // 5 + 365 * shifted + shifted // 4 - 32_083 - 2_440_588


def cells_of(kind: str) -> pa.Array:
    if kind == "date32":
        return pa.array([*PLACES, None], pa.int32()).view(pa.date32())
    times = [each * 86_400_000_000 + 3_600_000_000 for each in PLACES]
    return pa.array([*times, None], pa.int64()).view(pa.timestamp("us", "UTC"))


def write(path: Path, kind: str, said: dict[str, str]) -> Path:
    naive = {"int96": None, "ntz": None}.get(kind, "UTC")
    cells = cells_of("date32" if kind == "date32" else "times")
    if kind != "date32":
        cells = cells.view(pa.timestamp("us", naive))
    table = pa.table({"seen": cells})
    with pq.ParquetWriter(
        path, table.schema, store_schema=False, use_deprecated_int96_timestamps=kind == "int96"
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(said)
    return path


def days_of(path: Path) -> list[int | None]:
    """Days since 1970; Python's dates have no year 0."""
    ((cells,),) = local_files(path).open().read(Wanted(["seen"], 100))
    if pa.types.is_date(cells.type):
        return list(cells.view(pa.int32()).to_pylist())
    seconds = cells.cast(pa.timestamp("s", cells.type.tz)).view(pa.int64()).to_pylist()
    return [None if each is None else each // 86_400 for each in seconds]


@pytest.mark.parametrize("kind", ["date32", "times", "int96"])
@pytest.mark.parametrize(
    "said",
    [
        {SPARK + "version": "2.4.8"},
        {SPARK + "version": "2.4.0.cloudera2"},
        {SPARK + "sql.parquet.row.metadata": "{}"},
        {
            SPARK + "version": "3.5.1",
            SPARK + "legacyDateTime": "",
            SPARK + "legacyINT96": "",
            SPARK + "timeZone": "UTC",
        },
    ],
    ids=["2.4", "vendor", "2.0", "legacy"],
)
def test_a_day_of_the_old_calendar_is_the_day_of_its_name(
    kind: str, said: dict[str, str], tmp_path: Path
) -> None:
    assert days_of(write(tmp_path / "a.parquet", kind, said)) == [*OURS, None]


@pytest.mark.parametrize(
    ("kind", "said", "is_old"),
    [
        ("date32", {}, False),
        ("date32", {SPARK + "version": "3.0.0"}, False),
        ("date32", {SPARK + "version": "4.1.0-SNAPSHOT"}, False),
        ("date32", {SPARK + "version": "10.0"}, False),
        ("date32", {SPARK + "version": "3.0.1", SPARK + "legacyINT96": ""}, False),
        ("date32", {"writer.date.proleptic": "true"}, False),
        ("date32", {"writer.date.proleptic": "false"}, True),
        ("times", {"writer.date.proleptic": "false"}, False),
        ("times", {SPARK + "version": "3.0.1"}, False),
        ("int96", {SPARK + "version": "3.0.1"}, True),
        ("int96", {SPARK + "version": "3.1.0"}, False),
        ("int96", {SPARK + "version": "3.2.0", SPARK + "legacyDateTime": ""}, False),
        ("int96", {SPARK + "version": "3.2.0", SPARK + "legacyINT96": ""}, True),
        ("ntz", {SPARK + "version": "3.5.0", SPARK + "legacyDateTime": ""}, False),
    ],
)
def test_the_footer_says_which_columns_have_the_old_calendar(
    kind: str, said: dict[str, str], is_old: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.parquet", kind, said)
    assert (find_old(pq.read_metadata(path)) == {"seen"}) is is_old
    assert days_of(path) == [*(OURS if is_old else PLACES), None]


def test_these_days_lie_where_the_julian_calendar_has_them() -> None:
    named = [julian_day(*(int(part) for part in each.split("-"))) for each in NAMES[:4]]
    assert named == list(PLACES[:4])


@given(day=st.dates(date(1, 1, 3), date(1582, 10, 4)))
@example(day=date(1000, 2, 28))
@example(day=date(1000, 3, 1))
def test_any_name_that_both_calendars_have_is_kept(day: date) -> None:
    place = julian_day(day.year, day.month, day.day)
    cells = pa.array([place], pa.int32()).view(pa.date32())
    assert of_old_calendar(cells).to_pylist() == [day]
    for unit in ("s", "ms", "us"):
        late = pa.array([place * 86_400 + 86_399], pa.int64()).view(pa.timestamp("s", "UTC"))
        moved = of_old_calendar(late.cast(pa.timestamp(unit, "UTC"))).cast(pa.timestamp("s", "UTC"))
        expected = datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=UTC)
        assert moved.view(pa.int64()).to_pylist() == [
            (expected - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
        ]


def test_a_leap_day_that_ours_lacks_is_the_first_of_march_as_spark_reads_it() -> None:
    cells = pa.array([julian_day(1000, 2, 29)], pa.int32()).view(pa.date32())
    assert of_old_calendar(cells).to_pylist() == [date(1000, 3, 1)]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("ms"), pa.timestamp("ns", "UTC")])
def test_days_of_no_calendar_stay_far_and_null_stays_null(kind: pa.DataType) -> None:
    width, whole = (pa.int32(), 31) if kind == pa.date32() else (pa.int64(), 63)
    cells = pa.array([-(2**whole), 2**whole - 1, None], width).view(kind)
    moved = of_old_calendar(cells)
    first, last, null = moved.view(width).to_pylist()
    assert first < 0 < last
    assert null is None
    assert moved.type == kind
