"""A site: one folder with its settings, its policy, its credentials and its ledger.

``site.yaml`` says who this owner is and where the curator listens. ``policy.yaml`` says which data
sets there are and what each may spend in its lifetime, in decimals written as text, because a
budget is an exact number and a binary fraction is not. A data set that the policy does not name
does not exist: nothing can be released from it. Neither file has a default for a budget.

The software never writes to either file after `owner.enrolment` has made them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from common.errors import NoPolicyError, SettingError
from common.privacy.accounting import Budget
from common.study import is_party_name, load_yaml

SITE_FILE = "site.yaml"
POLICY_FILE = "policy.yaml"
_ADDRESS = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_MAX_PORT = 65535

_Document = TypeVar("_Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Site:
    """An owner's folder.

    Attributes
    ----------
    folder
        Absolute.
    name
        Of the owner, as studies and its certificate have it.
    curator
        ``HOST:PORT``.
    server_name
        Name to expect in the curator's certificate instead of the host; None to expect the host.
    """

    folder: Path
    name: str
    curator: str
    server_name: str | None = None

    @property
    def ca(self) -> Path:
        """The authority's certificate, from the operator."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """This owner's certificate, from the operator."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """This owner's private key; it never leaves the folder."""
        return self.folder / "key.pem"

    @property
    def request(self) -> Path:
        """What the operator signs."""
        return self.folder / "request.pem"

    @property
    def next(self) -> Path:
        """Folder of the key that is to follow, while its certificate is awaited."""
        return self.folder / "next"

    @property
    def previous(self) -> Path:
        """Folder of the key and certificate that were in use before the last renewal."""
        return self.folder / "previous"

    @property
    def ledger(self) -> Path:
        """What this site has spent, and the releases it was spent on."""
        return self.folder / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        """Held by the one command that may write the ledger."""
        return self.folder / "site.lock"

    def study_folder(self, name: str) -> Path:
        """Where a study's document, components and artefacts are kept."""
        if not is_party_name(name):
            message = f"{name!r} cannot be a study's name: use a-z 0-9 . _ - only"
            raise SettingError(message)
        return self.folder / "studies" / name


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set of the policy: where its rows are, and its lifetime budget."""

    name: str
    path: Path
    budget: Budget


@dataclass(frozen=True, slots=True)
class Policy:
    """The data sets of a site, in the order of the file."""

    data_sets: tuple[DataSet, ...]

    def data_set(self, name: str | None) -> DataSet:
        """The data set called ``name``, or the only one there is.

        Raises
        ------
        NoPolicyError
            The policy does not name it, or names none.
        SettingError
            No name was given and there are several.
        """
        names = ", ".join(each.name for each in self.data_sets) or "none"
        if name is None and len(self.data_sets) == 1:
            return self.data_sets[0]
        if name is None and self.data_sets:
            message = f"{POLICY_FILE} has several data sets ({names}): choose with --data-set"
            raise SettingError(message)
        for each in self.data_sets:
            if each.name == name:
                return each
        wanted = "a data set" if name is None else f"data set {name}"
        message = (
            f"{POLICY_FILE} does not name {wanted} (it names: {names}): enter it with its path "
            "and its lifetime budget; without a policy there is no release"
        )
        raise NoPolicyError(message)


def load_site(folder: Path) -> Site:
    """Read ``site.yaml``; `SettingError` names every field at fault."""
    path = folder / SITE_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"no {SITE_FILE} can be read in {folder}: run `dppca-owner --site {folder} init "
            "--name NAME --curator HOST:PORT`, or name another folder with --site"
        )
        raise SettingError(message) from error
    document = _parse(text, _SiteDocument, SITE_FILE)
    return Site(
        folder=folder.resolve(),
        name=document.name,
        curator=document.curator,
        server_name=document.server_name,
    )


def load_policy(site: Site) -> Policy:
    """Read ``policy.yaml``.

    Raises
    ------
    NoPolicyError
        There is no such file.
    SettingError
        It is not valid; the message names every field at fault.
    """
    path = site.folder / POLICY_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = (
            f"no {POLICY_FILE} can be read in {site.folder}: enter the data sets with their "
            "lifetime budgets; without a policy there is no release"
        )
        raise NoPolicyError(message) from error
    document = _parse(text, _PolicyDocument, POLICY_FILE)
    return Policy(
        tuple(
            DataSet(name, site.folder / each.path, _budget(name, each))
            for name, each in (document.data_sets or {}).items()
        )
    )


def require_party_name(value: str) -> str:
    """Pass on a name that an owner may have; `ValueError` otherwise."""
    if not is_party_name(value):
        message = "a name has 1 to 64 of a-z 0-9 . _ - and starts and ends with a letter or digit"
        raise ValueError(message)
    return value


def require_address(value: str) -> str:
    """Pass on a ``HOST:PORT``; `ValueError` otherwise."""
    match = _ADDRESS.fullmatch(value)
    if match is None or not 0 < int(match.group(1)) <= _MAX_PORT:
        message = f"must be HOST:PORT with a port from 1 to {_MAX_PORT}, such as hub.example:7443"
        raise ValueError(message)
    return value


def _exact(value: object) -> Decimal:
    """A decimal from text (or a whole number): a YAML fraction has been through binary."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = 'write the decimal as text, in quotes, such as "3.0"'
        raise ValueError(message)  # noqa: TRY004 - what pydantic takes for a fault of the field
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        message = 'must be a decimal, such as "3.0"'
        raise ValueError(message)
    return number


def _budget(name: str, document: _DataSetDocument) -> Budget:
    try:
        return Budget(document.epsilon, document.delta)
    except SettingError as error:
        message = f"{POLICY_FILE}: data_sets.{name}: {error}"
        raise SettingError(message) from error


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _SiteDocument(_Strict):
    version: Literal[1] = 1
    name: Annotated[str, AfterValidator(require_party_name)]
    curator: Annotated[str, AfterValidator(require_address)]
    server_name: str | None = None


class _DataSetDocument(_Strict):
    path: Annotated[str, Field(min_length=1)]
    epsilon: Annotated[Decimal, BeforeValidator(_exact)]
    delta: Annotated[Decimal, BeforeValidator(_exact)]


class _PolicyDocument(_Strict):
    data_sets: dict[Annotated[str, AfterValidator(require_party_name)], _DataSetDocument] | None


def _parse(text: str, kind: type[_Document], name: str) -> _Document:
    try:
        document = load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        message = f"{name} is not YAML: {error}"
        raise SettingError(message) from error
    if not isinstance(document, Mapping):
        message = f"{name} must be a mapping with {', '.join(kind.model_fields)}"
        raise SettingError(message)
    try:
        return kind.model_validate(dict(document))
    except ValidationError as error:
        raise SettingError(_explain(name, error)) from error


def _explain(name: str, error: ValidationError) -> str:
    faults: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(str(part) for part in fault['loc']) or name}: "
        f"{fault['msg'].removeprefix('Value error, ')}"
        for fault in faults
    ]
    return f"{name} is not valid:\n  " + "\n  ".join(lines)
