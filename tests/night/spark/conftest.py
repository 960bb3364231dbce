"""One Spark on this machine for all tests here: two slots, a task is tried four times."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.requirements import miss

MASTER = "local[2,4]"


@pytest.fixture(scope="session", autouse=True)
def _pyspark() -> None:
    if find_spec("pyspark") is None:
        miss("an environment with Spark", "make test-night SUITES=spark makes one")
    if shutil.which("java") is None:
        miss("Java 17", "apt-get install openjdk-17-jre-headless")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as the product opens it, by what the environment says."""
    from dppca.owner.records.spark_sessions import open_session

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(submit_arguments(folder))
    session = open_session()
    yield session
    session.stop()
    del os.environ["PYSPARK_SUBMIT_ARGS"]


def submit_arguments(folder: Path) -> list[str]:
    """What Spark is started with, its tables in a folder."""
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    named = (f"--conf {name}={value}" for name, value in settings.items())
    return ["--master", MASTER, *named, "pyspark-shell"]
