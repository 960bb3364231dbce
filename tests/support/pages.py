"""What tests of both sides' pages begin with."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from dppca.common.study import Study
from tests.support.curator import Curator
from tests.support.studies import make_study

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\" onfocus='alert(2)"


def begin_study(curator: Curator, *owners: str, **changes: Any) -> Study:
    """A study that no test has had before, at a running curator."""
    study = make_study(**{"name": f"study-{uuid4().hex[:8]}", "owners": list(owners), **changes})
    curator.operator().create(study)
    return study
