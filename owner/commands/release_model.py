"""Training of a model that may leave (``dppca-owner train``): DP-SVM on the study's components.

The order is the same as in `contribute`: reading of rows, review, consent and all steps that can
fail come before the release path of `dppca.owner.ledger.path`. The rows are read once, and what is
read is counted and asked about; rows that others write to are read and counted again after a
question. A model that is stored already is written again unchanged; that needs neither rows nor
consent.
"""

import json
import time

from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.study import Study
from dppca.common.verification.models import sign_model
from dppca.owner.client.calls import require_newest_ledger
from dppca.owner.commands.budget_totals import stored_charge
from dppca.owner.engines.addresses import LOCAL
from dppca.owner.ledger.chain import admit_charge
from dppca.owner.ledger.database import StoredRelease, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.path import store_release
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.model import write_model
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import open_table
from dppca.owner.release.contribution import choose_data_set, compute_budget_status
from dppca.owner.release.dialogue import Dialogue, outline_release
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.release.reading import Reading, read_once, request_of_rows, require_rows_of_people
from dppca.owner.release.weights import WeightRequest, WeightRows, plan_release, request_weights
from dppca.owner.render.models import ModelOffer, ReleasedModelDocument
from dppca.owner.site.config import Site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import make_folder, model_path
from dppca.owner.site.policy import DataSet, load_policy


def release_model(
    site: Site,
    study: Study,
    resolved: ResolvedMethod,
    options: TrainOptions,
    dialogue: Dialogue,
) -> ReleasedModelDocument:
    """Make a model that may leave, or find it; return the command's JSON document."""
    started = time.perf_counter()
    policy, history = load_policy(site), read_history(site.ledger)
    data_set = choose_data_set(study, history, policy, options.data_set_name)
    asked = request_weights(
        study,
        data_set=data_set.name,
        target=options.target,
        epsilon=options.epsilon,
        delta=options.delta,
        C=resolved.C,
    )
    path = options.output or model_path(site, study.name, options.target, resolved.method.name)
    # These steps come before the charge: if they fail, nothing was spent.
    signer = make_signer(load_credentials(site))
    make_folder(path.parent)
    components = kept_result(site, study)
    already_stored = decide_step(history, asked.digest) is NextStep.SEND
    if already_stored:
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            stored, counts = ledger.stored(asked.digest), None
    else:
        stored, counts = _release(site, asked, data_set, components, options, dialogue)
    receipt, envelope = json.loads(stored.receipt), components[0].envelope
    write_model(sign_model(path.name, stored.payload, receipt, envelope, signer), path)
    return ReleasedModelDocument(
        **stored_charge(lambda: policy, read_history(site.ledger), stored),
        label=Label(receipt["label"]),
        receipt=receipt,
        already_stored=already_stored,
        coded_by_rule=None if counts is None else counts.without_values(),
        target=receipt["target"],
        method=receipt["method"],
        kernel=resolved.kernel,
        model=path,
        n_components=receipt["n_components"],
        split=receipt["split"],
        seconds=round(time.perf_counter() - started, 6),
    )


def _release(
    site: Site,
    asked: WeightRequest,
    data_set: DataSet,
    components: tuple[Result, bytes],
    options: TrainOptions,
    dialogue: Dialogue,
) -> tuple[StoredRelease, CheckReport]:
    """Review, ask, charge, draw and store; return the release and the values coded by rule."""
    require_newest_ledger(site)
    history, study = read_history(site.ledger), asked.study
    table = open_table(data_set.source, study.table)
    result, digest = components
    release = plan_release(
        asked, result, n_rows=table.n_rows, components_sha256=digest.hex(), owner=site.name
    )
    request = release.request(account=data_set.account, command=options.command(data_set.name))
    request = request_of_rows(request, table, LOCAL)
    admit_charge(history, request)
    status, step = compute_budget_status(history, request), decide_step(history, asked.digest)
    outline = outline_release(
        study,
        request,
        status,
        step,
        look="look at `dppca-owner budget`",
        numbers=release.weights.n_machines * release.weights.D,
        n_rows=table.n_rows,
        is_live=table.source.is_live,
    )
    dialogue.begin(outline)

    def read() -> Reading[WeightRows]:
        reading = read_once(table, study, data_set.key, release.read, progress=dialogue.progress)
        require_rows_of_people(reading.counted)
        return reading

    reading = read()
    offer = ModelOffer(release, request, status, step, outline, reading.rows, reading.counted)
    for line in offer.alarms:
        dialogue.tell(line)
    if dialogue.require_consent(offer) and table.source.is_live:
        reading = read()  # a release is of one moment, after consent
    prepared = release.prepare(reading.rows)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        stored = store_release(
            ledger, request, release, prepared, entropy=OperatingSystemEntropy(), clock=utc_now
        )
    return stored, reading.counted
