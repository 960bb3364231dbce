"""Addresses of a policy: what they may hold, and when two of them have rows in common."""

from itertools import combinations
from pathlib import Path

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.records.file_locations import FileLocation, locate_files
from dppca.owner.records.locations import Secret, find_shared_rows

HIDDEN = "AKIA0MARKED"


def _locate(text: str, folder: Path = Path("/site")) -> FileLocation:
    return locate_files(text, folder=folder, data_set="survey")


def _share(one: str, other: str, folder: Path = Path("/site")) -> bool:
    return any(find_shared_rows({each: _locate(each, folder) for each in (one, other)}))


@pytest.mark.parametrize(
    "address",
    [
        f"s3://{HIDDEN}:key@bucket/rows",
        f"s3://{HIDDEN}@bucket/rows",
        f"s3://bucket/rows?secret_key={HIDDEN}",
        f"s3://bucket/rows?region=eu&{HIDDEN}",
        f"gs://{HIDDEN}@bucket/rows",
        f"abfs://container:{HIDDEN}@account.dfs.core.windows.net/rows",
        f"abfss://container@account.dfs.core.windows.net/rows?sig={HIDDEN}",
        f"hdfs://user:{HIDDEN}@host/rows",
        f"s3://bucket/rows#{HIDDEN}",
        f"http://{HIDDEN}/rows.csv",
        f"file:/{HIDDEN}/rows.csv",
        f"file:///{HIDDEN}/rows.csv",
        f"s3://[{HIDDEN}/rows",
    ],
)
def test_an_address_with_credentials_is_refused_without_repeating_them(address: str) -> None:
    with pytest.raises(SettingError) as refused:
        _locate(address)
    assert HIDDEN not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/rows", "s3://bucket/rows/"),
        ("s3://bucket/rows", "s3://bucket//rows/2024?region=eu"),
        ("s3://bucket", "s3://bucket/rows/a.parquet"),
        ("s3://bucket/rows", "s3://bucket/rows/*.parquet"),
        ("s3://bucket/rows/*.parquet", "s3://bucket/rows/a.parquet"),
        ("s3://bucket/*/a.csv", "s3://bucket/rows/*"),
        ("s3://bucket/rows/**", "s3://bucket/rows/deep/a.csv"),
        ("s3://bucket/x y/a", "s3://BUCKET/./z/../x%20y?region=eu"),
        ("abfs://c@a.host/x", "abfss://c@A.host/x/y"),
        # No file in common, as far as the names say: tied all the same.
        ("s3://bucket/rows/2023*.csv", "s3://bucket/rows/2024*.csv"),
        ("s3://bucket/rows/*.csv", "s3://bucket/rows/a.parquet"),
        ("rows/2023*.csv", "rows/2024*.csv"),
        ("rows/deep", "rows/*.parquet"),
    ],
)
def test_what_lies_in_a_folder_shares_rows_with_it_and_a_pattern_is_its_folder(
    one: str, other: str
) -> None:
    assert _share(one, other)
    assert _share(other, one)


def test_other_folders_and_stores_share_nothing() -> None:
    addresses = ["s3://bucket/rows", "s3://bucket/rows2", "s3://other/rows", "gs://bucket/rows"]
    addresses += ["s3://bucket/more/*/a.csv", "rows/*", "rows2/*.csv", "service/rows"]
    # What no one normalisation joins: the same container, by the other host of Azure.
    addresses += ["abfs://c@a.dfs.core.windows.net/x", "abfs://a.blob.core.windows.net/c/x"]
    for one, other in combinations(addresses, 2):
        assert not _share(one, other)


def test_a_folder_a_pattern_and_a_link_share_rows_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "rows" / "deep").mkdir(parents=True)
    (tmp_path / "rows" / "deep" / "a.csv").write_text("x\n1\n")
    (tmp_path / "hard.csv").hardlink_to(tmp_path / "rows" / "deep" / "a.csv")
    (tmp_path / "link").symlink_to(tmp_path / "rows")
    same = ["rows", "rows/**/*.csv", "rows/deep/a.csv", "link", "link/deep"]
    for one, other in combinations(same, 2):
        assert _share(one, other, tmp_path), (one, other)
    assert _share("hard.csv", "rows/deep/a.csv", tmp_path)
    assert not _share("hard.csv", "rows", tmp_path), "hard links in folders are not looked for"


def test_a_file_that_may_not_be_found_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist: correct its path"):
        _locate("rows", tmp_path).examine()
    for name, said in (("rows.csv", "is empty"), ("rows.xls", "not known by its suffix")):
        (tmp_path / name).touch()
        with pytest.raises(DataError, match=said):
            _locate(name, tmp_path).examine()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rows.sps", "it is a file of SPSS, under any name: export it there as CSV in UTF-8"),
        ("ROWS.DCT", "it is a file of Stata"),
        ("rows.v8xpt", "it is a file of SAS"),
        ("rows.por", "it is a file of SPSS, under any name: save it in SPSS or PSPP as .sav"),
        ("rows.ods", "it is a spreadsheet, under any name: save it as .xlsx, which a site reads"),
        ("rows.RData", "it is a file of R, under any name"),
        ("rows.ndjson", "it is JSON, under any name"),
        ("rows.csv.zip", "it is packed, under any name: unpack it"),
        ("rows", "name it by the format that it has, or export it"),
    ],
)
def test_a_kind_of_file_that_is_not_read_is_not_to_be_renamed(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError) as refused:
        _locate(name, tmp_path).examine()
    assert said in str(refused.value)
    assert "rename" not in str(refused.value)


def test_a_file_that_cannot_be_shown_to_be_private_keeps_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "dsn"
    kept.write_text("marked")
    kept.chmod(0o600)
    assert Secret(path=kept).read("the address") == "marked"
    monkeypatch.setattr("dppca.owner.records.locations.HAS_MODES", False)
    with pytest.raises(SettingError, match="environment variable") as caught:
        Secret(path=kept).read("the address")
    assert "marked" not in str(caught.value)
    monkeypatch.setenv("DSN", "marked")
    assert Secret("DSN").read("the address") == "marked"
