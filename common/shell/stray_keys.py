"""An authority's secret key where it should not be: among the credentials of a party.

Whoever has that key can sign a certificate for any party. It belongs on a machine of its own,
switched off otherwise; an archive of all keys, unpacked in one folder, puts it on the daemon's.
"""

from contextlib import suppress
from pathlib import Path

AUTHORITY_KEY = "ca-key.pem"
_MOST_BYTES = 1 << 16  # of a file that may be a key


def find_authority_keys(folder: Path, ca: bytes) -> list[Path]:
    """Return the files of a folder, and of the folders in it, that hold an authority's secret key.

    ``ca`` is the party's authority certificate (PEM): any private key that it belongs to is found,
    whatever its file is called; so is a file with the name that `pki init` gives. Files that this
    process cannot read are left out.
    """
    found = []
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        with suppress(OSError):
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                content = path.read_bytes()
                if b"PRIVATE KEY" in content and (
                    path.name == AUTHORITY_KEY or _belongs(content, ca)
                ):
                    found.append(path)
    return found


def _belongs(key: bytes, ca: bytes) -> bool:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        public = load_pem_private_key(key, password=None).public_key()
        return public == x509.load_pem_x509_certificate(ca).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):  # encrypted, or no key
        return False
