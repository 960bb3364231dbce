"""``dppca-simulate faults``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dppca.common.console import emit, prints, progress, terminable, terminal_width
from dppca.common.errors import BrokenPromiseError, SettingError
from dppca.common.text_tables import fit_markdown
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from tests.fault_injection.documents import FaultsDocument


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--fault",
    "written",
    multiple=True,
    metavar="SPEC",
    help="PARTY:KIND@STEP:DURATION, such as owner-2:kill@draw; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Inject every fault at every step.")
@click.option(
    "--runtime",
    type=click.Choice(["processes", "containers"]),
    default="processes",
    show_default=True,
    help="What each party is: a process of this machine, or a container of the image.",
)
@click.option(
    "--image",
    envvar="DPPCA_IMAGE",
    show_envvar=True,
    default=DEFAULT_IMAGE,
    show_default=True,
    help="Image of the containers; `make image` makes it, nothing is pulled.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="How many studies run at a time.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Markdown file for the page with the table; it is overwritten.",
)
@prints(FaultsDocument)
def faults(
    written: tuple[str, ...],
    runtime: str,
    image: str,
    at_once: int,
    output: Path | None,
    *,
    everything: bool,
    as_json: bool,
) -> int:
    """Inject faults into studies, one into each, and check what each study leaves behind.

    A study of three owners runs for every fault: kill -9, a cut network, a slow link, a full disk,
    a wrong clock, late and missing owners, at any step of the protocol; faults of openers have a
    study with trust: aggregate. Then every ledger must
    verify and show each charge once, released bytes must be those from before the fault, and the
    result must be, bit for bit, the pooled stored bytes of the owners that took part. Exits with 90
    if a promise was broken.

    \b
    Example:
      dppca-simulate faults --fault owner-2:kill@draw --fault curator:kill@store
      dppca-simulate faults --fault owner-1:partition@send:20s --fault owner-3:slow@send
      dppca-simulate faults --fault curator:disk-full --fault owner-1:clock+2d
      dppca-simulate faults --fault opener-1:kill@open --fault opener-2:key-lost
      dppca-simulate faults --all --runtime containers --output docs/reference/faults.md
    """
    from tests.fault_injection.catalogue import all_cases
    from tests.fault_injection.page import make_document, make_markdown, make_page
    from tests.fault_injection.spec import parse_fault

    if bool(written) == everything:
        raise SettingError("give --fault SPEC, once or more often, or --all")
    asked = all_cases() if everything else tuple(map(parse_fault, dict.fromkeys(written)))
    outcomes = _run(asked, runtime, image, at_once, as_json=as_json)
    document = make_document(outcomes, runtime=runtime)
    if output is not None:
        _write(output, make_page(document, everything=everything, output=str(output)))
    text = fit_markdown(make_markdown(document), width=terminal_width())
    emit(document, text, as_json=as_json)
    return BrokenPromiseError.exit_code if document["failed"] else 0


def _run(asked: Any, runtime: str, image: str, at_once: int, *, as_json: bool) -> Any:
    from tests.fault_injection.suite import Suite

    matrix = Suite(**_runtime(runtime, image))
    with terminable(), progress("faults", len(asked), enabled=not as_json) as bar:
        return matrix.run(asked, at_once=at_once, done=lambda _: bar.advance())


def _runtime(runtime: str, image: str) -> dict[str, Any]:
    if runtime == "containers":
        from tests.fault_injection.hosts import HOSTS as HOST_NAMES
        from tests.fault_injection.hosts import container_runtime

        return {"stage": container_runtime(image), "hosts": HOST_NAMES}
    from dppca.common.testbed import HOSTS
    from tests.fault_injection.processes import process_runtime

    return {"stage": process_runtime, "hosts": HOSTS}


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror}") from error
