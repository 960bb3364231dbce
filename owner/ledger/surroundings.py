"""Files beside a ledger that a statement binds: policy.yaml, site.yaml and the authority.

A policy is compared as a document, so comments and the order of keys have no effect. The ledger
reads these files itself: no caller can name others.
"""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES, NotYamlError, load_yaml
from dppca.common.kernel.errors import SettingError

POLICY, SETTINGS, AUTHORITY = "policy.yaml", "site.yaml", "ca.pem"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What stands in these files now: the policy as a document, and digests of all three."""

    policy: Any
    policy_sha256: str
    site_sha256: str
    authority_sha256: str

    @property
    def facts(self) -> dict[str, str]:
        """Their digests, as a statement's facts have them."""
        return {
            "policy_sha256": self.policy_sha256,
            "site_sha256": self.site_sha256,
            "authority_sha256": self.authority_sha256,
        }


def read_surroundings(ledger: Path) -> Surroundings:
    """Read the files beside a ledger; raise `SettingError` if one is missing or cannot be read."""
    policy, site = (_read_yaml(ledger.with_name(name)) for name in (POLICY, SETTINGS))
    authority = _read(ledger.with_name(AUTHORITY)).strip().replace(b"\r\n", b"\n")
    return Surroundings(
        policy,
        sha256(canonical_json(policy)).hexdigest(),
        sha256(canonical_json(site)).hexdigest(),
        sha256(authority).hexdigest(),
    )


def _read_yaml(path: Path) -> Any:
    try:
        return _plain(load_yaml(_read(path).decode()))
    except (UnicodeDecodeError, NotYamlError) as error:
        raise SettingError(f"{path.name} is no YAML in UTF-8: correct it") from error


def _plain(value: Any) -> Any:
    """Return a value of YAML as JSON has it; dates and other values as their text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None or type(value) in (str, int, bool) else f"{value!r}"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_DOCUMENT_BYTES:
        raise SettingError(f"{path.name} has more than 4 MiB")
    return content
