"""A real curator on loopback, and parties with certificates of its authority, for benchmarks."""

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.environments import read_peak_mib
from benchmarks.releases import numeric_attributes, state_privacy, state_study
from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import UnreachableError
from dppca.common.kernel.identity.tls import Credentials, load_credentials
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import Release, calibrate, draw
from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.curator.operator.client import OperatorClient
from dppca.owner.ledger.chain import FIRST, History
from dppca.owner.ledger.database import StoredRelease
from dppca.owner.ledger.entries import Reservation, commitment
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution
from dppca.owner.site.enrolment import enrol

DAYS = 30
ROWS = 10_000
PARTY = "benchmarks.performance.round_party"
_TIME = "2026-01-01T00:00:00+00:00"


def make_study(name: str, *, owners: int, columns: int, components: int) -> Study:
    """Numeric columns, Gaussian noise, a count of components."""
    schema = {"resolution_bits": 8, "attributes": numeric_attributes(columns, -1, 1)}
    count = {"count": min(components, columns - 1)}
    privacy = state_privacy("1", "1e-9")
    return state_study(name, schema, privacy, owners=owners, components=count)


def make_moments(study: Study, number: int) -> Moments:
    """Moments of an owner that are made up; repeatable."""
    layout = study.table.layout
    rng = np.random.default_rng(number)
    bound = ROWS * 4**layout.resolution_bits // 8
    packed = rng.integers(-bound, bound, layout.n_entries)
    i, j = layout.product_index
    packed[layout.n_sums :][i == j] += 4 * bound  # positive variances
    return Moments(ROWS, packed)


def make_release(study: Study, number: int, *, before: int = 0) -> tuple[StoredRelease, History]:
    """A release as an owner's ledger holds it, of moments that are made up; repeatable.

    ``before`` is how many releases this owner made before.
    """
    release = draw(
        study,
        calibrate(study),
        make_moments(study, number),
        release_id=make_release_id(study, number),
        ledger_sequence=0,
        entropy=SeededEntropy(number),
    )
    return store(study, release, before=before)


def make_release_id(study: Study, number: int) -> bytes:
    """The 16 bytes that name an owner's release."""
    return hashlib.sha256(f"{study.digest}{number}".encode()).digest()[:16]


def store(
    study: Study, release: Release | MaskedRelease, *, before: int
) -> tuple[StoredRelease, History]:
    """A release as an owner's ledger holds it."""
    budget = Budget(Decimal(100), Decimal("1e-6"))
    account = Account("benchmark", Population("benchmark", budget))
    request = request_contribution(study, calibrate(study), account=account)
    payload, receipt = release.payload(), release.receipt.canonical_bytes()
    stored = StoredRelease(
        reservation=Reservation(0, _TIME, release.release_id, request),
        commitment=commitment(
            sequence=1,
            now=datetime.now(UTC),
            release_id=release.release_id,
            n_rows=ROWS,
            payload=payload,
            receipt=receipt,
        ),
        payload=payload,
        receipt=receipt,
    )
    head = hashlib.sha256(release.release_id).digest()
    return stored, History(heads=[*[FIRST] * (2 * before + 1), head])


class CuratorProcess(LocalFederation):
    """One daemon in a process of its own, and an authority that enrols owners in this process."""

    def __init__(self, folder: Path) -> None:
        self._authority = make_authority(folder / "authority", days=DAYS)
        super().__init__(Processes(), folder, self._authority)
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.processes.stop()

    def create(self, study: Study) -> None:
        """Begin a study."""
        with OperatorClient(self.address, credentials_in(self.operator)) as client:
            client.create(study)

    def enrol(self, name: str) -> Path:
        """An owner's folder with its credentials; as it is if it exists."""
        folder = self.site(name)
        if not folder.exists():
            enrol(folder, name=name, curator=self.address)
            self._authority.sign(name, folder)
        return folder

    def peak_mib(self) -> float:
        """Largest resident memory of the daemon so far."""
        return read_peak_mib(self.curator.process.pid)

    def go(self, study: Study, run: int, secrets: Mapping[str, bytes]) -> float:
        """Seconds of a round of a study's owners, who are processes of `round_party`.

        Parameters
        ----------
        run
            How many rounds these owners had before.
        secrets
            Of those who are openers.
        """
        self.create(study)
        document = self.operator / f"{study.name}.json"
        document.write_bytes(study.canonical_bytes())
        commands = []
        for number, name in enumerate(study.owners):
            secret = document.with_suffix(f".{number}")
            secret.write_bytes(secrets.get(name, b""))
            commands.append(
                ["owner", self.address, self.enrol(name), document, number, run, secret]
            )
        return Children(commands).go()


def credentials_in(folder: Path) -> Credentials:
    """What a folder with the three usual files holds."""
    return load_credentials(CredentialFolder(folder))


class Children:
    """Processes of `round_party`, by its arguments.

    They say ``ready``, wait for ``go`` on their input, and say when they are done.
    """

    def __init__(self, commands: Iterable[Sequence[object]]) -> None:
        module, pipe = (sys.executable, "-m", PARTY), subprocess.PIPE
        self._processes: list[subprocess.Popen[Any]] = [
            subprocess.Popen([*module, *map(str, command)], stdin=pipe, stdout=pipe, text=True)
            for command in commands
        ]
        for process in self._processes:
            self._line(process, "ready")

    def go(self) -> float:
        """Seconds from the word go until the last has said ``done``."""
        begin = time.perf_counter()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in self._processes:
            self._line(process, "done")
        taken = time.perf_counter() - begin
        for process in self._processes:
            process.communicate()
        return taken

    def _line(self, process: subprocess.Popen[Any], wanted: str) -> None:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if line != wanted:
            for each in self._processes:
                each.kill()
            raise UnreachableError(f"a party said {line!r} instead of {wanted!r}")
