"""A study and one that continues it, by the commands of operator and stewards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.pages.guard import COOKIE
from dppca.common.transport.testbed import CURATOR, LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.curator.commands.options import as_operator
from dppca.curator.commands.page.routes import OperatorApp
from dppca.deploy.simulation.aggregation import OPEN_BY
from dppca.deploy.simulation.runner import SiteDriver, policy_text
from dppca.owner.commands.page.routes import StewardApp
from dppca.owner.site.config import load_site
from tests.support.asgi import ask
from tests.support.census import census_rows
from tests.support.federations import study_of_sites
from tests.support.sites import OwnerSite
from tests.support.studies import make_study

OWNERS = ["owner-1", "owner-2", "owner-3"]


PEOPLE: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}
ADDED: dict[str, Any] = {"neighbours": "added"}


def write_people(path: Path, n_rows: int) -> None:
    """Rows of which every third begins a person, who has three of them."""
    rows = census_rows(max(n_rows, 1)).slice(0, n_rows)
    pa.csv.write_csv(rows.append_column("person", pa.array(np.arange(n_rows) // 3)), path)


@pytest.mark.parametrize(
    ("trust", "schema"),
    [
        ("owner", {}),
        ("aggregate", {}),
        ("owner", ADDED),
        ("aggregate", PEOPLE),
        ("aggregate", PEOPLE | ADDED | {"rows_counted": 2}),
    ],
    ids=["rows", "masked-rows", "rows-added", "masked-people", "masked-people-added"],
)
def test_a_study_is_refined_from_its_result_alone(
    trust: str, schema: dict[str, Any], tmp_path: Path
) -> None:
    """Where numbers are secret, one of the sites has no row: that shows nowhere."""
    masked, is_secret = trust == "aggregate", schema.get("neighbours") == "added"
    key = "person" if "unit" in schema else ""
    with Processes() as live:
        federation = LocalFederation(live, tmp_path, make_authority(tmp_path / "authority"))
        federation.start()
        drivers = [SiteDriver(federation, name) for name in OWNERS]
        live.each(drivers, SiteDriver.join)
        sites = [OwnerSite(federation.site(name), name) for name in OWNERS]
        first = study_of_sites(sites, **schema) if masked else make_study(owners=OWNERS, **schema)
        files = {name: tmp_path / f"{name}.csv" for name in OWNERS}
        for name, path in files.items():
            write_people(path, 0 if is_secret and name == OWNERS[2] else 1500)
        (tmp_path / "first.yaml").write_bytes(first.canonical_bytes())
        federation.operate("study", "create", tmp_path / "first.yaml", "--yes")
        live.each(drivers, lambda each: each.contribute([first], files[each.name], key=key))
        live.each(drivers, lambda each: each.open_sum(first))
        drivers[1].use_result(first, None)  # what each site does, in `test_simulation`
        result, draft = tmp_path / "first.npz", tmp_path / "second.yaml"
        federation.operate("study", "components", first.name, "--output", result)
        asked = (
            *("operator", CURATOR, "study", "refine", result, "--target", "sex"),
            *("--name", "second", "--epsilon", "4", "--trees", 2, "--leaves", 8),
            *("--ca", tmp_path / "authority" / "ca.pem", "--output", draft),
            *(("--delta", "1e-6") if masked else ()),
        )
        if masked:
            with pytest.raises(SettingError, match="give --open-by"):
                live.call(*asked)
            assert not [*tmp_path.glob("second*")]
        drafted = live.call(*asked, *(("--open-by", OPEN_BY) if masked else ())).document
        checked = live.call("operator", CURATOR, "study", "check", draft).document
        assert (checked["digest"] is None) == masked
        first_step, *later, last_step = drafted["next"]
        assert first_step == f"dppca-curator study check {draft}"
        assert last_step.startswith("dppca-owner review second --grown-on second-rows.parquet  #")
        assert later == checked["next"]
        rows = Path(drafted["rows"])
        assert (drafted["continues"], drafted["hidden"]) == (first.name, False)
        if masked:
            with pytest.raises(StudyError, match="lacks the owners' keys"):
                federation.operate("study", "create", draft, "--yes")
            said = [tmp_path / f"{each.name}.json" for each in drivers]
            for place, (each, file) in enumerate(zip(drivers, said, strict=True)):
                answer = each.identify("second", opener=place < 2)
                file.write_text(json.dumps(answer.document))
            whole = tmp_path / "whole.yaml"
            live.call("operator", CURATOR, *("study", "assemble", draft, *said, "--output", whole))
            draft = whole
        second = study_from_yaml(draft)
        other = tmp_path / "other.yaml"
        other.write_text(draft.read_text().replace("overlap: false", "overlap: true"))
        with pytest.raises(StudyError, match="the same people and attributes"):
            federation.operate("study", "create", other, "--yes")
        federation.operate("study", "create", draft, "--yes")
        policy = policy_text(
            [first, second], f"{OWNERS[0]}.csv", colluders=second.privacy.colluders, key=key
        )
        (sites[0].folder / "policy.yaml").write_text(policy)
        # Its document is fetched again where this site does not have it.
        (sites[0].folder / "studies" / first.name / "study.json").unlink()
        for option, found in (((), "unchecked"), (("--grown-on", str(rows)), "same")):
            code, seen = sites[0].run("review", "second", *option)
            assert (code, seen["grown"], seen["forecast"]) == (0, found, None)
            assert seen["entries"] == sum(second.table.layout.tables)
            assert seen["together_with"] == first.name
        both = [first, second]
        live.each(drivers, lambda each: each.contribute(both, files[each.name], key=key))
        live.each(drivers, lambda each: each.open_sum(second))
        code, counts = sites[1].run("components", "second", "--wait", "60")
        assert (code, counts["count"], counts["eigenvalues"], counts["components"]) == (
            0,
            0,
            [],
            [],
        )
        counted = 1000 * schema.get("rows_counted", 3 / (1 + 2 * bool(key))) * (3 - is_secret) / 2
        assert abs(counts["rows"] - counted) <= (0.1 * counted if is_secret else 0)
        assert sites[1].run("synthesize", "second", "--publish")[0] == 0
        pages = StewardApp(load_site(sites[1].folder))
        with as_operator(federation.address, federation.operator) as client:
            assert client.show("second").summary.name == "second"
            assert client.greeting is not None, "the first call of any command says what each is"
            ca = (federation.operator / "ca.pem").read_bytes()
            for app in (pages, OperatorApp(client, federation.address, ca=ca)):
                cookie = f"{COOKIE}={app.session.cookie}"
                shown = ask(app.application(), f"{app.session.place}/study/second", cookie=cookie)
                assert shown.status == 200
                assert "counts of rows" in shown.body
                assert f"together with study {first.name}" in shown.body
        joined = tmp_path / "joined.parquet"
        federation.operate("study", "synthetic", "second", "--output", joined)

    for site in sites:
        assert len(site.history.charges) == 2
    code, verified = sites[2].run("verify", str(joined))
    assert (code, verified["continues"]) == (0, first.name)
    epsilon = float(verified["guarantee"]["epsilon"])
    assert seen["federation"]["epsilon"] == verified["guarantee"]["epsilon"]
    assert 4 < epsilon < 5 if masked else epsilon == 5
    code, components = sites[1].run(
        "verify", str(sites[1].folder / "studies/second/components.npz")
    )
    assert (code, components["kind"]) == (0, "counts")
    assert components["guarantee"] == verified["guarantee"]
