"""A contribution before consent: its rows are read once, and nothing is asked."""

from dataclasses import replace
from pathlib import Path

from dppca.common.kernel.durable.files import digest_file
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study
from dppca.owner.client.calls import agreed_study, connect
from dppca.owner.commands.contribute import ContributionOptions, find_first, open_contribution
from dppca.owner.commands.coverage import find_refusals
from dppca.owner.ledger.database import require_newest
from dppca.owner.ledger.file import read_history
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.release.reading import ShowProgress, read_once
from dppca.owner.render.review import ContributionPreview, Regrown
from dppca.owner.site.agreement import agree
from dppca.owner.site.config import Site
from dppca.owner.site.policy import load_policy


def preview_contribution(
    site: Site,
    options: ContributionOptions,
    *,
    grown_on: Path | None = None,
    progress: ShowProgress,
) -> ContributionPreview:
    """Review a contribution: the rows are read once, as `contribute` would read them.

    Nothing is drawn, charged or sent. ``grown_on`` is the file of rows that the study's trees were
    grown on. Raise `ChainError` if the site is locked, and as `agreed_study`, `choose_data_set`,
    `open_contribution`, `agree` and `open_engine`.
    """
    policy, name, file = load_policy(site), options.study_name, options.study_file
    require_newest(site.ledger)
    with connect(site) as client:
        study, state = agreed_study(site, client, name, study_file=file)
        first = find_first(site, client, study)
    # Rows are opened and counted without the curator, who would see how long it took.
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, options.data_set_name)
    opened = open_contribution(
        site,
        client,
        study,
        state,
        history=history,
        data_set=data_set,
        agreement=agree(site, study, digest=options.digest),
        first=first,
        engine=options.engine,
    )
    with opened.reader() as read:
        reading = read_once(opened.table, study, data_set.key, read, progress=progress)
    seen = opened.offer(reading)
    return replace(
        seen,
        refusals=find_refusals(
            seen.review, state, data_set, history, reading.counted, owner=site.name
        ),
        grown=compare_grown(study, grown_on),
    )


def compare_grown(study: Study, path: Path | None) -> Regrown | None:
    """Grow the trees of a study again, from the file of the rows; None if none were grown."""
    grown = None if study.continues is None else study.continues.grown
    if grown is None:
        return None
    if path is None:
        return Regrown.UNCHECKED
    if digest_file(path) != grown.rows:
        return Regrown.DIFFERENT
    from dppca.common.analysis.rows.refinement import grow_again  # a contribution needs none of it

    trees = grow_again(path, study.table, grown)
    again = Schema.from_document({**study.table.model_dump(mode="json"), "tables": trees})
    return Regrown.SAME if again.digest == study.table.digest else Regrown.DIFFERENT
