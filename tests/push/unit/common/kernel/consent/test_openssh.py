import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.consent.openssh import MAX_SIGNATURE, find_signing_key, read_line
from dppca.common.kernel.errors import SettingError, SignatureError
from dppca.common.verification.approving import read_armour
from tests.support.examples import examples
from tests.support.people import ANNA, APPLICATION, ORDER, armoured, field, number, someone
from tests.support.requirements import miss

MESSAGE, NAMESPACE = b"DSSEv1 a statement", "consent@dppca"
TOKEN = someone(0, token=True)
POINT = ANNA.key.point


def line_of(*parts: bytes) -> str:
    kind = parts[0].decode()
    return f"{kind} {base64.b64encode(b''.join(map(field, parts))).decode()}"


def test_openssh_and_this_software_read_each_other(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        miss("ssh-keygen", "apt-get install openssh-client")
    key, message = tmp_path / "key", tmp_path / "message"
    message.write_bytes(MESSAGE)
    make = ["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-C", "anna@ward", "-f", str(key)]
    subprocess.run(make, check=True)
    asked = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(message)]
    subprocess.run(asked, check=True, capture_output=True)
    signature = read_armour((tmp_path / "message.sig").read_bytes())
    person = find_signing_key(signature, MESSAGE, namespace=NAMESPACE)
    assert person == read_line(key.with_suffix(".pub").read_text())
    told = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True)
    assert person.fingerprint in told.stdout.decode()
    ours, allowed = tmp_path / "ours", tmp_path / "allowed"
    ours.write_bytes(armoured(ANNA.sign(MESSAGE)))
    allowed.write_text(f"anna {ANNA.key.line}\n")
    verify = ["ssh-keygen", "-Y", "verify", "-n", NAMESPACE, "-I", "anna", "-s", str(ours)]
    subprocess.run([*verify, "-f", str(allowed)], input=MESSAGE, check=True, capture_output=True)


@pytest.mark.parametrize("who", [ANNA, TOKEN])
def test_a_signature_names_the_key_that_made_it(who: object) -> None:
    signature = who.sign(MESSAGE)  # type: ignore[attr-defined]
    assert find_signing_key(signature, MESSAGE, namespace=NAMESPACE) == who.key  # type: ignore[attr-defined]


def test_one_secret_is_one_point_in_every_form() -> None:
    forms = [ANNA.sign(MESSAGE), ANNA.sign(MESSAGE, other_form=True), TOKEN.sign(MESSAGE)]
    assert len(set(forms)) == 3
    points = {find_signing_key(each, MESSAGE, namespace=NAMESPACE).point for each in forms}
    assert points == {POINT}


def test_a_token_that_nobody_touched_signs_nothing() -> None:
    with pytest.raises(SignatureError):
        find_signing_key(TOKEN.sign(MESSAGE, touched=False), MESSAGE, namespace=NAMESPACE)


@pytest.mark.parametrize("namespace", ["file", "git", "roles@dppca", "withdraw@dppca", ""])
def test_a_signature_is_of_one_namespace(namespace: str) -> None:
    with pytest.raises(SignatureError):
        find_signing_key(ANNA.sign(MESSAGE, namespace), MESSAGE, namespace=NAMESPACE)


@settings(max_examples=examples(40))
@given(place=st.integers(0, 1 << 16), change=st.integers(1, 255), token=st.booleans())
def test_no_changed_byte_of_a_signature_makes_another_one(
    place: int, change: int, *, token: bool
) -> None:
    content = bytearray((TOKEN if token else ANNA).sign(MESSAGE))
    content[place % len(content)] ^= change
    with pytest.raises(SignatureError):
        find_signing_key(bytes(content), MESSAGE, namespace=NAMESPACE)


@settings(max_examples=examples(40))
@given(st.binary(max_size=400))
def test_hostile_bytes_are_no_signature(content: bytes) -> None:
    for each in (content, b"SSHSIG\0\0\0\1" + content, ANNA.sign(MESSAGE) + (content or b"\0")):
        with pytest.raises(SignatureError):
            find_signing_key(each, MESSAGE, namespace=NAMESPACE)
    with pytest.raises(SignatureError):
        find_signing_key(b"\0" * (MAX_SIGNATURE + 1), MESSAGE, namespace=NAMESPACE)


@pytest.mark.parametrize(
    "numbers",
    [
        field(b"\0" + bytes(32)) + number(1),
        number(1) + field(b""),
        field(b"\0\0\1") + number(1),
        field(b"\xff" * 33) + number(1),
        number(ORDER) + number(ORDER),
        number(1) + number(1) + b"\0",
    ],
    ids=bytes.hex,
)
def test_numbers_have_one_form_and_lie_below_the_order(numbers: bytes) -> None:
    whole = ANNA.sign(MESSAGE)
    inner = field(b"ecdsa-sha2-nistp256") + field(numbers)
    head = whole[: whole.index(b"sha512") + 6]
    with pytest.raises(SignatureError):
        find_signing_key(head + field(inner), MESSAGE, namespace=NAMESPACE)


def foreign_lines() -> list[str]:
    def line(key: object) -> str:
        public = key.public_key()  # type: ignore[attr-defined]
        return str(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())

    return [
        line(ed25519.Ed25519PrivateKey.generate()),
        line(rsa.generate_private_key(65537, 2048)),
        line(generate_private_key(SECP384R1())),
    ]


@pytest.mark.parametrize(
    "line",
    [
        *foreign_lines(),
        "",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp256 !!!!",
        f"cert-authority {ANNA.key.line}",
        f'command="true" {ANNA.key.line}',
        f"* {ANNA.key.line}",
        f"{ANNA.key.line}\n{TOKEN.key.line}",
        f"{ANNA.key.line} {'x' * 2000}",
        ANNA.key.line.replace("ecdsa-sha2-nistp256 ", "ecdsa-sha2-nistp256-cert-v01@openssh.com "),
        ANNA.key.line.replace("ecdsa-sha2-nistp256 ", "sk-ecdsa-sha2-nistp256@openssh.com "),
        line_of(b"ecdsa-sha2-nistp256", b"nistp256", b"\x02" + POINT[:32]),
        line_of(b"ecdsa-sha2-nistp256", b"nistp256", b"\x06" + POINT),
        line_of(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + POINT[::-1]),
        line_of(b"ecdsa-sha2-nistp256", b"nistp256", b"\0"),
        line_of(b"ecdsa-sha2-nistp256", b"nistp384", b"\x04" + POINT),
        line_of(b"ecdsa-sha2-nistp256", b"nistp256", b"\x04" + POINT, b"more"),
        line_of(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", b"\x04" + POINT, b""),
        line_of(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", b"\x04" + POINT),
    ],
    ids=lambda _: "line",  # keys are new in each process
)
def test_other_keys_and_lines_are_refused(line: str) -> None:
    with pytest.raises(SettingError):
        read_line(line)


def test_a_comment_makes_no_other_person() -> None:
    assert read_line(f"{ANNA.key.line} Anna, ward 3\n") == ANNA.key
    other = line_of(b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", b"\x04" + POINT, b"ssh:b")
    assert read_line(other).point == read_line(TOKEN.key.line).point == POINT
    assert read_line(TOKEN.key.line).application == APPLICATION
