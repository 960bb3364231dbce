"""Files that a stranger hands over to be verified: endless, huge, or no files at all.

The envelope comes first, so a file without a sound one is not opened; then no more of the file is
read than its kind can have. Sparse files have any size and take no room.
"""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import dppca
from dppca.common.kernel.attestation.envelopes import envelope_path
from dppca.common.kernel.errors import AlteredError, ArtefactError, ReceiptError, SignatureError
from dppca.common.verification.files import verify_file
from tests.support.sites import ProvedSite, make_proved_site

ROOM = 32 << 20
HUGE = 40 << 30
SUFFIXES = (".npz", ".skops", ".parquet", ".arrow", ".csv")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="sparse files, pipes and links")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProvedSite, dict[str, Path]]:
    proved = make_proved_site(tmp_path_factory.mktemp("strange"))
    asked = ("train", "site-test", "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, model = proved.site.run(*asked, "--yes")
    assert code == 0
    return proved, {".npz": proved.components, ".skops": Path(model["model"])}


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a link to a pipe": lambda path: (
        os.mkfifo(path.with_name("pipe")),
        path.symlink_to("pipe"),
    )[1],
}


def _refused(path: Path, error: type[Exception], says: str, ca: bytes | None = None) -> None:
    """The file is refused with little memory; a reader that waits would meet the time limit."""
    tracemalloc.start()
    try:
        with pytest.raises(error, match=says):
            verify_file(path, ca=ca)
        assert tracemalloc.get_traced_memory()[1] < ROOM
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_a_sound_envelope_nothing_of_a_file_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    _sparse(path)
    _refused(path, ReceiptError, "has no envelope")
    envelope_path(path).write_text('{"payload": "", "payloadType": "x", "signatures": []}')
    _refused(path, SignatureError, "damaged")


@pytest.mark.parametrize("what", NO_FILES)
@pytest.mark.parametrize("suffix", [".npz", ".skops"])
def test_what_is_no_regular_file_is_refused_beside_a_true_envelope(
    made: tuple[ProvedSite, dict[str, Path]], tmp_path: Path, suffix: str, what: str
) -> None:
    proved, files = made
    path = tmp_path / f"x{suffix}"
    NO_FILES[what](path)
    envelope_path(path).write_bytes(envelope_path(files[suffix]).read_bytes())
    _refused(path, ArtefactError, "not a regular file", proved.ca)


@pytest.mark.parametrize("what", NO_FILES)
def test_an_envelope_that_is_no_regular_file_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(b"x")
    NO_FILES[what](envelope_path(path))
    _refused(path, ArtefactError, "not a regular file")


def test_an_envelope_without_an_end_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"x")
    _sparse(envelope_path(path))
    _refused(path, SignatureError, "no envelope is so large")


@pytest.mark.parametrize("suffix", [".npz", ".skops"])
def test_no_more_is_read_than_a_file_of_the_study_can_have(
    made: tuple[ProvedSite, dict[str, Path]], tmp_path: Path, suffix: str
) -> None:
    proved, files = made
    path = tmp_path / f"x{suffix}"
    envelope_path(path).write_bytes(envelope_path(files[suffix]).read_bytes())
    path.write_bytes(files[suffix].read_bytes())
    assert verify_file(path, ca=proved.ca).label == "released"
    _sparse(path)
    _refused(path, AlteredError, "at most", proved.ca)


def test_a_result_is_read_with_the_same_care_in_python(
    made: tuple[ProvedSite, dict[str, Path]], tmp_path: Path
) -> None:
    proved, files = made
    path = tmp_path / "x.npz"
    envelope_path(path).write_bytes(envelope_path(files[".npz"]).read_bytes())
    os.mkfifo(path)
    with pytest.raises(ArtefactError, match="not a regular file"):
        dppca.read_result(path, ca=proved.ca)
    path.unlink()
    _sparse(path)
    with pytest.raises(AlteredError, match="at most"):
        dppca.read_result(path, ca=proved.ca)
