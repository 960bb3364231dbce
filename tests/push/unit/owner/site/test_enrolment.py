import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from dppca.common.kernel.durable import files
from dppca.common.kernel.errors import IdentityError, SettingError
from dppca.common.kernel.identity.tls import (
    check_credentials,
    compute_fingerprint,
    load_credentials,
)
from dppca.curator.certificates.pki import init_authority, show_request, sign_request
from dppca.curator.certificates.revocation import list_certificates
from dppca.owner.site.config import Site
from dppca.owner.site.enrolment import begin_renewal, enrol, finish_renewal, is_cut_off

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    folder = tmp_path / "authority"
    init_authority(folder, name="study group", days=3650, now=NOW)
    return folder


@pytest.fixture
def site(tmp_path: Path, authority: Path) -> Site:
    site = Site(tmp_path / "site", "owner-1", "localhost:1")
    enrol(site.folder, name="owner-1", curator="localhost:1")
    site.ca.write_bytes((authority / "ca.pem").read_bytes())
    site.certificate.write_bytes(signed(authority, site.request, tmp_path / "first.pem"))
    return site


def signed(authority: Path, request: Path, output: Path, days: int = 365) -> bytes:
    content = request.read_bytes()
    name = show_request(content).name
    known = [each for each in list_certificates(authority).certificates if each.name == name]
    renews = known[0].serial if known else None
    sign_request(
        authority, request=content, name=None, output=output, days=days, now=NOW, renews=renews
    )
    return output.read_bytes()


def works(site: Site) -> datetime:
    from dppca.common.kernel.identity.tls import Role

    return check_credentials(load_credentials(site), role=Role.OWNER, name="owner-1", now=NOW)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nMIIB\n"])
@pytest.mark.parametrize(
    ("file", "way_out"),
    [
        ("ca.pem", "the curator's operator hands out ca.pem"),
        ("certificate.pem", "dppca-curator pki sign"),
        ("key.pem", "`dppca-owner renew` makes another"),
    ],
)
def test_a_damaged_file_is_named_with_the_way_to_another(
    content: bytes, file: str, way_out: str, site: Site
) -> None:
    works(site)
    (site.folder / file).write_bytes(content)
    with pytest.raises(IdentityError, match=f"{file} is damaged.*{way_out}"):
        load_credentials(site)


def test_a_damaged_key_is_renewed_as_a_lost_one(
    site: Site, authority: Path, tmp_path: Path
) -> None:
    site.key.write_bytes(site.certificate.read_bytes())
    with pytest.raises(IdentityError, match=r"key\.pem is damaged"):
        works(site)
    certificate = signed(authority, begin_renewal(site).path, tmp_path / "new.pem")
    finish_renewal(site, certificate, now=NOW)
    works(site)


def test_the_old_pair_is_in_use_until_the_new_certificate_is_there(
    site: Site, authority: Path, tmp_path: Path
) -> None:
    before = load_credentials(site)
    request = begin_renewal(site)
    assert load_credentials(site) == before
    assert begin_renewal(site) == request, "asking again makes no other key"
    certificate = signed(authority, request.path, tmp_path / "new.pem", days=700)
    assert finish_renewal(site, certificate, now=NOW) == NOW + timedelta(days=700) == works(site)
    after = load_credentials(site)
    assert after.key != before.key
    assert after.certificate == certificate
    key = x509.load_pem_x509_csr(site.request.read_bytes()).public_key()
    assert compute_fingerprint(key) == request.fingerprint  # type: ignore[arg-type] # made above
    assert load_pem_private_key(after.key, None).public_key() == key
    assert (site.previous / "key.pem").read_bytes() == before.key
    assert (site.previous / "certificate.pem").read_bytes() == before.certificate
    for private in (site.key, site.previous / "key.pem"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert not site.next.exists()


def test_a_certificate_that_is_not_the_next_keys_changes_nothing(
    site: Site, authority: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match="no renewal has begun"):
        finish_renewal(site, site.certificate.read_bytes(), now=NOW)
    request = begin_renewal(site)
    before = {path: path.read_bytes() for path in site.folder.rglob("*.pem")}
    enrol(tmp_path / "other", name="owner-2", curator="localhost:1")
    for wrong in (
        site.certificate.read_bytes(),
        signed(authority, tmp_path / "other/request.pem", tmp_path / "other.pem"),
        b"nonsense",
    ):
        with pytest.raises(IdentityError):
            finish_renewal(site, wrong, now=NOW)
        assert {path: path.read_bytes() for path in site.folder.rglob("*.pem")} == before
    late = signed(authority, request.path, tmp_path / "late.pem", days=1)
    with pytest.raises(IdentityError, match="expired"):
        finish_renewal(site, late, now=NOW + timedelta(days=2))
    assert {path: path.read_bytes() for path in site.folder.rglob("*.pem")} == before


@pytest.mark.parametrize("step", range(9))
def test_a_renewal_that_is_cut_off_anywhere_is_finished_by_the_next(
    step: int, site: Site, authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = begin_renewal(site)
    certificate = signed(authority, request.path, tmp_path / "new.pem")
    old = load_credentials(site)
    left = [step]

    class CutError(Exception):
        pass

    def count() -> None:
        if not left[0]:
            raise CutError
        left[0] -= 1

    real_replace, real_create = Path.replace, files.open_new

    def replace(path: Path, target: Path) -> Path:
        count()
        return real_replace(path, target)

    def create(path: Path, *, mode: int) -> BinaryIO:
        count()
        return real_create(path, mode=mode)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", replace)
        patched.setattr(files, "open_new", create)
        patched.setattr(Path, "unlink", lambda *_, **__: None)  # what is cut off tidies nothing
        with pytest.raises(CutError):
            finish_renewal(site, certificate, now=NOW)
    if is_cut_off(site):
        finish_renewal(site, None, now=NOW)
    else:
        assert load_credentials(site) == old
        finish_renewal(site, certificate, now=NOW)
    assert works(site)
    assert load_credentials(site).certificate == certificate
    assert (site.previous / "key.pem").read_bytes() == old.key
    assert not site.next.exists()
