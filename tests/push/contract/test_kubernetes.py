"""``deploy/kubernetes/``: against Kubernetes' own schemas, strictly, and against the software."""

import re
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from dppca.curator.cli import serve
from dppca.owner.cli import cli as owner
from tests.support.checkout import ROOT
from tests.support.proxy import ADDRESSES, CONFIGURATION

FOLDER = ROOT / "deploy/kubernetes"
OLDEST = "1.29"
SHIPPED = CONFIGURATION.relative_to(ROOT)
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yaml"))
Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


EVERY = [(name, document) for name in FILES for document in documents(name)]
IDS = [f"{name}-{document['kind']}" for name, document in EVERY]


def only(kind: str) -> Document:
    """The one document of a kind for the curator."""
    (found,) = [doc for name, doc in EVERY if doc["kind"] == kind and "site/" not in name]
    return found


def at(document: Document, path: str) -> Any:
    """What stands at a path such as ``spec.containers.0.name``."""
    for step in path.split(".") if path else ():
        document = document[int(step) if step.isdigit() else step]  # type: ignore[index]
    return document


POD = at(only("StatefulSet"), "spec.template.spec")
CONTAINER, PROXY = at(POD, "containers")


@pytest.mark.parametrize("version", [OLDEST, "latest"])
@pytest.mark.parametrize(("name", "document"), EVERY, ids=IDS)
def test_a_document_conforms_to_its_schema(name: str, document: Document, version: str) -> None:
    number = kubernetes_validate.latest_version() if version == "latest" else version
    used = kubernetes_validate.validate(document, number, strict=True)
    assert number.startswith(used), "a schema of this very version"


def test_no_file_holds_a_secret() -> None:
    assert all(document["kind"] != "Secret" for _, document in EVERY)
    for name in FILES:
        text = (FOLDER / name).read_text()
        assert "PRIVATE KEY" not in text
        assert not re.search(r"(password|token)\s*:\s*\S", text.replace("ServiceAccountToken", ""))


@pytest.mark.parametrize(
    "pod",
    [doc["spec"]["template"]["spec"] for _, doc in EVERY if "template" in doc.get("spec", {})],
    ids=lambda pod: pod["containers"][0]["name"],
)
def test_a_pod_may_do_little(pod: Document) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]["limits"]) >= {"cpu", "memory"}
    writable = {
        mount["mountPath"]
        for container in pod["containers"]
        for mount in container["volumeMounts"]
        if not mount.get("readOnly")
    }
    assert writable <= {"/state", "/site", "/tmp"}  # noqa: S108 - mounts of a pod


def test_the_daemon_is_called_as_it_takes_it() -> None:
    program, command, *arguments = CONTAINER["args"]
    assert (program, command) == ("dppca-curator", "serve")
    with serve.make_context("serve", arguments) as context:
        given = context.params
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert given["listen"] == ADDRESSES["CURATOR"]  # owners come by the proxy
    assert given["metrics_port"] == ports["metrics"]
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in CONTAINER["volumeMounts"]}
    assert given["credentials"] == mounts["credentials"]
    assert given["state"].is_relative_to(mounts["state"])
    options = [option for option in serve.params if isinstance(option, click.Option)]
    read = {str(option.envvar) for option in options if option.envvar} | {"OPENBLAS_NUM_THREADS"}
    assert set(only("ConfigMap")["data"]) <= read


def test_the_proxy_has_the_configuration_that_is_shipped_and_is_where_owners_dial() -> None:
    command = f"kubectl create configmap dppca-proxy --namespace dppca --from-file={SHIPPED}"
    assert command in (FOLDER / "README.md").read_text()
    (mount,) = PROXY["volumeMounts"]
    assert {"name": mount["name"], "configMap": {"name": "dppca-proxy"}} in POD["volumes"]
    assert PROXY["command"] == ["haproxy", "-f", f"{mount['mountPath']}/{CONFIGURATION.name}"]
    (port,) = PROXY["ports"]
    assert ADDRESSES["OWNERS"] == f":::{port['containerPort']}"
    (served,) = at(only("Service"), "spec.ports")
    assert (served["port"], served["targetPort"]) == (port["containerPort"], port["name"])


def test_the_owners_example_is_called_as_it_takes_it() -> None:
    (job,) = [doc for _, doc in EVERY if doc["kind"] == "Job"]
    program, site, name, *arguments = at(job, "spec.template.spec.containers.0.args")
    assert (program, name) == ("dppca-owner", "contribute")
    assert site == "--site=/site"
    with owner.make_context("dppca-owner", [site, name]) as context:
        command = owner.get_command(context, name)
        assert command is not None
        with command.make_context(name, arguments, parent=context) as inner:
            assert inner.params["yes"] is True
