"""`dppca.read_result`: what was verified, by name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dppca
from dppca.common.kernel.attestation.envelopes import write_signed
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.attestation.signatures import describe_authority
from dppca.common.kernel.errors import AlteredError, ArtefactError, ReceiptError, SignatureError
from tests.support.certificates import new_authority
from tests.support.sites import ProvedSite
from tests.support.studies import make_study


def test_a_result_is_read_with_the_names_of_its_columns(proved: ProvedSite) -> None:
    found = dppca.read_result(str(proved.components), ca=proved.ca)
    assert found.vouched_by == describe_authority(proved.ca)
    assert f"all parties were certified by {found.vouched_by}\n" in str(found)
    result = result_from_bytes(proved.components.read_bytes(), proved.study)
    assert found.feature_names == proved.study.table.column_names
    assert found.feature_names_in_.tolist() == list(found.feature_names)
    assert (found.n_components_, found.n_features_in_) == found.components_.shape
    positive = result.eigenvalues[result.eigenvalues > 0].sum()
    np.testing.assert_allclose(
        found.explained_variance_ratio_ * positive, found.explained_variance_
    )
    assert np.array_equal(found.components_, result.vectors)
    assert np.array_equal(found.explained_variance_, result.eigenvalues[: len(result.vectors)])
    assert np.array_equal(found.mean_, result.mean)
    assert found.receipt is not None
    assert found.receipt["rows"] == found.n_rows == result.header.n_rows
    assert found.study.digest == proved.study.digest
    frame = found.to_frame()
    assert list(frame.index) == list(found.feature_names)
    assert np.array_equal(frame["component 1"].to_numpy(), result.vectors[0])
    assert frame.shape == result.vectors.T.shape
    largest = found.largest_loadings(1)[0][0]
    assert abs(largest.loading) == np.abs(result.vectors[0]).max()


def test_rows_are_transformed_as_by_the_pca_of_scikit_learn(proved: ProvedSite) -> None:
    from sklearn.decomposition import PCA

    found = dppca.Components.read(proved.components, ca=proved.ca)
    table = {f"x{i}": [-2.0, 0.3 * i, 1.0] for i in range(4)}
    table |= {"ill": ["yes", "no", "yes"], "colour": ["red", "blue", "green"]}
    coded = dppca.encode(table, proved.study.table)
    assert found.mean_ is not None
    by_hand = [
        [sum((row - found.mean_) * component) for component in found.components_] for row in coded
    ]
    scores = found.transform(table)
    assert scores.shape == (3, found.n_components_)
    np.testing.assert_allclose(scores, by_hand, atol=1e-12)
    same = PCA(found.n_components_)
    same.components_, same.mean_ = found.components_, found.mean_
    same.explained_variance_ = found.explained_variance_
    np.testing.assert_allclose(scores, same.transform(coded), atol=1e-12)
    uncentred = replace(found, mean_=None).transform(table)
    np.testing.assert_allclose(uncentred, coded @ found.components_.T, atol=1e-12)


def test_without_an_authority_nobody_vouches_and_every_sight_of_it_says_so(
    proved: ProvedSite,
) -> None:
    with pytest.warns(dppca.UnvouchedWarning, match=r"NOBODY VOUCHES FOR IT: .* with ca=$"):
        found = dppca.read_result(proved.components)
    with pytest.warns(dppca.UnvouchedWarning, match=r"NOBODY VOUCHES FOR IT: .* with ca=$"):
        assert dppca.verify_file(str(proved.components)).authority is None
    with pytest.warns(dppca.UnvouchedWarning) as told:
        assert dppca.Components.read(proved.components).vouched_by is None
    assert told[0].filename == __file__
    assert found.vouched_by is None
    assert str(found).startswith("CONSISTENT, BUT NOBODY VOUCHES FOR IT: site-test: ")
    assert "CONSISTENT, BUT NOBODY VOUCHES FOR IT" in found._repr_html_()
    simulated = replace(found, receipt=None)
    assert "VOUCHES" not in str(simulated), "a simulation signs nothing"


def test_nothing_is_read_of_a_file_that_does_not_verify(proved: ProvedSite, tmp_path: Path) -> None:
    with pytest.raises(SignatureError):
        dppca.read_result(proved.components, ca=new_authority().pem)
    with pytest.raises(ArtefactError, match="another study"):
        dppca.read_result(proved.components, study=make_study("latent", name="other"))
    with pytest.raises(ArtefactError, match="cannot be read"):
        dppca.read_result(tmp_path / "none.npz")
    (tmp_path / "study.yaml").write_text("name: trial")
    with pytest.raises(ReceiptError, match=r"study\.yaml has no envelope"):
        dppca.read_result(tmp_path / "study.yaml")
    content = bytearray(proved.components.read_bytes())
    place = content.index(b"vectors.npy") + 300
    content[place] ^= 1
    write_signed(tmp_path / "changed.npz", replace(proved.signed, content=bytes(content)))
    for study in (None, proved.study):
        with pytest.raises((AlteredError, ArtefactError, SignatureError)):
            dppca.read_result(tmp_path / "changed.npz", study=study)


def test_a_notebook_shows_loadings_and_obeys_no_name(
    proved: ProvedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dppca.read_result(proved.components, ca=proved.ca)
    apart = "dppca.common.verification.components.find_mixtures"
    monkeypatch.setattr(apart, lambda _: [()] * found.n_components_)
    assert "ill=yes" in found._repr_html_()
    assert "ill=yes" in str(found)
    hostile = make_study("latent", name="latent")
    changed = hostile.table.model_copy(
        update={
            "attributes": tuple(
                each.model_copy(update={"name": f"<script>{each.name}"})
                for each in hostile.table.attributes
            )
        }
    )
    marked = replace(found, study=hostile.model_copy(update={"table": changed}))
    assert "<script>" not in marked._repr_html_()
