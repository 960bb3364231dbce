"""Marked values are fed through every path of a site and a hub, and sought in all that comes out.

What is looked for: cells of rows as text and as numbers in memory, coded rows, and the exact sums
before noise. Where: what commands print, with --json and without, errors among them, the curator's
log, and the bytes between owner and curator, in the clear. Images are searched in the night.

False alarms: the noise of the site has a seed. In the simulation, whose noise has none, a marked
number stands by chance in ten thousand random digits with 1e-5: the 28 sums have ten digits or
more, the 16 cells ten with a point among them.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import yaml

from dppca.common.kernel.schema.coding import encode
from dppca.common.kernel.study import Study
from dppca.owner.cli import cli
from dppca.owner.ledger.database import open_ledger
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.checkout import ROOT
from tests.support.commands import run_here
from tests.support.curator import Curator
from tests.support.documents import require_documented
from tests.support.noise import seed_noise
from tests.support.patience import run_watched
from tests.support.studies import make_study
from tests.support.wiretap import tapped_site

FALSE_ALARMS = 1e-5
N_ROWS = 240
MARKED = slice(3, 11)
WORDS = ("MARKLABEL-7741-XQ", "MARKTEXT-5512-XQ", "MARKNOTE-3391-XQ", "987654.32101")
ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "height", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "weight", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    {"name": "colour", "type": "categorical", "categories": ["red", "green", "blue"]},
]


@dataclass
class Haystack:
    """Everything that has come out, by where."""

    pieces: dict[str, bytes] = field(default_factory=dict)

    def add(self, where: str, content: str | bytes) -> None:
        raw = content.encode() if isinstance(content, str) else content
        self.pieces[where] = self.pieces.get(where, b"") + b"\n" + raw

    def found(self, needles: dict[str, bytes]) -> set[tuple[str, str]]:
        return {
            (where, name)
            for where, content in self.pieces.items()
            for name, needle in needles.items()
            if needle in content
        }


def make_rows(*, faulty: bool) -> pa.Table:
    """Rows of which some are marked; where faulty, cells that the schema does not allow too."""
    rng = np.random.default_rng(7)
    height, weight = (rng.uniform(1, 99, N_ROWS).round(8) for _ in range(2))
    height[MARKED] = [41.73952618 + number * 1.00310217 for number in range(8)]
    weight[MARKED] = [23.61840957 + number * 1.00704133 for number in range(8)]
    columns: dict[str, list[str]] = {
        "height": [f"{value:.8f}" for value in height],
        "weight": [f"{value:.8f}" for value in weight],
        "ill": list(np.where(height > 50, "yes", "no")),
        "colour": list(rng.choice(["red", "green", "blue"], N_ROWS)),
        "note": ["-"] * N_ROWS,
    }
    columns["note"][5] = WORDS[2]
    if faulty:
        columns["colour"][6], columns["weight"][7], columns["height"][9] = (
            WORDS[0],
            WORDS[1],
            WORDS[3],
        )
    return pa.table(columns)


def needles_of(study: Study, path: Path) -> dict[str, bytes]:
    """What must not come out: texts, numbers as they lie in memory, sums before noise."""
    clean = make_rows(faulty=False)
    found = {word: word.encode() for word in WORDS}
    height, weight = (
        np.array([float(text) for text in clean[name].to_pylist()])[MARKED]
        for name in ("height", "weight")
    )
    for number, value in enumerate((*height, *weight)):
        found[f"text of {number}"] = f"{value:.8f}".encode()
        found[f"float64 of {number}"] = value.astype("<f8").tobytes()
        scaled = np.int64(round(value * 10**8))
        found[f"int64 of {number}"] = scaled.astype("<i8").tobytes()
    for number in range(7):
        # Four bytes stand anywhere by chance; two neighbours, in a column or a row, do not.
        found[f"float32 down {number}"] = height[number : number + 2].astype("<f4").tobytes()
        pair = np.array([height[number], weight[number]])
        found[f"float32 across {number}"] = pair.astype("<f4").tobytes()
    table = open_table(path, study.table)
    exact = moments_of_table(table, study.table).packed
    for number, entry in enumerate(exact):
        if abs(int(entry)) > 1 << 31:
            found[f"sum {number}"] = entry.astype("<i8").tobytes()
            found[f"text of sum {number}"] = str(int(entry)).encode()
    for number, row in enumerate(encode(study.table, next(table.batches()))[MARKED, :2]):
        for kind in ("<i4", "<i8"):
            found[f"coded {kind} {number}"] = row.astype(kind).tobytes()
    return found


class Site:
    """A site's folder; its commands run in this process and all they say is kept."""

    def __init__(self, folder: Path, heap: Haystack) -> None:
        self.folder = folder
        self._heap = heap

    def say(self, *arguments: str, as_json: bool = True) -> tuple[int, Any]:
        line = ["--site", str(self.folder), *arguments, *(["--json"] if as_json else [])]
        code, out, err = run_here(cli, *line)
        where = f"{arguments[0]}{' --json' if as_json else ''}"
        self._heap.add(where, out + err)
        if not (as_json and out):
            return code, None
        return code, require_documented("dppca-owner", json.loads(out))

    def keep(self, where: str, content: bytes) -> None:
        """Keep what was written to be handed over."""
        self._heap.add(where, content)

    def both(self, *arguments: str) -> tuple[int, Any]:
        """As text and as JSON, which end alike."""
        answer = self.say(*arguments)
        assert self.say(*arguments, as_json=False)[0] == answer[0], arguments
        return answer


