"""Make `digests.json`: canonical documents and digests of studies that cover every setting.

Parties of other versions hold these bytes: if one changes, the version of the document must
change with it. Run from the root: ``python -m tests.golden.make_digests``.
"""

import json
from pathlib import Path

from dppca.common.analysis.study_file import study_from_yaml

FILE = Path(__file__).with_name("digests.json")

STUDIES = {
    "laplace": """
name: nltcs
owners: [owner-1, owner-2, owner-3]
privacy: {mechanism: laplace, epsilon: "1.0"}
components: {contribution_rate: 0.85}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: outside, type: binary, values: [0, 1]}
    - {name: money, type: binary, values: [No, Yes], missing: No}
""",
    "gaussian": """
name: mixed
owners: [a, b]
quorum: 1
deadline: 2030-01-02T03:04:05+02:00
overlap: true
max_rows: 1000000
privacy: {mechanism: gaussian, epsilon: 0.50, delta: 1e-9}
components: {above_noise: true}
covariance: within
schema:
  resolution_bits: 6
  max_rows_per_person: 5
  sum_weight: 2
  attributes:
    - {name: age, type: numeric, lower: 17, upper: 90}
    - {name: zéro, type: numeric, lower: -0.0, upper: 1.5}
    - {name: sex, type: binary, values: [Female, Male]}
    - {name: code, type: categorical, categories: [010, true, 1.0, "2"], missing: 1}
""",
    "ball": """
name: ball
owners: [a]
privacy: {mechanism: laplace, scale: "12.50", nominal_epsilon: 0.1}
components: {count: 1, trace: signed}
schema:
  resolution_bits: 10
  max_rows_per_person: 1
  row_norm: {include_sums: false}
  attributes:
    - {name: x, type: numeric, centre: 0, scale: 1}
    - {name: y, type: numeric, centre: 1e3, scale: 2.5}
""",
}


def documents() -> dict[str, dict[str, str]]:
    """Canonical document and digests of each study."""
    made = {}
    for name, text in STUDIES.items():
        study = study_from_yaml(text)
        made[name] = {
            "canonical": study.canonical_bytes().decode(),
            "digest": study.digest,
            "schema_digest": study.table.digest,
        }
    return made


if __name__ == "__main__":
    FILE.write_text(json.dumps(documents(), indent=1, ensure_ascii=False) + "\n", "utf-8")
