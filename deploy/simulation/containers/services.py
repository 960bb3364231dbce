"""What a compose file of ours asks for, as containers that a driver starts itself.

`read_plan` reads the text that `topology` makes, so whoever reads ``docker-compose.yml`` reads what
is run. It knows what that text uses of Compose, and refuses the rest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dppca.common.kernel.errors import SettingError

_VARIABLE = re.compile(r"\$(\$)|\$\{(\w+):-([^}]*)\}")
_TIME = re.compile(r"(\d+)s")
_LIMITS: Final = (
    *("read_only", "tmpfs", "cap_drop", "cap_add", "security_opt", "init", "mem_limit"),
    *("cpus", "pids_limit", "logging"),
)
_KNOWN: Final = frozenset(
    {
        *("build", "command", "depends_on", "entrypoint", "environment", "healthcheck", "image"),
        *("network_mode", "networks", "pid", "restart", "user", "volumes", *_LIMITS),
    }
)
HEALTHY: Final = "service_healthy"


@dataclass(frozen=True, slots=True)
class Service:
    """One container.

    Attributes
    ----------
    name
        Name of its service, by which others on its networks find it.
    image, command, entrypoint, environment, user
        As in Compose; an empty list or text leaves the image's own.
    networks
        Names of its networks; none for a container without one.
    mounts
        ``source:target`` or ``source:target:ro``; a source is a volume's name or an absolute path.
    needs
        What must have ended well before it starts, or be healthy: conditions by name.
    health
        Command and seconds of its health check; None for none.
    beside
        Service whose processes it sees; empty for none.
    limits
        All else that confines it, by Compose's names.
    """

    name: str
    image: str
    command: tuple[str, ...]
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]
    user: str
    networks: tuple[str, ...]
    mounts: tuple[str, ...]
    needs: Mapping[str, str]
    health: Mapping[str, Any] | None
    beside: str
    limits: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """Containers in the order of the file, with their networks and volumes."""

    services: tuple[Service, ...]
    networks: tuple[str, ...]
    volumes: tuple[str, ...]


def read_plan(text: str, folder: Path, *, variables: Mapping[str, str]) -> ContainerPlan:
    """Read a compose file that lies in ``folder``; ``variables`` go before its defaults.

    Raise `SettingError` for a key that no driver here knows.
    """
    document = _resolved(yaml.safe_load(text), variables)
    if any(network != {"internal": True} for network in document["networks"].values()):
        raise SettingError("every network of a study in containers is internal")
    services = tuple(
        _service(name, each, folder.resolve()) for name, each in document["services"].items()
    )
    return ContainerPlan(services, tuple(document["networks"]), tuple(document["volumes"]))


def _service(name: str, given: Mapping[str, Any], folder: Path) -> Service:
    if strange := sorted(set(given) - _KNOWN):
        raise SettingError(f"{name}: {strange[0]} is nothing that containers are started with")
    check = given.get("healthcheck")
    return Service(
        name=name,
        image=given["image"],
        command=tuple(given.get("command", ())),
        entrypoint=tuple(given.get("entrypoint", ())),
        environment=given.get("environment", {}),
        user=given.get("user", ""),
        networks=tuple(given.get("networks", ())),
        mounts=tuple(_mount(each, folder) for each in given.get("volumes", ())),
        needs={other: how["condition"] for other, how in given.get("depends_on", {}).items()},
        health=None if check is None or "disable" in check else _check(check),
        beside=given.get("pid", "").removeprefix("service:"),
        limits={key: given[key] for key in _LIMITS if key in given},
    )


def _mount(text: str, folder: Path) -> str:
    source, _, rest = text.partition(":")
    return f"{folder / source}:{rest}" if source.startswith(".") else text


def _check(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: _seconds(value) if _is_time(value) else value for key, value in given.items()}


def _is_time(value: object) -> bool:
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def _seconds(value: str) -> int:
    return int(value.removesuffix("s"))


def _resolved(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a value of the file with its variables filled in, as Compose does."""
    if isinstance(value, str):
        return _VARIABLE.sub(
            lambda found: "$" if found[1] else variables.get(found[2], found[3]), value
        )
    if isinstance(value, dict):
        return {key: _resolved(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, variables) for each in value]
    return value
