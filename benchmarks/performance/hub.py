"""A real curator on loopback, and parties with certificates of its authority, for benchmarks."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from common.errors import UnreachableError
from common.numerics.moments import Moments
from common.privacy.accounting import Budget
from common.privacy.entropy import SeededEntropy
from common.privacy.release import calibrate, draw
from common.study import Study, study_from_mapping
from common.transport.tls import Credentials, Identity, Role, load_credentials
from curator import pki
from curator.operator import OperatorClient
from owner.enrolment import enrol
from owner.ledger.chain import History
from owner.ledger.database import StoredRelease
from owner.ledger.entries import Reservation, Wanted, commitment

DAYS = 30
ROWS = 10_000
START_S = 60.0
_TIME = "2026-01-01T00:00:00+00:00"


def study_of(name: str, *, owners: int, columns: int, components: int) -> Study:
    """Numeric columns, Gaussian noise, a count of components."""
    attributes = [
        {"name": f"x{i}", "type": "numeric", "lower": -1, "upper": 1} for i in range(columns)
    ]
    return study_from_mapping(
        {
            "name": name,
            "owners": [owner_name(number) for number in range(owners)],
            "privacy": {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-9"},
            "components": {"count": min(components, columns - 1)},
            "schema": {"resolution_bits": 8, "attributes": attributes},
        }
    )


def owner_name(number: int) -> str:
    """Names that sort as their numbers do."""
    return f"owner-{number:05d}"


def release_of(study: Study, number: int, *, before: int = 0) -> tuple[StoredRelease, History]:
    """A release as an owner's ledger holds it, of moments that are made up; repeatable.

    ``before`` is how many releases this owner made before.
    """
    layout = study.table.layout
    rng = np.random.default_rng(number)
    bound = ROWS * 4**layout.resolution_bits // 8
    packed = rng.integers(-bound, bound, layout.n_entries)
    i, j = layout.product_index
    packed[layout.n_sums :][i == j] += 4 * bound  # positive variances
    release_id = hashlib.sha256(f"{study.digest}{number}".encode()).digest()[:16]
    release = draw(
        study,
        Moments(ROWS, packed),
        release_id=release_id,
        ledger_sequence=0,
        entropy=SeededEntropy(number),
    )
    noise = calibrate(study)
    wanted = Wanted(
        data_set="benchmark",
        study=study.name,
        study_digest=study.digest,
        mechanism=noise.mechanism.value,
        charge=noise.charge,
        epsilon=noise.epsilon,
        delta=noise.delta,
        budget=Budget(Decimal(100), Decimal("1e-6")),
    )
    payload, receipt = release.payload(), release.receipt.canonical_bytes()
    stored = StoredRelease(
        reservation=Reservation(0, _TIME, release_id, wanted),
        commitment=commitment(
            sequence=1,
            now=datetime.now(UTC),
            release_id=release_id,
            n_rows=ROWS,
            payload=payload,
            receipt=receipt,
        ),
        payload=payload,
        receipt=receipt,
    )
    return stored, History(length=2 * (before + 1), head=hashlib.sha256(release_id).digest())


class Hub(AbstractContextManager["Hub"]):
    """One daemon in a process of its own; ended and its folder left as it is on leaving."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = folder / "authority"
        self._now = datetime.now(UTC)
        pki.init_authority(self._authority, name="benchmark", days=DAYS, now=self._now)
        self.hub_folder = self._issue(Identity("hub", Role.CURATOR), ["localhost"])
        self._operator = credentials_in(self._issue(Identity("olga", Role.OPERATOR), []))
        port_file = folder / "port"
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "curator.cli", "serve"),
                    *("--state", str(folder / "state"), "--listen", "localhost:0"),
                    *("--credentials", str(self.hub_folder), "--port-file", str(port_file)),
                ],
                stderr=log,
                stdout=log,
            )
        end = time.monotonic() + START_S
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                message = f"the curator did not start: see {folder / 'log'}"
                raise UnreachableError(message)
            time.sleep(0.02)
        self.address = port_file.read_text().strip()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def create(self, study: Study) -> None:
        """Begin a study."""
        with OperatorClient(self.address, self._operator) as client:
            client.create(study)

    def enrol(self, name: str) -> Path:
        """An owner's folder with key.pem, certificate.pem and ca.pem; as it is if it exists."""
        folder = self._folder / "owners" / name
        if not folder.exists():
            enrol(folder, name=name, curator=self.address)
            pki.sign_request(
                self._authority,
                request=(folder / "request.pem").read_bytes(),
                output=folder / "certificate.pem",
                name=name,
                days=DAYS,
                now=self._now,
            )
            (folder / "ca.pem").write_bytes((self._authority / "ca.pem").read_bytes())
        return folder

    def peak_bytes(self) -> int:
        """Largest resident memory of the daemon so far."""
        return peak_bytes(self._process.pid)

    def _issue(self, identity: Identity, hosts: list[str]) -> Path:
        folder = self._folder / identity.name
        pki.issue(
            self._authority,
            identity=identity,
            hosts=hosts,
            output=folder,
            days=DAYS,
            now=self._now,
        )
        return folder


def credentials_in(folder: Path) -> Credentials:
    """What a folder with the three usual files holds."""
    return load_credentials(
        ca=folder / "ca.pem", certificate=folder / "certificate.pem", key=folder / "key.pem"
    )


def peak_bytes(pid: int | str = "self") -> int:
    """Largest resident memory of a process so far, as Linux counts it."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


class Children:
    """Processes that say ``ready``, wait for ``go`` on their input, and say when they are done."""

    def __init__(self, commands: list[list[str]]) -> None:
        self._processes: list[subprocess.Popen[Any]] = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for command in commands
        ]
        for process in self._processes:
            self._line(process, "ready")

    def go(self) -> float:
        """Seconds from the word go until the last has said ``done``."""
        begin = time.perf_counter()
        for process in self._processes:
            if process.stdin is None:
                raise AssertionError  # it is a pipe
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in self._processes:
            self._line(process, "done")
        taken = time.perf_counter() - begin
        for process in self._processes:
            process.communicate()
        return taken

    def _line(self, process: subprocess.Popen[Any], wanted: str) -> None:
        if process.stdout is None:
            raise AssertionError  # it is a pipe
        line = process.stdout.readline().strip()
        if line != wanted:
            for each in self._processes:
                each.kill()
            message = f"a party said {line!r} instead of {wanted!r}"
            raise UnreachableError(message)