def test_no_marked_value_comes_out_of_a_site(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch)
    heap = Haystack()
    with tapped_site(curator, tmp_path, name="marked") as (made, tap):
        folder = made.folder
        rows, bad = folder / "rows.csv", folder / "faulty.csv"
        pa.csv.write_csv(make_rows(faulty=False), rows)
        pa.csv.write_csv(make_rows(faulty=True), bad)
        study = curator.begin(
            "marked",
            name="marked-study",
            components={"count": 2},
            max_rows=1000,
            schema={"max_rows_per_person": 1, "resolution_bits": 14, "attributes": ATTRIBUTES},
        )
        needles = needles_of(study, rows)
        assert sum(name.startswith("sum") for name in needles) > 5
        site = Site(folder, heap)

        _what_fails_before(site, study, bad)
        _a_whole_study(site, study, rows)
        with open_ledger(folder / "ledger.sqlite", lock=folder / "site.lock") as ledger:
            stored = ledger.stored(study.digest)
        _what_fails_after(site, rows)

        # The relay has seen the payload, so it would have seen the rest.
        assert stored.payload in tap.seen
        assert study.name.encode() in tap.seen
        assert not any(entry in stored.payload for entry in needles.values())
    heap.add("wire", tap.seen)
    heap.add("curator's log", curator.log.read_bytes())
    assert heap.found(needles) == set()
    # Noised values do not stand in the log either, and the log was written all the while.
    noised = {
        str(number): str(int(entry)).encode()
        for number, entry in enumerate(np.frombuffer(stored.payload, "<i8"))
        if abs(int(entry)) > 1 << 31
    }
    log = heap.pieces["curator's log"]
    assert b"contribution" in log
    assert not [number for number, text in noised.items() if text in log]


def _what_fails_before(site: Site, study: Study, bad: Path) -> None:
    """Data that do not fit, in every way that names a place in them."""
    code, report = site.both("check", study.name, "--data", str(bad))
    assert code == 14
    assert "987654" not in json.dumps(report)
    assert site.both("doctor")[0] == 0
    folder = site.folder
    text = bad.read_text()
    broken = {
        "no-column.csv": text.replace('"colour"', '"color"'),
        "quote.csv": text.replace(WORDS[2], f'{WORDS[2]}"{WORDS[1]}', 1),
        "long.csv": text + f'"{WORDS[1]}",1,2,3,4,5,6,7\n',
        "not.parquet": text,
    }
    for name, content in broken.items():
        (folder / name).write_text(content)
    (folder / "latin.csv").write_bytes(text.replace(WORDS[0], WORDS[0] + "é").encode("latin-1"))
    pa.parquet.write_table(make_rows(faulty=True), folder / "text.parquet")
    files = [*broken, "latin.csv", "text.parquet"]
    for name in files:
        site.both("check", study.name, "--data", str(folder / name))
    policy = (folder / "policy.yaml").read_text()
    for name in files:
        (folder / "policy.yaml").write_text(policy.replace("rows.csv", name))
        site.say("review", study.name)
        site.say("doctor", as_json=False)
        if name not in {"text.parquet", "long.csv", "quote.csv", "latin.csv"}:
            assert site.say("contribute", study.name, "--yes")[0] != 0
    (folder / "policy.yaml").write_text(policy)
    for arguments in (
        ("contribute", study.name),  # nobody says yes
        ("contribute", "no-such-study", "--yes"),
        ("review", study.name, "--data-set", WORDS[0].lower()[:4]),
        ("components", study.name),
        ("synthesize", study.name),
        ("train", study.name, "--target", "ill"),
    ):
        assert site.say(*arguments)[0] != 0, arguments
        assert site.say(*arguments, as_json=False)[0] != 0, arguments


