"""Names of engines, and which of them are safe."""

import pytest

from dppca.common.kernel.documents.names import is_loopback
from dppca.owner.engines.addresses import ledger_name, require_engine


@pytest.mark.parametrize(
    "name",
    [
        "local",
        "spark",
        "dask://127.0.0.1:8786",
        "dask://localhost:1",
        "dask://[::1]:8786",
        "tls://hub:8786",
    ],
)
def test_engines_are_passed_on(name: str) -> None:
    assert require_engine(name) == name


@pytest.mark.parametrize("name", ["", "dask", "dask://hub", "tcp://127.0.0.1:1", "tls://a b:1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="the engine must be"):
        require_engine(name)


@pytest.mark.parametrize("host", ["hub", "10.0.0.7", "localhost.example", "[fe80::1]", "8.8.8.8"])
def test_sums_without_noise_leave_this_machine_by_tls_alone(host: str) -> None:
    with pytest.raises(ValueError, match=r"name it tls://"):
        require_engine(f"dask://{host}:8786")
    assert require_engine(f"tls://{host}:8786")
    assert not is_loopback(host)


def test_the_ledger_has_the_kind_and_no_address() -> None:
    assert (ledger_name("local"), ledger_name("spark")) == ("", "spark")
    assert {ledger_name("dask://127.0.0.1:8786"), ledger_name("tls://hub:8786")} == {"dask"}
