"""Three files as they are become one study's on the page: proposed, decided, written."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Page, expect

from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.shell.dictionaries.table_forms import read_table
from dppca.curator.planning.study_draft import Choices, draft_study
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import moments_of_table, open_table
from tests.merge.integration.test_three_codings import FILES, FORMATS, by_hand
from tests.support.browser import HOSTILE, OpenSite, require_accessible
from tests.support.curator import Curator
from tests.support.messy_visits import DICTIONARY, write_visits
from tests.support.sites import OwnerSite

DOUBTFUL = {"m of sex": "male", "w of sex": "female", "0 of diabetes": "no", "1 of diabetes": "yes"}
MISSING = {"hospital": "999", "clinic": "999", "agency": ""}


def visits() -> list[dict[str, Any]]:
    choices = Choices("visits", ("a",), "1", None, 1)
    document: Any = load_yaml(draft_study(read_table(DICTIONARY), choices, source="x"))
    attributes: list[dict[str, Any]] = document["schema"]["attributes"]
    return attributes


def propose(page: Page, path: Path | str, *, missing: str = "") -> None:
    page.get_by_label("Path of the file at this site").fill(str(path))
    page.get_by_label("Codes that the codebook says").fill(missing)
    page.get_by_role("button", name="Propose").click()


@pytest.mark.timeout(600)
def test_three_files_as_they_are_are_mapped_on_the_page(
    curator: Curator, site: OwnerSite, open_site: OpenSite, tmp_path: Path
) -> None:
    rows = write_visits(tmp_path, seed=64, n_rows=120)
    study = curator.begin(site.name, attributes=visits())
    with open_site(site) as (seen, _):
        page = seen.page
        place = page.url
        for name, file in FILES.items():
            page.goto(f"{place}study/{study.name}")
            page.get_by_role("link", name="Map a file's columns").click()
            propose(page, tmp_path / file, missing=MISSING[name])
            chosen = page.get_by_label("Column of visit_date").locator("option:checked")
            expect(chosen).not_to_have_text("not decided")
            if name == "clinic":
                require_accessible(page)
            page.get_by_role("button", name="Go on to the words").click()
            page.get_by_role("button", name="Write the mapping").wait_for()
            if name == "clinic":
                require_accessible(page)
                for word, label in DOUBTFUL.items():
                    select = page.get_by_label(word, exact=True)
                    expect(select.locator("option:checked")).to_have_text("not decided")
                    select.select_option(label=label)
            page.get_by_role("button", name="Write the mapping").click()
            path = site.folder / "mappings" / f"{name}.yaml"
            expect(page.get_by_role("status").get_by_text(f"mappings/{name}.yaml")).to_be_visible()
            assert "Not decided" not in page.inner_text("main"), page.inner_text("main")
            assert path.stat().st_mode & 0o777 == 0o600
            policy = yaml.safe_load(page.locator("pre").inner_text())
            assert policy["mapping"] == f"mappings/{name}.yaml"
            assert ("format" in policy) == (name != "agency")
            rules = local_files(tmp_path / file, FORMATS[name]).mapped(MappingPlace(path))
            found = moments_of_table(open_table(rules, study.table), study.table)
            hand = open_table(by_hand(rows[name], tmp_path / f"{name}.parquet"), study.table)
            assert (found.packed == moments_of_table(hand, study.table).packed).all()
        seen.require_quiet()


def test_what_nobody_chose_is_not_decided_and_names_of_columns_are_text(
    curator: Curator, site: OwnerSite, open_site: OpenSite, tmp_path: Path
) -> None:
    study = curator.begin(site.name, attributes=visits())
    quoted = HOSTILE.replace('"', '""')
    (tmp_path / "odd.csv").write_text(f'age,Sex,diabetes,"{quoted}"\n20,m,"{quoted}",x\n')
    with open_site(site) as (seen, _):
        page = seen.page
        place = page.url
        page.goto(f"{place}study/{study.name}/map")
        propose(page, tmp_path / "gone.csv")
        expect(page.get_by_role("alert")).to_contain_text("this is no file here")
        propose(page, tmp_path / "odd.csv")
        page.get_by_role("button", name="Go on to the words").click()
        page.get_by_role("button", name="Write the mapping").click()
        for name in ("sex", "diabetes", "region", "bmi"):
            expect(page.get_by_text("Not decided:")).to_contain_text(name)
        assert page.title() != "owned"
        lines = (site.folder / "mappings" / "odd.yaml").read_text().splitlines()
        assert sum("DECIDE" in line for line in lines) == 7
        page.goto(f"{place}study/{study.name}/map")
        propose(page, tmp_path / "odd.csv")  # what is there is kept, and what waits is asked again
        expect(page.get_by_label("Column of sex")).to_be_visible()
        seen.require_quiet_but("422")
