"""Rows keep what was released: tables' shares, relations of narrow numbers, and what is missed."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.field.missed import Missed, Tail, find_missed, missed_text
from dppca.common.analysis.field.rows import FieldFit, fit_released
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.moments.moments import (
    compute_moments,
    unpack,
    unpack_histograms,
    unpack_tables,
)
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.schema import Schema, encode, find_cells
from tests.support.noise import gaussian_tail

N = 6000
Column = NDArray[Any]
WARD = {"name": "ward", "type": "categorical", "categories": ["north", "south", "east"]}
ILL = {"name": "ill", "type": "binary", "values": ["no", "yes"]}
SEX = {"name": "sex", "type": "binary", "values": ["f", "m"]}


def _fit(schema: Schema, people: list[Column], noise: float, laplace: bool = False) -> FieldFit:
    n, layout = len(people[0]), schema.layout
    moments = compute_moments(encode(schema, people), layout, find_cells(schema, people))
    rng = np.random.default_rng(5)
    units = rng.laplace if laplace else rng.normal
    width = noise * n * 4**layout.resolution_bits / (np.sqrt(2) if laplace else 1)
    packed = moments.packed + np.rint(units(scale=width, size=len(moments.packed))).astype(np.int64)
    mean, second = unpack(packed, n, layout)
    tables = zip(schema.partitions, unpack_tables(packed, n, layout), strict=True)
    fit = fit_released(
        schema,
        mean=mean,
        second=second,
        histograms=unpack_histograms(packed, n, layout),
        entry_noise=noise,
        n_rows=n,
        rng=np.random.default_rng(1),
        tail=gaussian_tail,
        tables=[(partition, Counted(shares, noise)) for partition, shares in tables],
    )
    assert fit is not None
    assert fit.converged
    return fit


def _rows(fit: FieldFit, n: int = N) -> list[Column]:
    blocks = fit.blocks(n, rng=np.random.default_rng(2))
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


def _wards() -> list[Column]:
    """Ward, score and illness: most of the small ward's people score low, and are ill."""
    rng = np.random.default_rng(11)
    ward = rng.choice(3, N, p=[0.48, 0.45, 0.07]).astype(np.int32)
    score = np.floor(np.where(ward == 2, rng.exponential(3, N), rng.gamma(6, 3, N))).clip(0, 60)
    ill = rng.random(N) < np.where(ward == 2, 0.62, 0.08 + 0.008 * score)
    return [ward, score, ill.astype(np.int32), rng.integers(0, 2, N).astype(np.int32)]


TREE = {
    "tree": [
        {"by": "ward", "labels": ["east"]},
        *({"by": "score", "at_most": 2}, {}, {}),
        *({"by": "score", "at_most": 17}, {}, {}),
    ],
    "target": "ill",
}


@pytest.mark.parametrize(
    ("score", "tables"),
    [
        ({"bins": 6}, [{"table": ["ward", "score", "ill"]}]),
        ({"bins": 6, "histogram": True}, [{"table": ["ward", "score", "ill"]}]),
        ({}, [{"table": ["ward", "score", "ill"], "cells": {"score": 7}}]),
        ({"bins": 6}, [{"table": ["ward", "ill"]}, {"table": ["score", "ill"]}]),
        ({"bins": 5}, [{"table": ["score", "ward", "ill"]}, {"table": ["score", "sex"]}]),
        ({"bins": 6}, [TREE, {"table": ["ward", "ill"]}]),
        ({"bins": 6, "products": "bins"}, [{"table": ["ward", "score", "ill"]}]),
    ],
)
def test_rows_hold_the_ill_of_a_small_ward_that_a_table_counts(
    score: dict[str, object], tables: list[dict[str, object]]
) -> None:
    number = {"name": "score", "type": "numeric", "lower": 0, "upper": 60, "integer": True, **score}
    schema = Schema.from_document({"attributes": [WARD, number, ILL, SEX], "tables": tables})
    people = _wards()
    fit = _fit(schema, people, 2e-4, laplace="bins" in score)
    rows = _rows(fit)
    assert not [each.relation for each in fit.missed if "ill" in each.relation]
    for ward in range(3):
        own, made = ((each[2] == 1)[each[0] == ward].mean() for each in (people, rows))
        assert made == pytest.approx(own, abs=0.04)
    for own, made in zip(find_cells(schema, people), find_cells(schema, rows), strict=True):
        n_cells = max(own.max(), made.max()) + 1
        shares = [np.bincount(each, minlength=n_cells) / N for each in (own, made)]
        assert np.abs(shares[0] - shares[1]).max() < 0.01


def test_what_rows_miss_is_named_in_deviations() -> None:
    """Rows without any relation, beside a release with one that is far above its noise."""
    schema = Schema.from_document(
        {"attributes": [WARD, ILL, SEX], "tables": [{"table": ["ward", "ill"]}]}
    )
    ward, _, ill, sex = _wards()
    people = [ward, ill, sex]
    fit = _fit(schema, people, 1e-3)
    rng = np.random.default_rng(6)
    apart = encode(schema, [rng.permutation(ward), ill, sex]) / float(1 << schema.resolution_bits)
    ((partition, counted),) = fit.tilted.tables  # type: ignore[union-attr]
    even = np.outer(np.bincount(ward) / N, np.bincount(ill) / N).ravel()
    table = [(partition, counted, even)]
    missed = find_missed(schema, fit.targets, apart, table, tail=gaussian_tail)
    worst = {each.relation for each in missed[:2]}
    assert worst == {"ward and ill", "the table of ward and ill"}
    assert all(each.deviations > 5 for each in missed[:2])
    held = [(partition, counted, counted.shares)]
    own = encode(schema, people) / float(1 << schema.resolution_bits)
    assert find_missed(schema, fit.targets, own, held, tail=gaussian_tail) == ()
    assert "ward and ill (" in missed_text(missed)
    assert missed_text(()) == ""
    many = [Missed(f"a and {place}", 9.0) for place in range(7)]
    assert "; 2 more." in missed_text(many)


def _apart(shift: float, noise: float, n: int, tail: Tail) -> tuple[Missed, ...]:
    """What n rows miss of a release whose one table is off by a shift in two of its cells."""
    schema = Schema.from_document({"attributes": [ILL, SEX], "tables": [{"table": ["ill", "sex"]}]})
    rows = [np.int32(np.arange(n) % 2), np.int32(np.arange(n) // 2 % 2)]
    fit = _fit(schema, rows, 1e-4)
    coded = encode(schema, rows) / float(1 << schema.resolution_bits)
    shares = np.full(4, 0.25) + np.array([shift, -shift, 0, 0])
    table = [(schema.partitions[0], Counted(shares, noise), np.full(4, 0.25))]
    return find_missed(schema, fit.targets, coded, table, tail=tail)


def test_more_rows_show_a_smaller_miss() -> None:
    assert not _apart(0.02, 1e-4, 4096, gaussian_tail)
    (found,) = _apart(0.02, 1e-4, 32_768, gaussian_tail)
    assert found.relation == "the table of ill and sex"


@pytest.mark.parametrize(("noise", "named"), [(1e-4, True), (1e-2, False)])
def test_what_rows_vary_by_has_no_long_tail_whatever_the_noise(noise: float, named: bool) -> None:
    """Four deviations: too many for chance of rows, and not for one Laplace noise."""
    laplace = partial(LaplaceLaw.tail_probability, n=1)
    off = 4 * np.hypot(noise, np.sqrt(0.1875 / 8192))
    assert bool(_apart(off, noise, 8192, laplace)) is named
    assert _apart(off, noise, 8192, gaussian_tail)
