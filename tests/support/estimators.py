"""Every private estimator in each of its forms, with good settings, by name."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from dppca.common.papers import (
    AGSVM,
    DPPCASVM,
    DPSVD,
    DPSVM,
    DPSVMDVP,
    PCADPSVM,
    PPCADPMH,
    MODSuLQSVM,
    PrivateSVM,
)

_PURE: dict[str, Any] = {"epsilon": 1, "max_rows_per_person": 1}
_GAUSSIAN: dict[str, Any] = {**_PURE, "delta": 1e-6}
Maker = Callable[..., Any]
SITE_ONLY: dict[str, Maker] = {
    "DPPCASVM": partial(DPPCASVM, **_PURE),
    "AGSVM": partial(AGSVM, **_GAUSSIAN),
    "MODSuLQSVM": partial(MODSuLQSVM, **_GAUSSIAN),
    "DPSVD": partial(DPSVD, **_GAUSSIAN),
}
MAY_LEAVE: dict[str, Maker] = {
    "DPSVM": partial(DPSVM, **_PURE),
    "DPSVM gaussian": partial(DPSVM, **_GAUSSIAN),
    "PCADPSVM": partial(PCADPSVM, **_PURE),
    "PCADPSVM gaussian": partial(PCADPSVM, **_GAUSSIAN),
    "PrivateSVM": partial(PrivateSVM, **_PURE, n_pairs=10, random_state=0),
    "DPSVD labels": partial(DPSVD, **_GAUSSIAN, label_epsilon=2),
    "PPCADPMH": partial(PPCADPMH, **_PURE, bounds=(-1, 1)),
}
PUBLISHED: dict[str, Maker] = {
    f"{name} published": partial(make, variant="published")
    for name, make in (SITE_ONLY | MAY_LEAVE).items()
    if name not in ("DPSVM", "DPSVM gaussian", "PCADPSVM gaussian", "DPSVD labels")
} | {"DPSVMDVP": partial(DPSVMDVP, epsilon=1)}
ALL = SITE_ONLY | MAY_LEAVE | PUBLISHED


def each(makers: Iterable[str]) -> pytest.MarkDecorator:
    names = list(makers)
    return pytest.mark.parametrize("make", [ALL[name] for name in names], ids=names)


def names_with(setting: str) -> list[str]:
    return [name for name, make in ALL.items() if setting in make().get_params()]
