"""Attack by a lost or outdated ledger: the site must not repeat releases that the ledger lacks.

The curator has contributions of the site; the site's ledger is removed, then replaced by an old
copy. A further study must be refused without a charge, with and without the mark beside the ledger;
once the newest ledger is back and the steward has said so, it must be accepted. The ledger is the
temporary site's.
"""

from pathlib import Path

from dppca.common.kernel.errors import ChainError
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import mark_paths
from dppca.owner.selftest.endpoint import study_for_crashes
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.local_federation import TemporaryFederation

_DATA_SET = "crashes"


def attack_by_losing_the_ledger(federation: TemporaryFederation) -> Finding:
    """Contribute without a ledger and with an old one; see the module's docstring."""
    ledger = federation.site / "ledger.sqlite"
    _contribute(federation, "ledger-first")
    old = ledger.read_bytes()
    _contribute(federation, "ledger-second")
    newest = ledger.read_bytes()
    marks = [(path, path.read_bytes()) for path in mark_paths(ledger)]
    faults = []
    for what, content, marked in (
        ("a lost ledger", None, True),
        ("a lost ledger without its mark", None, False),
        ("an old copy", old, True),
        ("an old copy without its mark", old, False),
    ):
        _put(ledger, content)
        for path, mark in marks:
            _put(path, mark if marked else None)
        before = read_history(ledger)
        try:
            _contribute(federation, f"after-{what.replace(' ', '-').replace('its-', '')}")
            faults.append(f"{what}: a further release was drawn")
        except ChainError:
            if read_history(ledger) != before:
                faults.append(f"{what}: something was charged or stored")
    _put(ledger, newest)
    federation.owner("ledger", "recover", "--yes")
    try:
        _contribute(federation, "ledger-third")
    except ChainError as error:
        faults.append(f"the newest ledger is refused: {error}")
    says = (
        "a further study was refused for nothing with a lost and with an old ledger, and taken "
        "with the newest"
    )
    return Finding.of_faults("lost ledger", faults, says)


def _contribute(federation: TemporaryFederation, name: str) -> None:
    federation.create(study_for_crashes(name))
    federation.owner("contribute", name, "--yes", "--data-set", _DATA_SET)


def _put(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)
