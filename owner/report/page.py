"""A quality report as one HTML page that needs nothing else: no script, no link, no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from string import Template

from dppca.common.documents import ComponentFigures
from dppca.common.html_tables import html_table, html_text
from dppca.common.loadings import Loading
from dppca.common.numerics.comparison import PairSummary, Variation, worst
from dppca.common.numerics.pair_cells import PAIR_CELLS
from dppca.common.privacy.receipts import SOFTWARE
from dppca.owner.records import CheckReport
from dppca.owner.records.faults import MALFORMED, WARNING, describe_coding
from dppca.owner.report.comparison import QUANTILES, Quality

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
<p>Every figure and picture on it was computed from this site's raw rows, without noise: anybody who
reads it can learn about single rows. A summary that may leave is made by
<code>dppca-owner report --release</code>.</p></div>
<h1>Synthetic rows of study $study</h1>
<p>$synthetic synthetic rows ($source) against the $real rows of data set $data_set. $software.</p>
<h2>Values coded by rule</h2>
$coded_by_rule
<h2>The joint components</h2>
$components
<h2>Can they be told apart?</h2>
$propensity
<h2>One attribute at a time</h2>
<p>Total variation of coded rows: 0 where all shares are equal, 1 where nothing is shared.
<em>By chance</em> is about what two tables of these sizes from one distribution would show.</p>
$marginals
<p>The picture shows the values that the files hold, before coding; those that are not known, or lie
outside the bounds, have bars of their own.</p>
<p><img alt="Shares of each attribute, this site's rows beside synthetic ones"
src="data:image/png;base64,$marginal_plot"></p>
<h2>Two attributes at a time</h2>
<p>A numeric is cut into at most $pair_cells of the schema's cells. $pair_mean</p>
$pairs
<p><img alt="Total variation of every pair, and the tables of those that differ most"
src="data:image/png;base64,$pair_plot"></p>
<h2>Train on synthetic, test on real</h2>
<p>On rows of this site whose target is known.</p>
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
    faults: CheckReport,
    *,
    study: str,
    data_set: str,
    source: str,
    plots: Sequence[bytes],
    components: Sequence[ComponentFigures] = (),
    component_plots: Sequence[bytes] = (),
) -> str:
    """The page.

    Parameters
    ----------
    faults
        What coding had to mend in the real rows.
    source
        Name of the file of synthetic rows.
    plots
        PNG of marginals, pairs and, where there are targets, accuracies.
    components
        What was kept, by attribute and label; empty where the site keeps no components.
    component_plots
        PNG of the loadings and, where two or more were kept, a biplot.
    """
    marginal_plot, pair_plot, *accuracy_plot = [base64.b64encode(p).decode() for p in plots]
    return _PAGE.substitute(
        label=quality.label.value,
        study=html_text(study),
        data_set=html_text(data_set),
        source=html_text(source),
        software=html_text(SOFTWARE),
        synthetic=quality.n_synthetic,
        real=quality.n_real,
        coded_by_rule=_coded_by_rule(faults),
        components=_components(components, component_plots),
        propensity=_propensity(quality),
        marginals=_variations(quality.marginals, "attribute", "attributes"),
        marginal_plot=marginal_plot,
        pair_cells=PAIR_CELLS,
        pair_mean=_pair_mean(quality.pair_summary),
        pairs=_variations(quality.pairs, "pair", "pairs"),
        pair_plot=pair_plot,
        accuracies=_accuracies(quality, accuracy_plot),
        distances=_distances(quality),
    )


def _coded_by_rule(faults: CheckReport) -> str:
    rows = [
        (
            attribute.name,
            kind.value,
            str(found.count),
            f"{found.count / faults.n_rows:.2%}",
            describe_coding(attribute, kind),
        )
        for attribute in faults.attributes
        for kind, found in attribute.found.items()
    ]
    if faults.malformed:
        share = f"{faults.n_malformed / faults.n_rows:.2%}"
        rows.append((MALFORMED, "", str(faults.n_malformed), share, ""))
    if not rows:
        return "<p>None: every value of this site's rows is coded as it is.</p>"
    return (
        "<p>Figures below compare rows as they are coded: these values of this site's rows count "
        f"as what is said here. {escape(WARNING)}</p>"
    ) + html_table(("attribute", "", "values", "of the rows", "in all figures"), rows)


def _components(figures: Sequence[ComponentFigures], plots: Sequence[bytes]) -> str:
    """Each component's largest loadings, with pictures."""
    if not figures:
        return "<p>None are kept at this site.</p>"
    rows = [
        (
            str(number),
            f"{each['eigenvalue']:.4g}",
            "yes" if each["above_noise"] else "no",
            ", ".join(
                f"{loading['loading']:+.2f} "
                + Loading(loading["attribute"], loading["label"], loading["loading"]).name
                for loading in each["loadings"]
            ),
        )
        for number, each in enumerate(figures, start=1)
    ]
    names = ("component", "eigenvalue", "above the noise edge", "largest loadings")
    told = ("Largest loadings of each joint component", "Rows on the first two components")
    return html_table(names, rows) + "".join(
        f'<p><img alt="{text}" src="data:image/png;base64,{base64.b64encode(plot).decode()}"></p>'
        for text, plot in zip(told, plots, strict=False)
    )


def _propensity(quality: Quality) -> str:
    propensity = quality.propensity
    features = "columns and their products" if propensity.products else "columns"
    return (
        f"<p>pMSE {propensity.pmse:.4f}, <strong>{propensity.ratio:.1f} times</strong> what rows "
        f"that cannot be told apart would give ({propensity.expected:.4f}); logistic regression on "
        f"{features}, {propensity.coefficients} coefficients. "
        "A ratio near 1 is as good as it gets.</p>"
    )


def _variations(found: Sequence[Variation], one: str, many: str) -> str:
    rows = [
        (", ".join(found[i].attributes), f"{found[i].found:.3f}", f"{found[i].by_chance:.3f}")
        for i in worst(found, _WORST)
    ]
    left = f"<p>The {_WORST} {many} that differ most of {len(found)}.</p>"
    return (left if len(found) > _WORST else "") + html_table(
        (one, "total variation", "by chance"), rows
    )


def _pair_mean(pairs: PairSummary) -> str:
    if pairs.mean is None or pairs.by_chance is None:
        return ""
    return (
        f"Total variation is <strong>{pairs.mean:.3f}</strong> on average over all pairs; chance "
        f"alone would give {pairs.by_chance:.3f}."
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
    return html_table(names, rows) + image


def _distances(quality: Quality) -> str:
    distances = quality.distances
    names = ("", *(f"{quantile:.0%} of rows within" for quantile in QUANTILES), "equal to a row")
    rows = [
        (
            "synthetic to real",
            *(f"{v:.3f}" for v in distances.synthetic),
            f"{distances.copies:.1%}",
        ),
        ("real to other real", *(f"{v:.3f}" for v in distances.real), f"{distances.repeats:.1%}"),
    ]
    return html_table(names, rows)
