"""Which sessions of Spark are used, and what is said of what it raises; without Spark."""

from types import SimpleNamespace
from typing import Any

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.owner.records.spark_sessions import (
    is_local,
    name_causes,
    require_private_cluster,
    require_private_remote,
    start_settings,
    translated_errors,
)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,4]"])
def test_a_master_that_is_one_process_is_local(master: str) -> None:
    assert is_local(master)
    require_private_cluster({"spark.master": master}.get)


@pytest.mark.parametrize("master", ["", "yarn", "spark://hub:7077", "local-cluster[2,1,1024]"])
def test_any_other_master_needs_authentication_and_encryption(master: str) -> None:
    assert not is_local(master)
    on = {"spark.master": master, "spark.authenticate": "true"}
    for name in ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"):
        require_private_cluster((on | {name: "true"}).get)
        for given in (on | {name: "false"}, {"spark.master": master, name: "true"}, on, {}):
            with pytest.raises(SettingError, match=r"spark\.authenticate"):
                require_private_cluster(given.get)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "local[2]",
        "sc://localhost:15002",
        "sc://127.0.0.1",
        "sc://[::1]:15002/;user_id=x",
        "sc://hub:443/;use_ssl=true",
        "sc://hub:443/;user_id=x;token=hidden-word",
    ],
)
def test_a_server_of_this_machine_or_by_tls_is_taken(address: str) -> None:
    require_private_remote(address)


@pytest.mark.parametrize(
    "address",
    [
        "sc://hub:15002",
        "sc://hub/;use_ssl=false",
        "sc://hub/;token=",
        "sc://hub/;user_id=hidden-word;x=use_ssl=true",
        "sc://localhost.example",
        "sc://[hidden-word",
        "hidden-word",
    ],
)
def test_a_server_in_clear_is_refused_and_its_address_not_repeated(address: str) -> None:
    with pytest.raises(SettingError, match="use_ssl=true") as refused:
        require_private_remote(address)
    assert "hidden-word" not in str(refused.value)


def _raised(module: str, state: str | None) -> Exception:
    kind = type("Raised", (Exception,), {"getSqlState": lambda _: state})
    kind.__module__ = module
    return kind("the value 'hidden-word' cannot be cast")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("42P01", "the table or view does not exist"),
        ("22018", "a view fails on a row"),
        (None, "no reason"),
        ("XX000", "no reason"),
    ],
)
@pytest.mark.parametrize("module", ["pyspark.errors", "py4j.protocol", "grpc"])
def test_what_spark_raises_is_said_in_other_words(
    module: str, state: str | None, said: str
) -> None:
    with pytest.raises(DataError, match=said) as told, translated_errors("survey (Spark table)"):
        raise _raised(module, state)
    assert "hidden-word" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PYSPARK_SUBMIT_ARGS": "pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master local[2,4] pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=local[*] x", "SPARK_HOME": "/opt/spark"},
        {"PYSPARK_SUBMIT_ARGS": "--master='local[2]' x", "SPARK_CONF_DIR": "/etc/spark"},
    ],
)
def test_spark_on_this_machine_alone_is_started_on_loopback(environment: dict[str, str]) -> None:
    settings = start_settings(environment)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.authenticate"] == "true"


@pytest.mark.parametrize(
    "environment",
    [
        {"SPARK_HOME": "/opt/spark"},
        {"SPARK_CONF_DIR": "/etc/spark", "PYSPARK_SUBMIT_ARGS": "pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--master=spark://hub:7077 pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.master=k8s://https://hub:443 pyspark-shell"},
        {"PYSPARK_SUBMIT_ARGS": '--master "local-cluster[2,1,1024]" pyspark-shell'},
    ],
)
def test_executors_elsewhere_have_to_reach_the_session(environment: dict[str, str]) -> None:
    settings = start_settings(environment)
    assert not {name for name in settings if name.startswith("spark.driver")}
    assert settings["spark.network.crypto.enabled"] == "true"


def test_a_start_that_fails_is_told_by_kinds_and_by_no_message() -> None:
    def java(name: str, cause: Any = None) -> Any:
        return SimpleNamespace(
            getClass=lambda: SimpleNamespace(getName=lambda: name), getCause=lambda: cause
        )

    error: Any = type("Py4JJavaError", (Exception,), {})("hidden-word")
    error.java_exception = java("org.apache.spark.SparkException", java("java.net.BindException"))
    assert name_causes(error) == (
        "Py4JJavaError, org.apache.spark.SparkException, java.net.BindException"
    )
    ended: Any = type("PySparkRuntimeError", (Exception,), {})("hidden-word")
    ended.getCondition = lambda: "JAVA_GATEWAY_EXITED"
    assert name_causes(ended) == "PySparkRuntimeError, JAVA_GATEWAY_EXITED"
    assert name_causes(OSError("hidden-word")) == "OSError"
