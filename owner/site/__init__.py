"""A site: its settings and policy, its keys, and the studies it keeps."""

SITE_FILE = "site.yaml"
POLICY_FILE = "policy.yaml"
STUDIES = "studies"
ACKNOWLEDGEMENT = "acknowledgement.json"
"""In a study's folder: the curator's, signed."""
