"""A study and one that continues it, by the commands of operator and stewards."""

import json
from pathlib import Path

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


@pytest.mark.parametrize("trust", ["owner", "aggregate"])
def test_a_study_is_refined_from_its_result_alone(trust: str, tmp_path: Path) -> None:
    masked = trust == "aggregate"
    with Processes() as live:
        federation = LocalFederation(live, tmp_path, make_authority(tmp_path / "authority"))
        federation.start()
        drivers = [SiteDriver(federation, name) for name in OWNERS]
        live.each(drivers, SiteDriver.join)
        sites = [OwnerSite(federation.site(name), name) for name in OWNERS]
        first = study_of_sites(sites) if masked else make_study(owners=OWNERS)
        files = {name: tmp_path / f"{name}.csv" for name in OWNERS}
        for path in files.values():
            pa.csv.write_csv(census_rows(1000), path)
        (tmp_path / "first.yaml").write_bytes(first.canonical_bytes())
        federation.operate("study", "create", tmp_path / "first.yaml", "--yes")
        live.each(drivers, lambda each: each.contribute([first], files[each.name]))
        live.each(drivers, lambda each: each.open_sum(first))
        live.each(drivers, lambda each: each.use_result(first, None))
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
            [first, second], f"{OWNERS[0]}.csv", colluders=second.privacy.colluders
        )
        (sites[0].folder / "policy.yaml").write_text(policy)
        # Its document is fetched again where this site does not have it.
        (sites[0].folder / "studies" / first.name / "study.json").unlink()
        for file, found in (((), "unchecked"), (("--grown-on", rows), "same")):
            seen = federation.own(OWNERS[0], "review", "second", *file).document
            assert (seen["grown"], seen["forecast"]) == (found, None)
            assert seen["entries"] == sum(second.table.layout.tables)
            assert seen["together_with"] == first.name
        live.each(drivers, lambda each: each.contribute([first, second], files[each.name]))
        live.each(drivers, lambda each: each.open_sum(second))
        counts = federation.own(OWNERS[1], "components", "second", "--wait", 60).document
        assert (counts["count"], counts["eigenvalues"], counts["components"]) == (0, [], [])
        federation.own(OWNERS[1], "synthesize", "second", "--publish")
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
