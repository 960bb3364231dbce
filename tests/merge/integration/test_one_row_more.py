"""Nothing but the release tells a site of n rows, or people, from one of n + 1.

A study is carried out twice, with the same keys, names and noise, and one row more at one site the
second time. All that others can see is compared: the site's messages, their number and sizes, the
curator's store, its log and its pages, receipts, acknowledgements, and what the commands print. In
the one row of noised numbers, and in nothing else, the two differ; what is computed of these is
compared without its figures.

False alarms: sizes of messages may differ by what two signatures in DER do, which is more than
`_SIGNATURES` with a probability below 1e-9.
"""

import base64
import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.study import Study
from dppca.common.pages.guard import COOKIE
from dppca.common.transport.testbed import environment
from dppca.curator.commands.options import as_operator
from dppca.curator.commands.page.routes import OperatorApp
from dppca.owner.commands.page.routes import StewardApp
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from tests.support.asgi import ask
from tests.support.census import census_rows
from tests.support.certificates import Authority, new_authority
from tests.support.checkout import SEEDED
from tests.support.curator import Curator
from tests.support.federations import study_of_sites
from tests.support.noise import seed_noise
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite, make_site, policy_text
from tests.support.studies import make_study
from tests.support.wiretap import Wiretap

FALSE_ALARMS = 4e-9
N_ROWS = 999  # one digit more with one row more
OTHERS = ("beta", "gamma")
_SIGNATURES = 12  # bytes
_RANDOM = re.compile(
    r"[0-9a-f]{16,}|(?<=<span>)[0-9a-f]{8}(?=</span>)|\d{4}-\d\d-\d\d[T ][\d:.]*(Z|\+00:00)?"
    r"|127\.0\.0\.1:\d+|[\w-]{40,}={0,2}|\d\d:\d\d(:\d\d)?( UTC)?"
)
"""Digests, times, ports, tokens."""
_FOLDER = re.compile(r"/\S*/(one|two)\b|(?<=value=\")[\w-]{16,}(?=\")")
"""Folders, and tokens of forms."""
_TOOK = re.compile(r'("?(seconds|ms|read|draw|send|peer|\w+_s|sequence)"?[:=] ?)"?[\w.:-]+"?')
_CERTIFICATE = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}")
_DECIMAL = re.compile(r"-?\d+\.\d+(e[+-]?\d+)?")
_FIGURE = re.compile(r"-?\d[\d.,]*(e[+-]?\d+)?")


def plain(value: object, *, figures: bool = True) -> str:
    """What a value says, envelopes opened, without what is new each time."""
    text = value if isinstance(value, str) else json.dumps(value, default=repr, sort_keys=True)
    text = _BASE64.sub(_opened, _CERTIFICATE.sub("*", _FOLDER.sub("*", text)))
    text = text if figures else _DECIMAL.sub("#", text)
    return _TOOK.sub(r"\1*", _RANDOM.sub("*", text))


def _opened(found: re.Match[str]) -> str:
    try:
        return base64.b64decode(found[0], validate=True).decode("ascii")
    except ValueError:  # a signature, a certificate, noise
        return "*"


def shapes(value: object) -> str:
    """What a value says without its figures: they follow from the noised numbers."""
    return _FIGURE.sub("#", plain(value, figures=False))


def messages(stream: bytes) -> list[int]:
    """Sizes of the messages of gRPC in one direction, in the order of their streams."""
    at, data = 24 * stream.startswith(b"PRI * HTTP/2.0"), dict[int, bytearray]()
    while at + 9 <= len(stream):
        size, kind = int.from_bytes(stream[at : at + 3]), stream[at + 3]
        if kind == 0:
            own = data.setdefault(int.from_bytes(stream[at + 5 : at + 9]), bytearray())
            own += stream[at + 9 : at + 9 + size]
        at += 9 + size
    return [size for _, each in sorted(data.items()) for size in _sizes(bytes(each))]


def _sizes(content: bytes) -> Iterator[int]:
    while content:
        size = int.from_bytes(content[1:5])
        yield size
        content = content[5 + size :]


@dataclass
class Seen:
    """What others see: exact texts, texts of which figures are left out, sizes, the vector."""

    exact: dict[str, str] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    payload: bytes = b""


@dataclass
class Parties:
    """Keys that are the same both times."""

    authority: Authority
    owners: dict[str, Credentials]
    hub: Credentials


