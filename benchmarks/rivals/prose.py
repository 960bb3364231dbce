"""What the page of comparisons says around its tables."""

HEAD = """# Beside what you could take instead

Made by `python -m benchmarks.rivals NAME --write` from [comparison.json](comparison.json), which
has older rows at ε = 0.1 and 0.5, without trees ([why so](models.md)). Take something else where

1. **nothing has to be kept private**: scikit-learn has exact components, and real rows need no
   generator;
2. **the number of rows is itself a secret**: our neighbours hold equally many rows. MST, AIM and
   PrivBayes count a row more or less, and the tables for that relation show what ours *would* be;
3. **three attributes share what no two of them show**, and no study may count rows in tables or
   trees: ours know pairs only here ([what those give](../how-to/look-like-the-data.md));
4. **no δ is allowed, ε is 0.2 or less and labels are many**: on Adult at ε = 0.1 two-way tables
   were off by 0.196 with PrivBayes and 0.239 with ours (one owner), by 0.360 with DP-SUBN3 and
   0.409 with ours (ten); at 0.2 one owner's were level. On NLTCS ours were closer at each ε;
5. **tables matter most, δ is allowed, rows are in one place, and minutes do not count**: at ε = 1
   AIM's workload error was 0.104 on Adult and 0.082 in the demo, where numbers bend with each
   other; ours, for the same neighbours, was 0.113 and 0.157. At 0.2 ours were closer on all three
   data sets, and on NLTCS at 1, too (0.009; AIM 0.017). MST's one-way tables were the closest on
   Adult (0.005 at ε = 1; ours 0.008). Trained on AIM's rows, trees were right on 0.834 of Adult's
   incomes at ε = 1, on ours 0.840, and [after a second study](../reference/synthesis.md) 0.845;
6. **rows are few and no δ is allowed**: with 1,000 rows and ε = 0.2, OpenDP's first 3 components of
   NLTCS captured as much as ours or more; of 112 columns nobody found any;
7. **columns are thousands and lines are thin**: in DPdisPCA a site sends ten vectors, not a matrix.
   It captures less, the more so the more parties there are;
8. **a few published tables are all you need**: release those, with OpenDP for example, not rows;
9. **rows are sequences, texts, pictures or linked tables**: a schema here has numbers and labels;
10. **a network is to be trained privately**: that takes noise in its training (DP-SGD).

What was not run stands below each table with its reason. Runs of synthetic rows are three splits
where the table does not say fewer: read differences of a point or two as none. AIM's authors say
that it can take many hours with models of 80 MB and 1,000 steps a round; here it has 4 MB and 250
(with 50 its tables of NLTCS were off by 0.023 in place of 0.008 at ε = 1), and its paper's
workload, all tables of three attributes. Both cores were busy, so compare seconds roughly.
"""

ABOUT = {
    "nltcs": """## Synthetic rows: NLTCS

*DPPCA* is a study of 16 binaries with Gaussian noise, δ = 1e-9; *DPPCA, δ = 0* has Laplace noise.
Each owner has noise of its own. *(dpmm)* are dpmm 0.1.9's, with their defaults and δ = 1e-9, for
one owner with all rows; that their promises hold is taken from their code. *PrivBayes, δ = 0* and
*DP-SUBN3, δ = 0* are [this software's](models.md). SDV's
GaussianCopula has no privacy.

Accuracy is on real rows held out, of a machine trained on the rows: linear, and with an RBF kernel
on the first 5,000 of them; or of boosted *trees* (scikit-learn's HistGradientBoosting as it comes).
*One-way*, *two-way* and *three-way* are mean total variations of the tables of all attributes, all
pairs and all triples, *workload* is FLAIM's error (the mean L1 distance over 64 random triples and
what is in them); all against the training rows, with which, for real rows, those held out are
compared. Trees, triples and workload stand in a table when every line has them. Seconds are the
processor's for a fit and 17,259 rows; MiB is the most memory of the process, its libraries
included. Behind ± is the standard error over splits of the data, where there is more than one run.
""",
    "demo": """## Synthetic rows: the demo

As above; ours has the demo's own schema, histograms included; 16,152 rows.
""",
    "adult": """## Synthetic rows: Adult

As above; ours has histograms, scores of money and two targets, whose products have half the noise.
The others know of no target. 36,178 rows; 18,000 in a table without trees.
""",
    "pca": """## Components of one table

Share of the variance that the first 3 and the first 10 components capture, means of three draws of
the noise. One owner; a row is replaced; δ is in the name of the line. diffprivlib is 0.6.6, OpenDP
0.16.0; neither has a δ. *By attributes* is a study of the table as it is, *rows in a ball* one of
rows with a bounded norm, as theirs. Both take one component after the other by an exponential
mechanism, whose sampler gets slower with ε times the rows: each had 60 seconds by the clock for a
fit, at a load of 10 to 20 on two cores. So two tables of 1,000 rows, drawn at random, stand before
the whole ones. A random subspace is what components have to beat.
""",
    "parties": """## Components of several parties' rows

Share of the variance that the first 5 components capture; ε for each party, δ = 1e-9, a row is
replaced; three deals of the rows and draws of the noise. *DPPCA, rows in a ball*, *DPdisPCA, sound*
and *local, then merged* are made of one and the same release, noise and all: they differ in how its
parts are joined. Our curator adds moments up. In DPdisPCA (Imtiaz and Sarwate 2018) each site sends
ten weighted eigenvectors; in the other (Grammenos and others 2020) its first five, and merging goes
on with five. The (ε, δ) of the release holds for all three: they could be `released`. *DPdisPCA,
published-method* has the paper's noise, which is for a row more or less and not for one replaced,
on rows centred by their exact mean: no ε holds. *DPPCA, by attributes* is what a study would do.
How each description is read is in `benchmarks/rivals/merging.py`.
""",
}
