"""Fixtures that every kind of test may use."""

import hashlib
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

import dppca.common.transport  # noqa: F401 - before any test module imports gRPC
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy
from dppca.common.kernel.study import Study
from tests.support.certificates import Authority, new_authority
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.examples import PROFILES
from tests.support.federations import (
    MaskedFederation,
    MaskedHub,
    MaskedSites,
    make_masked_federation,
)
from tests.support.requirements import miss
from tests.support.sites import OwnerSite, ProvedSite, make_enrolled_site, make_proved_site

# An example that takes long is no fault: limits of time are for hangs. Profiles: `examples`.
# What lands is judged by the same examples and noise each time; the night looks for others.
for profile in PROFILES:
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=PROFILES[profile](100),
        derandomize=profile == "push",
    )
settings.load_profile("push")


@contextmanager
def _noise_of(name: str) -> Generator[None]:
    """Draw this process's noise from a stream of the name's own, but in the night."""
    before = OperatingSystemEntropy.bytes
    source = SeededEntropy(int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]))
    if "tests/night/" not in name:
        OperatingSystemEntropy.bytes = lambda _, count: source.bytes(count)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        OperatingSystemEntropy.bytes = before  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give each test its own draws, whichever ran before it."""
    if item.get_closest_marker("real_noise"):
        return (yield)
    with _noise_of(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Give what several tests share the same draws, whichever of them asks first."""
    if fixturedef.scope == "function":
        return (yield)
    case = getattr(request, "param_index", 0)
    with _noise_of(f"{request.node.nodeid} {fixturedef.argname} {case}"):
        return (yield)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: some hold the time, and two workers must agree on a name."""
    return argname if isinstance(val, bytes) else None


def pytest_configure() -> None:
    """Let what tests start be interrupted.

    A job in the background of a shell ignores SIGINT, and hands that down to all that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests did not run, a line for each reason, which names what to install."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"NOT RUN, {count} tests: {reason}", yellow=True)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the real data sets: `DPPCA_DATA`, else beside the checkout."""
    folder = Path(os.environ.get("DPPCA_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        miss(f"the data sets, which are not at {folder}", "set DPPCA_DATA")
    return folder


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """One running curator for all tests of a module; each has owners and studies of its own."""
    curator = Curator(tmp_path_factory.mktemp("hub")).start()
    yield curator
    curator.stop()


@pytest.fixture
def movable(tmp_path: Path) -> Iterator[Curator]:
    """A daemon of the test's own, for deadlines: its clock can be moved."""
    curator = Curator(tmp_path).start_with_clock()
    yield curator
    curator.stop()


@pytest.fixture(scope="session")
def authority() -> Authority:
    """Certifies whom a test wants; nothing changes it."""
    return new_authority()


@pytest.fixture(scope="session")
def proved(tmp_path_factory: pytest.TempPathFactory) -> ProvedSite:
    """A site with a countersigned result, which tests only read."""
    return make_proved_site(tmp_path_factory.mktemp("proved"))


@pytest.fixture
def site(curator: Curator, tmp_path: Path) -> OwnerSite:
    """A site that this curator has never seen: it remembers the ledgers of the others."""
    return make_enrolled_site(curator, tmp_path)


@pytest.fixture
def study(curator: Curator, site: OwnerSite) -> Study:
    """A study of the site alone: it has a result with the first contribution."""
    return curator.begin(site.name)


@pytest.fixture
def federation(curator: Curator, tmp_path: Path) -> MaskedFederation:
    """Three sites of a study with ``trust: aggregate``; the first two are openers."""
    return make_masked_federation(curator, tmp_path)


@pytest.fixture(scope="module")
def hub(curator: Curator) -> MaskedHub:
    """Owners with the same keys and connections in all masked studies of a module."""
    return MaskedHub(curator)


@pytest.fixture
def sites(hub: MaskedHub) -> MaskedSites:
    """A new masked study of four owners; owner-1 and owner-2 are openers."""
    return hub.join()