def read_store(folder: Path) -> dict[str, str]:
    """Every table of the curator's database, as text, but for when it last tested itself."""
    found = {}
    with closing(sqlite3.connect(next(folder.glob("*.sqlite")))) as store:
        names = store.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in sorted({*names} - {("checks",)}):
            rows = store.execute(f'SELECT * FROM "{name}"').fetchall()
            found[f"table {name}"] = "\n".join(sorted(plain([*map(_cell, row)]) for row in rows))
    return found


def kept_sizes(folder: Path) -> list[int]:
    """Sizes of the curator's other files; one that its test of itself writes is soon gone."""
    found = []
    for _ in range(2):
        files = [each for each in folder.rglob("*") if ".sqlite" not in each.name]
        found.append({each for each in files if each.is_file()})
        time.sleep(0.5)
    return sorted(each.stat().st_size for each in set.intersection(*found))


def _cell(value: object) -> object:
    if not isinstance(value, bytes):
        return value if not isinstance(value, int) or value < 1 << 30 else "*"  # a time
    try:
        return value.decode("ascii")
    except ValueError:
        return "*"


def contribute_alone(site: OwnerSite, study: Study) -> str:
    """Contribute by a process of its own; return what it printed, for people."""
    line = ["-P", "-m", "dppca.owner.cli", "--site", str(site.folder)]
    done = subprocess.run(
        [sys.executable, *line, "contribute", study.name, "--yes", "--digest", study.digest],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
        env={**environment(), "PYTHONPATH": SEEDED},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def carry_out(
    folder: Path, parties: Parties, *, n_rows: int, schema: dict[str, Any], masked: bool
) -> Seen:
    """Carry a study out; alpha has ``n_rows`` rows, of which three are of one person."""
    folder.mkdir()
    curator, seen = Curator(folder / "curator", authority=parties.authority), Seen()
    curator.start()
    tap = Wiretap(
        curator.address, curator=parties.hub, owner=parties.owners["alpha"], folder=folder / "tap"
    )
    try:
        sites = [
            make_site(
                folder / name,
                name=name,
                curator=tap.address if name == "alpha" else curator.address,
                credentials=issued,
            )
            for name, issued in parties.owners.items()
        ]
        for site in sites:
            n = n_rows if site.name == "alpha" else 600
            rows = census_rows(N_ROWS + 1).slice(0, n)
            rows = rows.append_column("whose", pa.array(np.arange(n) // 3))
            pa.csv.write_csv(rows, site.folder / "rows.csv")
            fields = "path: rows.csv" + ", key: whose" * ("unit" in schema)
            fields += ", aggregate: {colluders: 1}" * masked
            policy = policy_text({"survey": fields}, budget='epsilon: "9", delta: "1e-6"')
            (site.folder / "policy.yaml").write_text(policy)
        made: dict[str, Any] = {"name": "asked", "epsilon": "2", **schema}
        if masked:
            study = study_of_sites(sites, mechanism="laplace", **made)
        else:
            study = make_study(owners=[each.name for each in sites], **made)
        curator.operator().create(study)
        _watch(curator, tap, sites, study, seen)
    finally:
        tap.close()
        curator.stop()
    size = len(seen.payload)  # with masks a signature of any length is in it
    seen.sizes["upload"] = [size]
    seen.exact = {
        what: re.sub(rf"\b({size}|{size:,})\b", "*", text) for what, text in seen.exact.items()
    }
    return seen


def _watch(
    curator: Curator, tap: Wiretap, sites: list[OwnerSite], study: Study, seen: Seen
) -> None:
    alpha, *others = sites
    before = len(tap.sent)
    seen.exact["standard output"] = plain(contribute_alone(alpha, study))
    for way, streams in (("sent", tap.sent), ("received", tap.received)):
        seen.sizes[way] = [size for each in streams[before:] for size in messages(bytes(each))]
    code, document = alpha.run("contribute", study.name, "--yes", "--digest", study.digest)
    assert (code, document["already_stored"], document["rows"]) == (0, True, 0)
    seen.exact["document"] = plain(document)
    seen.exact["acknowledgement"] = plain(Path(document["acknowledgement"]).read_text())
    with open_ledger(alpha.folder / "ledger.sqlite", lock=alpha.folder / "site.lock") as ledger:
        stored = ledger.stored(study.digest)
    seen.exact["receipt"] = plain(json.loads(stored.receipt))
    seen.payload = stored.payload
    seen.exact |= read_store(curator.state)
    seen.sizes["store"] = kept_sizes(curator.state)
    seen.exact["log"] = plain(curator.log.read_text())
    _pages(curator, alpha, study, seen.exact)
    for what in (("show",), ("status",)):
        seen.exact["operator " + what[0]] = plain(curator.operate("study", *what, study.name))
    for site in others:
        code, document = site.run("contribute", study.name, "--yes", "--digest", study.digest)
        assert code == 0, document
    for site in sites:
        if site.name in (study.openers or {}):
            assert site.run("open", study.name, "--wait", "60")[0] == 0
    after = seen.computed
    code, found = alpha.run("components", study.name, "--wait", "60")
    assert code == 0
    del found["components"]  # in the order of the loadings
    after["components"] = shapes(found)
    result = alpha.folder / "studies" / study.name / "components.npz"
    after["verify"] = shapes(alpha.run("verify", str(result)))
    after["estimate"] = shapes(alpha.run("estimate", str(result), "mean", "age"))
    after["budget"] = shapes(alpha.run("budget"))
    _pages(curator, alpha, study, after, figures=False)
    after["log"] = shapes(curator.log.read_text())


def _pages(
    curator: Curator, site: OwnerSite, study: Study, seen: dict[str, str], *, figures: bool = True
) -> None:
    """Pages of the operator and, but for the review of its rows, of the site."""
    said = plain if figures else shapes
    folder = Path(str(curator.connection[3]))
    with as_operator(curator.address, folder) as client:
        ca = (folder / "ca.pem").read_bytes()
        apps = {"operator": OperatorApp(client, curator.address, ca=ca)}
        apps["site"] = StewardApp(load_site(site.folder))
        for who, app in apps.items():
            cookie = f"{COOKIE}={app.session.cookie}"
            places = ["/", *["/ledger"] * (who == "site")]
            # After the result a study's page is made of its components.
            for place in [*places, *[f"/study/{study.name}"] * figures]:
                shown = ask(app.application(), f"{app.session.place}{place}", cookie=cookie)
                assert shown.status == 200
                body = shown.body.replace(app.session.place, "")
                seen[f"page of {who}, {place}"] = said(body)


def test_the_comparison_sees_a_number_wherever_it_stands() -> None:
    receipt = json.dumps({"payload": json.dumps({"n_rows": N_ROWS}), "sig": "A" * 96})
    wrapped = json.dumps({"envelope": base64.b64encode(receipt.encode()).decode()})
    for text in (wrapped, f"rows={N_ROWS} ms=3", f"{N_ROWS} rows", f"<td>{N_ROWS}</td>"):
        assert str(N_ROWS) in plain(text)
    stream = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for content in (b"\0\0\0\0\6abc", b"abc" + bytes(5)):  # a message in two frames, an empty one
        stream += len(content).to_bytes(3) + b"\0\0" + (1).to_bytes(4) + content
    assert messages(stream) == [6, 0]


PEOPLE: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}


@pytest.mark.parametrize("masked", [False, True], ids=["owner", "aggregate"])
@pytest.mark.parametrize("schema", [{}, PEOPLE], ids=["row", "person"])
def test_one_row_more_shows_in_the_release_alone(
    schema: dict[str, Any], masked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch)
    authority = new_authority()
    owners = {name: authority.issue(Role.OWNER, name) for name in ("alpha", *OTHERS)}
    parties = Parties(authority, owners, authority.issue(Role.CURATOR, "hub"))
    schema = {**schema, "neighbours": "added"}
    one, two = (
        carry_out(tmp_path / name, parties, n_rows=n, schema=schema, masked=masked)
        for name, n in (("one", N_ROWS), ("two", N_ROWS + 1))
    )
    for first, second in ((one.exact, two.exact), (one.computed, two.computed)):
        assert first.keys() == second.keys()
        for what, text in first.items():
            assert second[what] == text, what
    for what, sizes in one.sizes.items():
        differ = np.abs(np.array(sizes) - np.array(two.sizes[what]))
        assert sizes
        assert differ.max() <= _SIGNATURES, what
    numbers = {N_ROWS, N_ROWS + 1, N_ROWS // 3, N_ROWS // 3 + 1}
    found = {
        what: number
        for what, text in (*one.exact.items(), *two.exact.items())
        for number in numbers
        if re.search(rf"(?<![\w.,]){number}(?![\w.,])|(?<!\d)1,000(?!\d)", text)
    }
    assert not found
    if not masked:
        moved = np.frombuffer(two.payload, "<i8") - np.frombuffer(one.payload, "<i8")
        assert moved[-1] == 4**6, "the same noise, and one row or person more"
