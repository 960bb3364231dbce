"""The canary: known rows whose sums must be the same at every worker.

They have every kind of attribute with all of its options, every kind of cell and table, and fill
every kind of entry that a packed vector can have, by both methods of adding up.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from dppca.common.kernel.moments.accumulation import MomentSums, ProductMethod
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import Schema
from dppca.owner.records.mapping_files import read_wire
from dppca.owner.records.table import CellBatch

_BOX: Final = """{
    "resolution_bits": 10, "sum_weight": 0.75, "histogram_weight": 0.5,
    "targets": ["b"], "target_weight": 3, "square_weight": 2, "tables_weight": 1.5,
    "neighbours": "added", "count_weight": 0.25,
    "missing_values": {"2.5": "lost", "-998": "", "x": ""},
    "tables": [
        {"table": ["z", "d", "u"], "cells": {"z": 2, "d": 2}},
        {"tree": [{"by": "z", "at_most": 9}, {"by": "o", "at_most": "low"}, {"by": "x",
         "at_most": 0.5}, {}, {}, {"by": "d", "at_most": "2020-07-01"}, {}, {"by": "m",
         "labels": ["no", "?"]}, {}, {"by": "p", "labels": ["1"]}, {}, {}, {}], "target": "b"}
    ],
    "attributes": [
        {"name": "x", "type": "numeric", "lower": -1, "upper": 3, "histogram": true,
         "missing": "indicator"},
        {"name": "y", "type": "numeric", "lower": 0, "upper": 1e6, "missing": "indicator"},
        {"name": "z", "type": "numeric", "lower": 0, "upper": 9, "score": "log", "integer": true,
         "spikes": [0, 7], "missing": "level", "histogram": true},
        {"name": "w", "type": "numeric", "lower": -2, "upper": 2, "bins": [-0.5, 0.1],
         "products": "bins"},
        {"name": "d", "type": "date", "lower": "2020-01-01", "upper": "2021-12-31", "bins": 7,
         "histogram": true, "missing_values": ["2020-07-01", 1]},
        {"name": "o", "type": "ordinal", "levels": ["low", "é", "high"], "histogram": true},
        {"name": "b", "type": "binary", "values": ["yes", "no"], "missing": "no"},
        {"name": "p", "type": "binary", "values": ["1", "true"]},
        {"name": "c", "type": "categorical", "categories": ["1", "a b", "é", "true"]},
        {"name": "u", "type": "categorical", "categories": ["low", "1"], "unknown": "other"},
        {"name": "m", "type": "categorical", "categories": ["no", "é", "?"], "missing": "é"}
    ]
}"""
_BALL: Final = """{
    "row_norm": {"include_sums": %s},
    "attributes": [
        {"name": "x", "type": "numeric", "centre": 0.5, "scale": 2.5},
        {"name": "y", "type": "numeric", "centre": -1e3, "scale": 2.5},
        {"name": "z", "type": "numeric", "centre": 4, "scale": 0.5}
    ]
}"""
_WHOLE: Final = tuple(map(Schema.model_validate_json, (_BOX, _BALL % "true", _BALL % "false")))
_ALONE: Final = {
    **_WHOLE[0].model_dump(mode="json"),
    "only_tables": True,
    "targets": [],
    "square_weight": 1,
    "count_weight": 1,
}
CANARY: Final = (*_WHOLE, Schema.from_document(_ALONE))
"""Schemas of the rows: in a box, in the unit ball with and without sums, and tables alone."""
_RULES: Final = """{
    "x": {"column": "x", "minus": 32, "times": 5, "over": 9, "round": "down"},
    "y": {"first_of": [{"column": "y", "missing": ["0.1"]}, {"column": "w"}]},
    "z": {"column": "d", "age_on": "2024-02-29"}, "w": {"column": "d", "part": "month"},
    "d": {"column": "d"}, "o": {"column": "c", "recode": {"é": "low", "1": "high"}},
    "b": {"column": "b"}, "p": {"constant": "1"},
    "c": {"cases": [{"if": {"x": {"below": 1}, "m": ["no", "é"]}, "then": {"column": "c"}}]},
    "u": {"column": "x", "cut": {"edges": [-1, 0.5], "labels": ["low", "1", "other"]}},
    "m": {"column": "m", "recode": {"1": "no"}, "otherwise": "?"}
}"""
MAPPED: Final = read_wire(CANARY[0], {"rules": json.loads(_RULES), "missing": ["7"]})
"""Rules of every kind, of a site's mapping."""


