"""``dppca-simulate``: a study on this machine, for planning and for measuring the cost of privacy.

Everything is as in the field (processes, mutual TLS, noise from the operating system) with one
exception: the simulation holds all rows and can compare both sides. The report marks the values
that follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from dppca.common.kernel.documents.names import is_party_name, nearest_name
from dppca.common.kernel.documents.tables import fit_markdown
from dppca.common.kernel.durable.files import read_text
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import (
    KNOWN_FILE,
    CommandGroup,
    Whole,
    emit,
    load_little,
    prints,
    progress,
    run,
    tell,
    telling_interrupts,
    terminable,
    terminal_width,
)
from dppca.common.shell.outputs import output_folder
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.disk import ANOTHER_OUTPUT, ANOTHER_TMPDIR, telling_full_disk

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study
    from dppca.deploy.simulation.containers.topology import Topology
    from dppca.deploy.simulation.experiment import ExperimentRequest
    from dppca.deploy.simulation.holdings import FileReading, Holdings
    from dppca.deploy.simulation.run_report import SimulationReport
    from dppca.owner.site.source_documents import PlaceDocument

_REPORT = "dppca.deploy.simulation.run_report:SimulationReport"
_MOST_GROUPS = 50  # owners that a column of groups may make
_COUNT = Whole(min=0)
_DESCRIPTIONS = (".yaml", ".yml")  # of places of rows; no data file has these names
_Option = Callable[[Callable[..., None]], Callable[..., None]]
_DRAWS = 4  # further draws of the demo's noise: half a second each


def _together(*options: _Option) -> _Option:
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


_row_options = _together(
    click.option(
        "--owner",
        "own",
        multiple=True,
        metavar="NAME=FILE",
        help="An owner and its rows, a data file with a header; once for each. A .yaml says where "
        "they are, as a data set in policy.yaml: source, table or query, key, mapping.",
    ),
    click.option(
        "--rename-owners",
        is_flag=True,
        help="With --owner: the names take the place of the study's owners.",
    ),
    click.option(
        "--data",
        type=KNOWN_FILE,
        help="Or all rows in one file, which are divided: --owners and --split say how.",
    ),
    click.option(
        "--format",
        "formats",
        multiple=True,
        metavar="[OWNER=]YAML",
        help="How a file is written, as `format` in policy.yaml: of one owner, or of all.",
    ),
    click.option(
        "--mapping",
        "mappings",
        multiple=True,
        metavar="[OWNER=]FILE",
        help="How an owner's columns become attributes, as `mapping` in policy.yaml; without a "
        "name for --data.",
    ),
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="[OWNER=]COLUMN",
        help="Column that tells people apart, as `key` in policy.yaml: of one owner, or of all. "
        "--data is then divided by person.",
    ),
    click.option(
        "--owners",
        type=int,
        help="With --data: M, by the study's names if it has as many, else owner-1 ... owner-M.",
    ),
    click.option(
        "--split",
        help="With --data: iid, the default, or by:COLUMN to keep all rows with one value of a "
        "column at one owner; without --owners each value has an owner.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        help="Seed that decides which rows are held out, and who holds which of --data.",
    ),
)
_trust_options = _together(
    click.option(
        "--trust",
        type=click.Choice(["owner", "aggregate"]),
        help="owner: each owner adds all of the noise. aggregate: the curator sees one sum, "
        "with the noise of one. By default as the study file says.",
    ),
    click.option(
        "--colluders", type=_COUNT, help="With aggregate: owners that may help the curator."
    ),
    click.option(
        "--openers",
        type=_COUNT,
        help="With aggregate: number of the first owners that open it.",
    ),
    click.option("--spares", type=_COUNT, help="With aggregate: openers that may never come back."),
)


class _Simulations(CommandGroup):
    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an interrupted one reports that no owner is charged."""
        with telling_interrupts(lambda: "interrupted: no simulation charges anybody"):
            return super().invoke(ctx)