def _a_whole_study(site: Site, study: Study, rows: Path) -> None:
    for arguments in (
        ("check", study.name),
        ("check", study.name, "--target", "ill"),
        ("review", study.name),
        ("contribute", study.name, "--yes"),
        ("budget",),
        ("components", study.name, "--wait", "300"),
        ("synthesize", study.name, "--publish"),
        ("train", study.name, "--target", "ill", "--force"),
        ("doctor",),
    ):
        code, document = site.say(*arguments)
        if code == 2 and "--force" in arguments:
            code, document = site.say(*arguments[:-1])
        assert code == 0, (arguments, document)
        if arguments[0] == "train":
            model = document["model"]
        elif arguments[0] != "contribute":
            site.say(*arguments, as_json=False)
    output = str(site.folder / "predicted.csv")
    assert site.say("predict", "--model", model, "--data", str(rows), "--output", output)[0] == 0
    again = ("predict", "--model", model, "--data", str(rows), "--output", output, "--replace")
    site.say(*again, as_json=False)
    released = ("train", study.name, "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    assert site.say(*released, "--yes")[0] == 0
    code, document = site.say("audit", "--output", str(site.folder.with_name("audit")))
    assert code == 0, document
    site.keep("bundle", Path(document["bundle"]).read_bytes())


def _what_fails_after(site: Site, rows: Path) -> None:
    model = next(site.folder.rglob("*.skops"))
    for name in ("no-column.csv", "quote.csv", "not.parquet", "faulty.csv", "latin.csv"):
        path, output = str(site.folder / name), str(site.folder / f"{name}.out.csv")
        asked = ("--model", str(model), "--data", path, "--output", output, "--replace")
        site.both("predict", *asked)
    for arguments in (
        ("train", "marked-study", "--target", "note"),
        ("predict", "--model", str(rows), "--data", str(rows), "--output", "x.csv"),
        ("contribute", "no-such-study", "--yes"),
    ):
        assert site.both(*arguments)[0] != 0, arguments
    ledger = site.folder / "ledger.sqlite"
    ledger.write_bytes(ledger.read_bytes()[:-2000] + bytes(2000))
    for arguments in (("budget",), ("doctor",), ("contribute", "marked-study", "--yes")):
        site.both(*arguments)


def test_no_marked_value_comes_out_of_a_simulation(tmp_path: Path) -> None:
    heap = Haystack()
    rows, study_file = tmp_path / "rows.csv", tmp_path / "study.yaml"
    pa.csv.write_csv(make_rows(faulty=False), rows)
    study = make_study(
        name="marked-run",
        owners=["owner-1", "owner-2"],
        schema={"max_rows_per_person": 1, "resolution_bits": 14, "attributes": ATTRIBUTES},
        max_rows=1000,
    )
    study_file.write_text(yaml.safe_dump(json.loads(study.canonical_bytes())))
    files = ("--study", str(study_file), "--data", str(rows), "--owners", "2")
    options = ("--target", "ill", "--seed", "1", "--json", "--output")
    output = tmp_path / "results"
    done = run_watched(
        [sys.executable, "-m", "dppca.deploy.simulation.cli", "run", *files, *options, str(output)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    heap.add("what was printed", (done.stdout + done.stderr).encode())
    for path in sorted(path for path in output.rglob("*") if path.suffix in {".log", ".json"}):
        heap.add(path.name, path.read_bytes())
    assert heap.found(needles_of(study, rows)) == set()


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """The control: each form of a marked value is found where somebody prints or sends it."""
    rows = tmp_path / "rows.csv"
    pa.csv.write_csv(make_rows(faulty=True), rows)
    study = make_study(
        schema={"max_rows_per_person": 1, "resolution_bits": 14, "attributes": ATTRIBUTES},
        max_rows=1000,
    )
    pa.csv.write_csv(make_rows(faulty=False), tmp_path / "clean.csv")
    needles = needles_of(study, tmp_path / "clean.csv")
    heap = Haystack()
    heap.add("rows", rows.read_bytes())
    heap.add("clean", (tmp_path / "clean.csv").read_bytes())
    clean = make_rows(faulty=False)
    table = np.array([[float(x) for x in clean[n].to_pylist()] for n in ("height", "weight")])
    heap.add("columns", table.astype("<f8").tobytes())
    heap.add("narrow columns", table.astype("<f4").tobytes())
    heap.add("narrow rows", table.T.astype("<f4").tobytes())
    heap.add("integers", np.rint(table * 10**8).astype("<i8").tobytes())
    opened = open_table(tmp_path / "clean.csv", study.table)
    exact = moments_of_table(opened, study.table).packed
    coded = encode(study.table, next(opened.batches()))[:, :2]
    for kind in ("<i4", "<i8"):
        heap.add("coded rows", coded.astype(kind).tobytes())
    heap.add("sums", exact.astype("<i8").tobytes())
    heap.add("printed sums", str([int(entry) for entry in exact]))
    assert {name for _, name in heap.found(needles)} == set(needles)