def sum_canary() -> str:
    """SHA-256, hexadecimal, of the sums of the rows under each schema, by both methods.

    The last are those of the rows that a mapping gives.
    """
    digest = hashlib.sha256()
    with one_blas_thread():
        for schema in CANARY:
            for method in ProductMethod:
                sums = MomentSums(schema, method=method)
                for batch in canary_batches(schema):
                    sums.add(batch.columns())
                digest.update(sums.total().packed.tobytes())
        sums = MomentSums(MAPPED.schema)
        for batch in canary_batches(MAPPED.schema):
            sums.add(replace(batch, mapped=MAPPED).columns())
        digest.update(sums.total().packed.tobytes())
    return digest.hexdigest()


def canary_batches(schema: Schema) -> Iterator[CellBatch]:
    """Numbers of all widths, text, nulls, infinities, decimals, times, labels and dictionaries."""
    texts = ["1e-3", " 2.5", "NA", "", "NaN", "-inf", "1e999", "0.1", "2.675", "-0", None, "7", "9"]
    labels = ["yes", "no", " no ", "?", "1", "1.0", "a b", "é", "true", None, "é", "high", "low"]
    days = ["2020-01-31", " 2021-12-31T23:59:59Z", "2019-01-01", "x", None, "2020-07-01", "1"]
    counted = np.arange(1200)
    numbers = pa.array(counted * 7919 % 601 / 100 - 3)
    gaps = pa.array(counted * 7919 % 601 / 100 - 3, mask=counted % 9 == 0)
    whole = pa.array(counted % 11, mask=counted % 13 == 0)
    odd = pa.array([np.inf, -np.inf, np.nan])
    decimals = pa.array(["0.1", "12345.678901", None]).cast(pa.decimal128(20, 6))
    codes = {name: counted * 997**step % 1201 % 14 for step, name in enumerate("opcumb")}
    known = {name: pa.array([*labels, "low"]).take(pa.array(code)) for name, code in codes.items()}
    short, low = (pa.array(each, pa.float32()) for each in ([0.3, 2.5, 7.1], [-999.7, -998, -997]))
    text, nothing = pa.array(texts), pa.array([None] * 13)
    yield from (
        CellBatch(schema, n_rows, {each.name: cells[each.name] for each in schema.attributes})
        for n_rows, cells in (
            (
                13,
                {"x": text, "y": nothing, "z": text, "w": text, "d": pa.array((days * 2)[:13])}
                | {name: pa.array(labels) for name in known},
            ),
            (
                1200,
                {"x": gaps, "y": pa.array(counted * 142.4, mask=counted % 5 == 0)}
                | {"z": whole, "w": numbers}
                | {name: cells.dictionary_encode() for name, cells in known.items()}
                | {"d": pa.array(counted + 18_050, pa.int32()).cast(pa.date32())},
            ),
            (
                3,
                {"x": odd, "y": decimals, "z": decimals, "w": odd}
                | dict.fromkeys("opcum", pa.array([1, 2, None]))
                | {"b": pa.array([True, False, None])}
                | {"d": pa.array([0, 1_600_000_000, None], pa.timestamp("s"))},
            ),
            (
                3,
                {"x": short, "y": low, "z": short, "w": short}
                | dict.fromkeys("opcumb", pa.array(["1E0", "NA", "."]))
                | {"d": pa.array([1_580_511_600] * 3).view(pa.timestamp("s", "Europe/Berlin"))},
            ),
        )
    )