@click.group(cls=_Simulations, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca", message="dppca %(version)s")
def cli() -> None:
    """Simulate a study: several owners and a curator, as real processes on this machine.

    \b
    Example:
      dppca-simulate demo
    """


@cli.command("run")
@click.option("--study", "study_file", type=KNOWN_FILE, required=True, help="Study file (YAML).")
@_row_options
@click.option("--target", help="Binary or categorical attribute to predict; by default none.")
@click.option(
    "--test",
    type=KNOWN_FILE,
    help="With --target: a file of rows on which models are tried; no row is held out then.",
)
@click.option(
    "--rows",
    "n_rows",
    type=click.IntRange(1),
    help="Synthetic rows of all owners together; by default as many as the owners contributed.",
)
@click.option(
    "--refine",
    metavar="NAME",
    help="Run a second study that continues the first, of trees that predict this attribute.",
)
@click.option(
    "--refine-epsilon",
    metavar="DECIMAL",
    help="With --refine: what each owner's second release costs in addition.",
)
@output_folder("--output", required=True, help="Folder for report and plots.")
@click.option("--replace", is_flag=True, help="Write over a trial that is in the folder already.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of runs of the study, with new noise and held-out rows; the report has means and "
    "standard errors.",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the folders of sites and curator, with rows and keys, in the folder `parties`.",
)
@_trust_options
@prints(_REPORT)
def run_command(
    study_file: Path,
    own: tuple[str, ...],
    data: Path | None,
    formats: tuple[str, ...],
    mappings: tuple[str, ...],
    keys: tuple[str, ...],
    owners: int | None,
    split: str | None,
    refine: str | None,
    refine_epsilon: str | None,
    trust: str | None,
    colluders: int | None,
    openers: int | None,
    spares: int | None,
    *,
    rename_owners: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Run a study on your own files: each owner's, or one to divide.

    With --target a fifth of the rows is held out and reaches no owner; with --test no row is held
    out, and models are tried on another file's rows. Files may be of several kinds, each with its
    own --format and --mapping. The seed decides which, and who holds which row of --data; the
    noise is never seeded. With --refine a second study continues the first: decoded rows are made
    of both, and both costs add up.

    \b
    Example:
      dppca-simulate run --study heart.yaml --owner hospital=hospital.csv \\
          --owner clinic=clinic.csv --target smoker --output results/heart
      dppca-simulate run --study nltcs.yaml --data nltcs.csv --owners 3 \\
          --target outside --seed 1 --repeats 5 --output results/nltcs
      dppca-simulate run --study nltcs.yaml --data nltcs.csv --owners 10 --target outside \\
          --seed 1 --trust aggregate --colluders 1 --openers 2 --output results/nltcs-sum
    """
    from dppca.deploy.simulation.aggregation import choose_aggregation, choose_refinement
    from dppca.deploy.simulation.experiment import ExperimentRequest, with_owners

    original = _read_study(study_file)
    readings = _readings(own, formats, mappings)
    rows, names, split = _choose_rows(
        original, own, data, owners, split, rename=rename_owners, readings=readings
    )
    request = ExperimentRequest(
        command="run",
        study=with_owners(original, names),
        aggregation=choose_aggregation(
            original, trust=trust, colluders=colluders, openers=openers, spares=spares
        ),
        refinement=choose_refinement(original, refine, refine_epsilon),
        data=rows,
        text_format=readings[""].text_format,
        readings=_own_readings(readings, data),
        keys=_choose_keys(original, own, keys),
        split=split,
        **asked,
    )
    _emit_report(_simulate(request, as_json=as_json), as_json=as_json)


@cli.command()
@output_folder(
    "--output",
    default=Path("results/demo"),
    show_default=True,
    help="Folder for report and plots.",
)
@click.option("--replace", is_flag=True, help="Write over a trial that is in the folder already.")
@prints(_REPORT)
def demo(output: Path, *, replace: bool, as_json: bool) -> None:
    """Run three owners on public health data; explain the result.

    The people are those of the RAND Health Insurance Experiment.

    \b
    Example:
      dppca-simulate demo --output results/demo
    """
    import tempfile

    from dppca.deploy.simulation.demo import (
        KEY,
        SEED,
        TARGET,
        demo_dictionary,
        demo_study,
        demo_table,
    )
    from dppca.deploy.simulation.experiment import ExperimentRequest
    from dppca.deploy.simulation.holdings import write_table
    from dppca.deploy.simulation.redraws import draw_again
    from dppca.deploy.simulation.story import ask_demo, make_story

    with (
        tempfile.TemporaryDirectory(prefix="dppca-demo-") as folder,
        telling_full_disk(Path(folder), instead=ANOTHER_TMPDIR),
    ):
        data = write_table(demo_table(), Path(folder), stem="rand-hie", like=Path("rows.csv"))
        request = ExperimentRequest(
            command="demo",
            study=demo_study(),
            data=data,
            target=TARGET,
            seed=SEED,
            split="iid",
            output=output,
            replace=replace,
            keys={"": KEY},
            dictionary=demo_dictionary(),
        )
        report = _simulate(request, as_json=as_json)
        text = ""
        if not as_json:
            with terminable(), progress("drawing again", _DRAWS) as bar:
                draws = draw_again(request, count=_DRAWS, on_draw=bar.advance, like=report.utility)
            asked = ask_demo(Path(report.files["components"]))
            text = make_story(report, draws, asked, width=terminal_width())
    emit(report, text, as_json=as_json)


_container_options = _together(
    click.option(
        "--target", help="Attribute for which each owner trains a classifier; by default none."
    ),
    _trust_options,
    click.option(
        "--image",
        envvar="DPPCA_IMAGE",
        show_envvar=True,
        default=DEFAULT_IMAGE,
        show_default=True,
        help="Image of the containers, which `make image` makes.",
    ),
)


@cli.command("compose")
@click.option("--study", "study_file", type=KNOWN_FILE, required=True, help="Study file (YAML).")
@_row_options
@output_folder("--output", required=True, fresh=True, help="New folder to write.")
@_container_options
@prints("dppca.deploy.simulation.containers.folder:ComposedFolder")
def compose_command(study_file: Path, output: Path, *, as_json: bool, **asked: Any) -> None:
    """Write a folder in which `docker compose up` runs a study.

    Every party is a container.

    It takes 2 to 20 owners, each with a file of its own or a part of --data. The folder holds
    docker-compose.yml, .env with what may be changed, the study, each owner's rows and a README,
    which says what a run leaves and where. `dppca-simulate report` then makes the report.

    \b
    Example:
      dppca-simulate compose --study heart.yaml --owner hospital=hospital.csv \\
          --owner clinic=clinic.csv --output heart
      dppca-simulate compose --study nltcs.yaml --data nltcs.csv --owners 4 --output nltcs-4
      cd nltcs-4 && docker compose up && dppca-simulate report .
    """
    from dppca.deploy.simulation.containers.folder import (
        MOST_COMPOSED,
        ComposedFolder,
        ComposedOwner,
    )

    topology, holdings = _write_composed(
        output, _read_study(study_file), most=MOST_COMPOSED, **asked
    )
    study = topology.study
    composed_folder = ComposedFolder(
        study=study.name,
        digest=study.digest if topology.aggregation is None else None,
        folder=str(output),
        owners=[ComposedOwner(name, table.num_rows) for name, table in holdings.owners.items()],
        alarms=[*holdings.alarms],
    )
    rows = ", ".join(f"{each.name} {each.rows:,}" for each in composed_folder.owners)
    lines = [
        *holdings.alarms,
        f"wrote {output}; rows: {rows}",
        f"next: cd {quote(str(output))} && docker compose up && dppca-simulate report .",
    ]
    emit(composed_folder, "\n".join(lines), as_json=as_json)


@cli.command("containers")
@click.option(
    "--study", "study_file", type=KNOWN_FILE, help="Study file (YAML); without it, the demo's."
)
@_row_options
@output_folder(
    "--output",
    default=Path("results/containers"),
    show_default=True,
    fresh=True,
    help="New folder to write.",
)
@_container_options
@click.option("--logs", is_flag=True, help="Show every line of the containers, too.")
@prints(_REPORT)
def containers_command(
    study_file: Path | None, output: Path, *, logs: bool, as_json: bool, **asked: Any
) -> None:
    """Run a study in containers of a Docker engine, and report.

    Every party is a container, as in the file of `compose`, which is written, too. It takes 2 to
    50 owners, and builds the image where it is missing. Afterwards containers, networks and volumes
    are gone. Without --study it runs the demo's study and rows, of three owners or --owners.

    \b
    Example:
      dppca-simulate containers --owners 10
      dppca-simulate containers --study heart.yaml --owner hospital=hospital.csv \\
          --owner clinic=clinic.csv --output heart
    """
    import tempfile

    from dppca.deploy.simulation.containers.answer import report_folder
    from dppca.deploy.simulation.containers.engine import open_client
    from dppca.deploy.simulation.containers.trial import MOST_OWNERS, run_folder

    def said(line: str) -> None:
        if not as_json:
            tell(line)

    with open_client() as client, tempfile.TemporaryDirectory(prefix="dppca-demo-") as place:
        if study_file is None:
            study, more = _of_the_demo(Path(place), asked)
        else:
            study, more = _read_study(study_file), {}
        topology, holdings = _write_composed(output, study, most=MOST_OWNERS, **{**asked, **more})
        for line in holdings.alarms:
            said(line)
        run_folder(client, output, topology, said=said, every=logs)
    _emit_report(report_folder(output, command="containers"), as_json=as_json)


def _of_the_demo(place: Path, asked: Mapping[str, Any]) -> tuple[Study, dict[str, Any]]:
    """Return the demo's study, and its options; refuse what belongs to somebody's own rows."""
    from dppca.deploy.simulation.demo import KEY, SEED, TARGET, demo_study, demo_table
    from dppca.deploy.simulation.holdings import write_table

    given = ("own", "data", "formats", "mappings", "keys", "split", "target")
    if any(asked[name] for name in given):
        raise SettingError("--study is missing: rows and what is said of them belong to a study")
    study = demo_study()
    data = write_table(demo_table(), place, stem="rand-hie", like=Path("rows.csv"))
    owners = len(study.owners) if asked["owners"] is None else asked["owners"]
    more = {"data": data, "owners": owners, "keys": (KEY,), "target": TARGET, "seed": SEED}
    return study, more


def _write_composed(
    output: Path,
    original: Study,
    *,
    most: int,
    own: tuple[str, ...],
    data: Path | None,
    formats: tuple[str, ...],
    mappings: tuple[str, ...],
    keys: tuple[str, ...],
    owners: int | None,
    split: str | None,
    seed: int,
    target: str | None,
    trust: str | None,
    colluders: int | None,
    openers: int | None,
    spares: int | None,
    image: str,
    rename_owners: bool,
) -> tuple[Topology, Holdings]:
    """Write the folder of a study in containers; ``most`` owners are possible."""
    from dppca.deploy.simulation.aggregation import choose_aggregation
    from dppca.deploy.simulation.containers.folder import require_number, write_study
    from dppca.deploy.simulation.containers.topology import Topology
    from dppca.deploy.simulation.experiment import with_owners
    from dppca.deploy.simulation.holdings import find_key

    readings = _readings(own, formats, mappings)
    files, names, split = _choose_rows(
        original, own, data, owners, split, rename=rename_owners, readings=readings
    )
    require_number(names if isinstance(names, int) else len(names), most)
    study = with_owners(original, names)
    aggregation = choose_aggregation(
        original, trust=trust, colluders=colluders, openers=openers, spares=spares
    )
    columns = _choose_keys(original, own, keys)
    if len({find_key(columns, name) for name in study.owners}) > 1:
        raise SettingError("--key: containers have one policy, so all owners need the same column")
    key = next(iter(columns.values()), "")
    topology = Topology(study, target, key=key, image=image, aggregation=aggregation)
    with telling_full_disk(output, instead=ANOTHER_OUTPUT):
        holdings = write_study(
            output,
            topology,
            data=files,
            seed=seed,
            split=split,
            text_format=readings[""].text_format,
            readings=_own_readings(readings, data),
        )
    return topology, holdings


@cli.command("report")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@prints(_REPORT)
def report_command(folder: Path, *, as_json: bool) -> None:
    """Make the report of a FOLDER of `compose` after its run.

    Loadings, plots and, where a target was named, accuracies come to FOLDER/results.

    \b
    Example:
      dppca-simulate report heart
    """
    from dppca.deploy.simulation.containers.answer import report_folder

    _emit_report(report_folder(folder), as_json=as_json)


def main() -> None:
    """Run the command line."""
    load_little()
    run(cli)


def _emit_report(report: SimulationReport, *, as_json: bool) -> None:
    from dppca.deploy.simulation.run_report import make_markdown

    text = fit_markdown(make_markdown(report), width=terminal_width()).rstrip()
    emit(report, f"{text}\n\nAs a page: {report.files['page']}", as_json=as_json)


def _simulate(request: ExperimentRequest, *, as_json: bool) -> SimulationReport:
    from dppca.deploy.simulation.experiment import simulate
    from dppca.deploy.simulation.runner import n_steps, preloading

    n_owners, target = len(request.study.owners), request.target is not None
    refined = request.refinement is not None
    once = n_steps(n_owners, request.aggregation, target=target, refined=refined)
    total = request.repeats * once
    with (
        terminable(),
        preloading(request.target),
        progress("simulating", total, enabled=not as_json) as bar,
    ):
        return simulate(request, on_step=bar.advance)


def _readings(
    own: tuple[str, ...], formats: tuple[str, ...], mappings: tuple[str, ...]
) -> dict[str, FileReading]:
    """Return how the files of owners are read; that of all others has an empty name."""
    from dppca.deploy.simulation.holdings import FileReading
    from dppca.owner.records.mapping_places import MappingPlace
    from dppca.owner.site.file_forms import parse_document
    from dppca.owner.site.format_document import FormatDocument

    owners = [*_owner_files(own)]
    stated = {"--format": _by_owner("--format", formats, owners)}
    stated["--mapping"] = _by_owner("--mapping", mappings, owners)
    if own and "" in stated["--mapping"]:
        raise SettingError("--mapping OWNER=FILE: say whose columns it is for")
    described = _described_places(own)
    found = {
        name: FileReading(place=document.locate(name, folder=file.parent))
        for name, (file, document) in described.items()
    }
    for option, said in stated.items():
        for name in {*said} & {*described}:
            raise SettingError(f"{option} {name}: write it into {described[name][0].name}")
    for name in ["", *owners]:
        if name in described:
            continue
        text = stated["--format"].get(name)
        if text is None and name not in stated["--mapping"] and name:
            continue
        text = text or (stated["--format"].get("") if name else None)
        form = None if text is None else parse_document(text, FormatDocument, "--format").read()
        path = stated["--mapping"].get(name)
        place = None if path is None else MappingPlace(Path(path))
        found[name] = FileReading(mapping=place) if form is None else FileReading(form, place)
    return found


def _described_places(own: tuple[str, ...]) -> dict[str, tuple[Path, PlaceDocument]]:
    """Return the files of owners that say where rows are, and what they say."""
    from dppca.owner.site.file_forms import parse_document
    from dppca.owner.site.source_documents import PlaceDocument

    return {
        name: (file, parse_document(read_text(file), PlaceDocument, file.name))
        for name, file in _owner_files(own).items()
        if file.suffix.lower() in _DESCRIPTIONS
    }


def _choose_keys(study: Study, own: tuple[str, ...], keys: tuple[str, ...]) -> dict[str, str]:
    """Return the column that tells people apart, by owner; that of all others has an empty name."""
    from dppca.common.kernel.schema.units import Unit

    owners = [*_owner_files(own)]
    found = _by_owner("--key", keys, owners)
    for name, (file, document) in _described_places(own).items():
        if document.key is not None and found.setdefault(name, document.key) != document.key:
            raise SettingError(f"--key {name}: {file.name} says {document.key}")
    if study.table.unit is Unit.PERSON and "" not in found:
        lacking = [name for name in owners if name not in found]
        if lacking or not owners:
            whose = f" of {', '.join(lacking)}" if lacking else ""
            raise SettingError(
                f"the study has unit: person: name the column{whose} that tells people apart with "
                "--key COLUMN, or --key OWNER=COLUMN for one owner"
            )
    if any(not column for column in found.values()):
        raise SettingError("--key: name the column, such as --key person_id")
    return found


def _own_readings(readings: Mapping[str, FileReading], data: Path | None) -> dict[str, FileReading]:
    """Return readings of owners, or that of the file of all rows."""
    return {name: each for name, each in readings.items() if name or data is not None}


def _by_owner(option: str, given: tuple[str, ...], owners: list[str]) -> dict[str, str]:
    """Return what an option says of each owner, and of all others by an empty name."""
    found: dict[str, str] = {}
    for each in given:
        name, mark, text = each.partition("=")
        name, text = (name, text) if mark and is_party_name(name) else ("", each)
        if name and name not in owners:
            raise SettingError(f"{option} {name}: no --owner {name}=FILE is given")
        if name in found:
            raise SettingError(f"{option} is given twice for {name or 'all files'}")
        found[name] = text
    return found


def _read_study(file: Path) -> Study:
    from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
    from dppca.deploy.simulation.in_memory import read_study

    return read_study(read_text(file), entropy=OperatingSystemEntropy())


def _choose_rows(
    study: Study,
    own: tuple[str, ...],
    data: Path | None,
    owners: int | None,
    split: str | None,
    *,
    rename: bool,
    readings: Mapping[str, FileReading],
) -> tuple[Path | dict[str, Path], int | list[str], str]:
    """Return rows, names or number of the owners, and the split, from the options."""
    from dppca.deploy.simulation.holdings import count_groups, split_column

    if own:
        if data is not None or owners is not None or split is not None:
            raise SettingError("--owner NAME=FILE is enough: leave out --data, --owners, --split")
        files = _owner_files(own)
        if rename:
            return files, list(files), "own"
        _require_owners(study, files)
        return files, list(study.owners), "own"
    if rename:
        raise SettingError("--rename-owners is for --owner NAME=FILE")
    if data is None:
        raise SettingError(
            "say whose rows these are: --owner NAME=FILE for each owner, or --data FILE with "
            "--owners M"
        )
    split = split or "iid"
    if owners is None:
        column = split_column(split)
        if not column:
            raise SettingError("--data needs --owners M, or --split by:COLUMN")
        owners = count_groups(data, study.table, column, readings[""])
        if owners > _MOST_GROUPS:
            raise SettingError(
                f"--split {split} would make {owners:,} owners, one for each value: say --owners"
            )
    return data, [*study.owners] if owners == len(study.owners) else owners, split


def _require_owners(study: Study, files: Mapping[str, Path]) -> None:
    """Refuse files of owners that the study does not name: it would be another study."""
    strange = [name for name in files if name not in study.owners]
    lacking = [name for name in study.owners if name not in files]
    if strange:
        near = nearest_name(strange[0], lacking)
        meant = "" if near is None else f" (did you mean {near}?)"
        wrong = f"{', '.join(strange)}: no owner of the study{meant}"
    elif lacking:
        wrong = f"no file of {', '.join(lacking)}"
    else:
        return
    raise SettingError(
        f"--owner: {wrong}. The study's owners are {', '.join(study.owners)}; with "
        "--rename-owners the names that you give take their place"
    )


def _owner_files(own: tuple[str, ...]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for each in own:
        name, _, file = each.partition("=")
        if not file or not is_party_name(name):
            raise SettingError(
                "--owner takes NAME=FILE, such as hospital=hospital.csv; a name has 1 to 64 "
                "characters, only a-z 0-9 . _ -, and begins and ends with a letter or digit"
            )
        if name in files:
            raise SettingError(f"--owner {name} is given twice: each owner has one file")
        files[name] = Path(file)
    return files


if __name__ == "__main__":
    main()
