#!/usr/bin/env bash
# opendp 0.16.0, Python 3.11: the mean of a column whose number of rows is given, with contributions=1, epsilon 1.
#
# Expected: noise for one row, half of that for contributions=2, or an error.
# Seen: the exact mean, with noise below 1e-11, and no word. By its relation that is right: a contribution is a row added
# or removed, and no two tables of one size differ by one of those. A row replaced is two contributions; with 2 the scale
# is (upper - lower) / (rows * epsilon). Who counts rows per person, as other libraries do, has to double the number.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "opendp==0.16.0"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
import opendp.prelude as dp

dp.enable_features("contrib")
hours = [float(1 + place % 99) for place in range(9900)]


def scale(contributions):
    context = dp.Context.compositor(
        data=hours,
        privacy_unit=dp.unit_of(contributions=contributions),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        domain=dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(hours)),
    )
    query = context.query().clamp((1.0, 99.0)).mean().laplace()
    print(f"contributions={contributions}: scale {query.param():.3g}, released {query.release()!r}; the mean is 50.0")
    return query.param()


one, two = scale(1), scale(2)
sys.exit(0 if one < 1e-11 and abs(two - 98 / len(hours)) < 1e-6 else 1)
PYTHON
