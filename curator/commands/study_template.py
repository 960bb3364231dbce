"""Template of a study file: every field that most studies need, with its meaning.

Its values are placeholders that are valid together. None of them is a recommendation for a privacy
parameter; the operator and the stewards decide on each.
"""

TEMPLATE = """\
# A study. All parties hold the same document, or nothing is sent: agree on it first. Bounds and
# categories come from documentation and from people who know the subject, never from the rows: a
# choice made from data is outside the privacy guarantee.

name: my-study                        # a-z 0-9 . _ -

# What stewards read before they agree, and beside the result.
title: Health and income in three regions
purpose: >
  Find which habits and incomes go together with health, so that advice can begin where it helps.
contact: Dr A. Example, a.example@hub.example.org
approval: Ethics board of the hub, number 2029-114

owners: [owner-1, owner-2, owner-3]   # as in the owners' certificates

# A study that does not wait for everybody needs both:
# quorum: 2
# deadline: 2030-01-31T12:00:00+00:00

privacy:
  mechanism: laplace                  # gaussian also needs delta, such as "1e-9"
  epsilon: "1.0"                      # decide: what each owner's release may cost a person

# To show the curator one sum over the owners, with less noise (`dppca-curator plan --colluders 1`),
# set in privacy `trust: aggregate` and `colluders: 1` (decide: how many owners may collude with the
# curator; if more do, gaussian noise keeps more of the guarantee). Here, set
spares: 0                           # openers that may never come back
# open_by: 2030-02-07T12:00:00+00:00  # until when the study waits for openers
# `dppca-curator study assemble` then adds the owners' keys.

# signatories: {owner-1: {needed: 2, roles: 0123...}} # two sign

overlap: false                        # true if one person may have rows at several owners

components: {above_noise: true} # or {count: 8} or {contribution_rate: 0.85}

# What it is to answer, as `estimate` asks it: forecast by `plan`, shown to stewards.
# questions: [logit smoker ~ region, median age by smoker]

# `check` and `review` refuse if a larger share of an attribute's values are faults: unknown,
# missing (unless the attribute says what that is), or outside the bounds. `contribute` only shows
# the counts, and asks.
faults: {refuse_if_above: 0.05}

schema:
  max_rows_per_person: 1              # decide: does a person have more than one row here? If so,
                                      # write `unit: person` in place of this line: all rows of a
                                      # person weigh as one then, or as up to `rows_counted: 3`
  # neighbours: added                # keeps each owner's number of rows secret; `plan --details`
                                      # shows what that costs
  sum_weight: 0.5                     # twice the noise on means, less on everything else
  targets: [smoker]                   # what will be predicted, if anything: half the noise on its
                                      # products with others, more on the rest
  # square_weight: 4                  # less noise on numbers' variances; at no cost up to what
                                      # `plan` says
  # `dppca-curator plan` says what each choice here costs and gains.

  # To train trees or networks on synthetic rows, give every number bins, and say
  # `products: bins` in place of `histogram: true`: rows then keep relations that do not rise or
  # fall steadily, such as a peak in middle age.

  # Codes that the files have for a missing value, in every column or of one attribute:
  # missing_values: {-99: refused, 98: not known}

  attributes:
    # A number is clipped to its bounds; a missing one is coded as their middle.
    - name: age
      type: numeric
      description: Age on the day of the visit   # shown to stewards; so are unit
      # concept: LOINC:30525-0        # and concept, its code in a public vocabulary
      unit: years
      lower: 0
      upper: 110
      integer: true                   # whole numbers: so are synthetic values
      bins: 22                        # cells of equal width; or edges: [18, 25, 45, 65, 80]
      histogram: true                 # release the rows in each cell, to keep the shape
      # products: bins                # in place of histogram, for trees or networks
      # missing: indicator            # if values may be missing: null in synthetic rows, too

    # An amount of several orders of magnitude, often 0.
    - name: savings
      type: numeric
      lower: 0
      upper: 1000000
      score: log                      # 10,000 to 100,000 is about as far as on to 1,000,000
      spikes: [0]                     # 0 has its own cell; needs histogram or products
      histogram: true
      # bins: 20
      # products: bins

    # One of two labels, the second coded positive. A missing or unknown one is coded as the
    # first, unless `missing:` names the other. If one may be unknown, use a categorical, as below.
    - {name: smoker, type: binary, values: [no, yes]}

    # One of several labels. `unknown` is one more, for values that are missing or not listed.
    # Without it such a value becomes the first category.
    - name: region
      type: categorical
      categories: [north, east, south, west]
      unknown: Unknown
"""
