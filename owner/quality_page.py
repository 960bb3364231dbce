"""A quality report as one HTML page that needs nothing else: no script, no link, no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from string import Template

from common.privacy.release import SOFTWARE
from owner.quality import QUANTILES, Quality, Variation

_WORST = 20

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="dppca-label" content="$label">
<meta name="robots" content="noindex">
<title>$label: synthetic rows of study $study</title>
<style>
body { font: 16px/1.5 sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color: #222; }
.label { border: 4px solid #b00020; padding: .5rem 1rem; }
.label strong { color: #b00020; font-size: 1.3rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .2rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; }
</style>
</head>
<body>
<div class="label" role="alert"><strong>SITE-ONLY: do not publish, send or copy this page.</strong>
<p>Every figure and picture on it was computed from this site's raw rows, without noise: whoever
reads it can learn about single rows. A summary that may leave is made by
<code>dppca-owner report --release</code>.</p></div>
<h1>Synthetic rows of study $study</h1>
<p>$synthetic synthetic rows ($source) against the $real rows of data set $data_set. $software.</p>
<h2>Can they be told apart?</h2>
$propensity
<h2>One attribute at a time</h2>
<p>Total variation: 0 where all shares are equal, 1 where nothing is shared. <em>By chance</em> is
about what two tables of these sizes from one distribution would show.</p>
$marginals
<p><img alt="Shares of each attribute, this site's rows beside synthetic ones"
src="data:image/png;base64,$marginal_plot"></p>
<h2>Two attributes at a time</h2>
$pairs
<p><img alt="Total variation of every pair of attributes"
src="data:image/png;base64,$pair_plot"></p>
<h2>Train on synthetic, test on real</h2>
$accuracies
<h2>Distance to the nearest record</h2>
<p>In coded units, where each numeric or binary attribute has a range of 1. Synthetic rows that lie
much nearer to real rows than real rows to each other would be copies. That they do not is no proof
of privacy: the guarantee comes from the noise, and is in the receipt of the components.</p>
$distances
</body>
</html>
""")


def quality_page(
    quality: Quality,
    *,
    study: str,
    data_set: str,
    source: str,
    plots: Sequence[bytes],
) -> str:
    """The page.

    Parameters
    ----------
    source
        Name of the file of synthetic rows.
    plots
        PNG of marginals, pairs and, where there are targets, accuracies.
    """
    marginal_plot, pair_plot, *accuracy_plot = [base64.b64encode(p).decode() for p in plots]
    return _PAGE.substitute(
        label=quality.label.value,
        study=escape(study),
        data_set=escape(data_set),
        source=escape(source),
        software=escape(SOFTWARE),
        synthetic=quality.n_synthetic,
        real=quality.n_real,
        propensity=_propensity(quality),
        marginals=_variations(quality.marginals, "attribute", "attributes"),
        marginal_plot=marginal_plot,
        pairs=_variations(quality.pairs, "pair", "pairs"),
        pair_plot=pair_plot,
        accuracies=_accuracies(quality, accuracy_plot),
        distances=_distances(quality),
    )


def _propensity(quality: Quality) -> str:
    found = quality.propensity
    features = "columns and their products" if found.products else "columns"
    return (
        f"<p>pMSE {found.pmse:.4f}, <strong>{found.ratio:.1f} times</strong> what rows that cannot "
        f"be told apart would give ({found.expected:.4f}); logistic regression on "
        f"{features}, {found.coefficients} coefficients. A ratio near 1 is as good as it gets.</p>"
    )


def _variations(found: Sequence[Variation], one: str, many: str) -> str:
    worst = sorted(found, key=lambda each: -each.found)[:_WORST]
    rows = [
        (", ".join(each.attributes), f"{each.found:.3f}", f"{each.by_chance:.3f}") for each in worst
    ]
    left = f"<p>The {_WORST} {many} that differ most of {len(found)}.</p>"
    return (left if len(found) > _WORST else "") + _table(
        (one, "total variation", "by chance"), rows
    )


def _accuracies(quality: Quality, plot: Sequence[str]) -> str:
    if not quality.accuracies:
        return "<p>The schema has no attribute with classes to predict from another.</p>"
    rows = [
        (
            each.target,
            f"{each.trained_on_real:.3f}",
            f"{each.trained_on_synthetic:.3f}",
            "" if each.trained_on_coded is None else f"{each.trained_on_coded:.3f}",
            f"{each.majority:.3f}",
        )
        for each in quality.accuracies
    ]
    image = "".join(
        f'<p><img alt="Accuracy by what was trained on" src="data:image/png;base64,{each}"></p>'
        for each in plot
    )
    names = ("target", "trained on real", "on synthetic", "on coded synthetic", "majority")
    return _table(names, rows) + image


def _distances(quality: Quality) -> str:
    found = quality.distances
    names = ("", *(f"{quantile:.0%} of rows within" for quantile in QUANTILES), "equal to a row")
    rows = [
        ("synthetic to real", *(f"{v:.3f}" for v in found.synthetic), f"{found.copies:.1%}"),
        ("real to other real", *(f"{v:.3f}" for v in found.real), f"{found.repeats:.1%}"),
    ]
    return _table(names, rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
