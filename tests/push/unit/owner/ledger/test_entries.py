"""Entries say what is asked for and what is stored, as a steward and the ledger read it."""

from dataclasses import replace
from datetime import UTC, datetime

from dppca.common.kernel.privacy.accounting import Price
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.ledger.entries import Commitment, ReleaseKind, ReleaseRequest, commitment
from tests.support.ledgers import account_of, request_of
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

STUDY = make_study("small", name="first")


def test_kinds_of_release_have_the_names_that_ledgers_hold() -> None:
    assert [kind.value for kind in ReleaseKind] == ["contribution", "model"]


def test_a_commitment_holds_the_length_and_the_digests_of_what_is_stored() -> None:
    """Digests of ``abc`` and of nothing, from FIPS 180-2 and its test vectors."""
    made = commitment(
        sequence=7,
        now=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
        release_id=b"r" * 16,
        n_rows=12,
        payload=b"abc",
        receipt=b"",
    )
    assert made == Commitment(
        sequence=7,
        time="2026-01-02T03:04:05+00:00",
        release_id=b"r" * 16,
        n_rows=12,
        payload_bytes=3,
        payload_sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        receipt_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    )


def test_a_request_of_noise_charges_and_claims_what_the_noise_does() -> None:
    noise = calibrate(STUDY)
    made = ReleaseRequest.from_calibration(
        ReleaseKind.MODEL,
        noise,
        account=account_of(),
        study="first",
        request_digest="d" * 64,
        name="a model",
        command="train first --label sex",
        colluders=2,
    )
    assert made.price == Price(noise.epsilon, noise.delta, noise.charge)
    assert (made.mechanism, made.honest, made.colluders) == ("laplace", None, 2)
    assert (made.name, made.command) == ("a model", "train first --label sex")
    assert (made.study, made.request_digest, made.data_set) == ("first", "d" * 64, "survey")
    assert (made.query_sha256, made.engine) == ("", "")


def test_a_request_for_a_share_of_the_noise_names_the_owners_on_whom_it_rests() -> None:
    noise = calibrate(make_masked_study(4, colluders=1).study)
    made = ReleaseRequest.from_calibration(
        ReleaseKind.CONTRIBUTION, noise, account=account_of(), study="s", request_digest="d" * 64
    )
    assert made.honest == 3
    assert (made.name, made.command, made.colluders) == ("", "", None)


def test_a_steward_is_told_what_was_charged_and_how_to_go_on() -> None:
    sent = request_of(STUDY)
    assert (sent.title, sent.makes_file) == ("study first", False)
    assert (sent.name, sent.command, sent.colluders) == ("", "", None)
    assert sent.resume_command == "`dppca-owner contribute first`"
    model = replace(sent, kind=ReleaseKind.MODEL, name="a model", command="train first --yes")
    assert (model.title, model.makes_file) == ("a model of study first", True)
    assert model.resume_command == "`dppca-owner train first --yes`"
    assert replace(model, command="").resume_command.startswith("`dppca-owner train first` with")
