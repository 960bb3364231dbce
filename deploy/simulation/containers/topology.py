"""Compose file of a curator and M owners, made from one description.

All runs of DPPCA in containers use this text: ``docker-compose.yml`` in the repository's root is
for three owners and the demo's rows, and ``dppca-simulate compose`` writes one for a study.

The text is in ``compose.template``, in sections, with ``@name`` for values of a study or an owner.
It uses only features that Compose 1.29 and Compose v2 share. Every script writes ``step: NAME`` at
the start of a step, and ``step: done`` at its end, which Compose shows.
"""

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from textwrap import indent

import yaml

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.study import Study
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.demo import KEY, TARGET, demo_study
from dppca.deploy.simulation.runner import policy_text

CURATOR = "curator"
HUB = "hub"
MODEL = "/site/model.skops"
_TEMPLATE = Path(__file__).with_name("compose.template")
_SECTIONS = dict(
    re.findall(
        r"^@section (\w+)\n(.*?)(?=^@section |\Z)",
        _TEMPLATE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)


@dataclass(frozen=True, slots=True)
class Topology:
    """A study and its hosts.

    Attributes
    ----------
    study
        Its owners' names are those of their services: see `require_names`.
    target
        Attribute for which each owner trains a classifier; None for no classifier.
    rows, held_out
        File names in ``./rows``: each owner's data, None for the demo's rows, which an image holds;
        and the held-out rows on which models are tried, None if no model is tried.
    study_file, result_folder
        Paths relative to the compose file; the folder is ``./results`` or a folder in it.
    made_by, built_here
        Origin of the file, for its head; True if Compose may build the images, in a checkout.
    aggregation
        Makes it a study with ``trust: aggregate``, once the owners have keys.
    key
        Column of the rows that tells people apart; empty for none.
    """

    study: Study
    target: str | None
    rows: str | None = "rows.csv"
    held_out: str | None = None
    study_file: str = "./study.yaml"
    result_folder: str = "./results"
    made_by: str = "`dppca-simulate compose`."
    image: str = DEFAULT_IMAGE
    built_here: bool = False
    aggregation: Aggregation | None = None
    key: str = ""

    @property
    def openers(self) -> tuple[str, ...]:
        """Owners that open the sum, with ``trust: aggregate``."""
        count = 0 if self.aggregation is None else self.aggregation.openers
        return self.study.owners[:count]

    @property
    def networks(self) -> tuple[str, ...]:
        """Names of the networks: the curator's, and one for each owner."""
        return (HUB, *(f"site-{number}" for number, _ in self.numbered))

    @property
    def wait_s(self) -> int:
        """Seconds that an owner waits for the others: all of them may share one machine."""
        return max(300, 60 * len(self.study.owners))

    @property
    def numbered(self) -> tuple[tuple[int, str], ...]:
        """Each owner with the number in the names of its networks and volumes."""
        return tuple(enumerate(self.study.owners, start=1))


def require_names(owners: Iterable[str]) -> None:
    """Raise `SettingError` if a service of an owner would have the name of another service."""
    taken = {CURATOR, "certificates", "study", "rows", "operator", "judge", "results"}
    for owner in owners:
        services = {owner, f"{owner}-key"}
        if services & taken:
            raise SettingError(
                f"an owner called {owner} cannot be in containers: a service has that name. Rename "
                "it in the study, or with --rename-owners"
            )
        taken |= services


def compose_text(topology: Topology) -> str:
    """Return the compose file; raise `SettingError` as `require_names` does."""
    require_names(topology.study.owners)
    numbered, owners = topology.numbered, topology.study.owners
    values = {
        "n_owners": len(owners),
        "made_by": topology.made_by,
        "image": topology.image,
        "build": indent(_filled(_SECTIONS["build"], target="runtime"), "  ")
        if topology.built_here
        else "",
        "policy": json.dumps(_policy(topology)),
        "study": topology.study.name,
        "wait_s": topology.wait_s,
        "train": _train(topology),
        **_judged(topology),
        "owners": " ".join(owners),
        "first": owners[0],
        "rows": topology.rows,
        "study_file": topology.study_file,
        "result_folder": topology.result_folder,
        "results": "/host" + topology.result_folder.removeprefix("./results"),
        "sites": ", ".join(topology.networks[1:]),
        "keys": _depends(f"{owner}-key" for owner in owners),
        "all_owners": _depends(owners),
        **_masked(topology),
        "exchanges": _lines(f"- exchange-{n}:/exchange/{owner}" for n, owner in numbered),
        "accounts": _lines(f"- exchange-{n}:/from/{owner}:ro" for n, owner in numbered),
        "networks": "\n".join(f"  {name}: {{internal: true}}" for name in topology.networks),
        "volumes": "\n".join(f"  {name}:" for name in _volumes(len(owners))),
    }
    parts = [
        _filled(_SECTIONS["head"], **values),
        _rows(topology, values),
        "\n",
        *(_filled(_SECTIONS["key"], **_host(topology, n, owner)) for n, owner in numbered),
        _filled(_SECTIONS["hub"], **values),
        *(_filled(_SECTIONS["owner"], **_host(topology, n, owner)) for n, owner in numbered),
        *([_filled(_SECTIONS["judge"], **values)] if topology.held_out else []),
        _filled(_SECTIONS["tail"], **values),
    ]
    return "".join(parts)


def demo_compose_text() -> str:
    """Return the compose file in the repository's root: three owners and the demo's rows."""
    topology = Topology(
        study=demo_study(),
        target=TARGET,
        key=KEY,
        rows=None,
        study_file="./deploy/simulation/demo.yaml",
        result_folder="./results/compose",
        made_by="`python -m tools.pages`, run by `make compose-demo`.",
        built_here=True,
    )
    return compose_text(topology)


class _At(Template):
    """Template with ``@name``, because Compose uses ``$name``."""

    delimiter = "@"


def _filled(template: str, **values: object) -> str:
    lines = template.splitlines()
    filled = (_At(line).substitute(values).rstrip("\n") if line else "" for line in lines)
    pairs = zip(lines, filled, strict=True)
    return "".join(f"{text}\n" for line, text in pairs if text or not line)


def _policy(topology: Topology) -> object:
    colluders = None if topology.aggregation is None else topology.aggregation.colluders
    path = f"/data/{topology.rows or 'rows.csv'}"
    policy: object = yaml.safe_load(
        policy_text([topology.study], path, key=topology.key, colluders=colluders)
    )
    return policy


def _host(topology: Topology, number: int, owner: str) -> dict[str, object]:
    """Values that differ between the owners' services."""
    opener = 'OPENER: "--opener"' if owner in topology.openers else ""
    return {
        "owner": owner,
        "number": number,
        "opener": opener and f", {opener}",
        "owner_environment": opener and f"    environment: {{{opener}}}",
    }


def _masked(topology: Topology) -> dict[str, object]:
    """Values for ``trust: aggregate``: keys, the digest, returning openers; empty without it."""
    names = ("identity", "digest", "open", "opened", "assemble", "tell")
    if topology.aggregation is None:
        nothing = dict.fromkeys((*names, "study_exchanges"), "")
        return {**nothing, "created_from": "/study.yaml"}
    values = {
        "study": topology.study.name,
        "wait_s": topology.wait_s,
        "owners": " ".join(topology.study.owners),
    }
    texts = {name: _filled(_SECTIONS[f"masked_{name}"], **values).rstrip("\n") for name in names}
    mounts = (f"- exchange-{n}:/exchange/{owner}" for n, owner in topology.numbered)
    return {**texts, "study_exchanges": _lines(mounts), "created_from": "/tmp/study.yaml"}  # noqa: S108


def _train(topology: Topology) -> str:
    if topology.target is None:
        return ""
    target = shlex.quote(topology.target).replace("$", "$$")
    options = f"--method dppca-svm --kernel linear --output {MODEL} --replace"
    return f"      step train {topology.study.name} --target {target} {options}"


def _judged(topology: Topology) -> dict[str, object]:
    """Values for the access to the owners' models, besides the owners themselves."""
    if topology.held_out is None:
        stays = "      # it stays in the site's volume."
        return {"held_out": "", "whose_model": stays, "show_model": "", "judged": ""}
    return {
        "held_out": topology.held_out,
        "whose_model": "      # in this simulation alone, a judge without a network tries it.",
        "show_model": f"      cp {MODEL} /exchange/",
        "judged": _depends(["judge"]),
    }


def _rows(topology: Topology, values: Mapping[str, object]) -> str:
    demo = topology.rows is None
    place = "/demo/data" if demo else "/data"
    mounts = _lines(f"- data-{n}:{place}/{owner}" for n, owner in topology.numbered)
    build = indent(_filled(_SECTIONS["build"], target="demo"), "    ")
    template = _SECTIONS["demo_rows"] if demo else _SECTIONS["host_rows"]
    return _filled(template, **{**values, "build": build, "mounts": mounts})


def _depends(services: Iterable[str]) -> str:
    return _lines(f"{name}: {{condition: service_completed_successfully}}" for name in services)


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"      {item}" for item in items)


def _volumes(n_owners: int) -> tuple[str, ...]:
    common = ("authority", "curator-credentials", "curator-state", "operator", "results")
    own = (f"{kind}-{n + 1}" for kind in ("site", "data", "exchange") for n in range(n_owners))
    return *common, *own
