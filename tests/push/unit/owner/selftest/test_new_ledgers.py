"""The self-test begins ledgers of its own, which charge and open as a new site's do."""

from pathlib import Path

import pytest

from dppca.common.kernel.privacy.laws import LAWS
from dppca.owner.selftest import every_kind
from dppca.owner.selftest.every_kind import Power, audit_form
from dppca.owner.selftest.kinds import ReleaseForm
from dppca.owner.selftest.masked_sums import attack_opener
from dppca.owner.selftest.releases import make_parties


@pytest.mark.parametrize("form", ReleaseForm)
def test_a_kind_is_drawn_and_charged_in_a_ledger_that_begins_here(
    form: ReleaseForm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = sorted(LAWS)[0]
    first = next(each for each in every_kind.kinds(form) if each.law == law)
    monkeypatch.setattr(every_kind, "kinds", lambda _: [first])
    power, drawn = Power(entries=60, least=2, most=4, masked=3), list[int]()
    audit_form(form, law, make_parties(), tmp_path, power=power, advance=drawn.append)
    assert drawn == [1]


def test_an_opener_of_the_self_test_opens_in_a_ledger_that_begins_here(tmp_path: Path) -> None:
    assert attack_opener(tmp_path).passed
