"""Every deliberate error of DPPCA, in one tree.

The class says what its handler must do; the message says what was wrong, with the value
and the bound, and what to do about it. A message never holds the content of a row.

`SettingError` and `DataError` are Python's ``ValueError`` too: the estimators raise them where
scikit-learn's users, and its own checks, expect one.

Each class carries

``public``
    A constant sentence. It is all that crosses the network; the message stays in the local log.
``exit_code``
    What a command returns to the shell. ``docs/reference/errors.md`` lists every one and a test
    compares the two.

`ExitCode` holds those of commands that have done their work, and whose answer is bad.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Bad answers of `check` and `review` (rows, faults), `selftest` and `verify`."""

    INVALID_ROWS = 14
    BROKEN_PROMISE = 25
    TOO_MANY_FAULTS = 28
    UNVOUCHED = 52


class DppcaError(Exception):
    """Root of the tree; raised only through a subclass."""

    public: ClassVar[str] = "The request failed."
    exit_code: ClassVar[int] = 1


class InputError(DppcaError):
    """The input must be changed before trying again."""

    public = "The request is not valid."
    exit_code = 2


class SettingError(InputError, ValueError):
    """An argument, option or setting is missing or out of range."""

    public = "A setting is not valid."
    exit_code = 10


class StudyError(InputError):
    """A study document is not valid."""

    public = "The study document is not valid."
    exit_code = 11


class SchemaMismatchError(InputError):
    """Two parties hold different study or schema documents."""

    public = "The study documents of the two sides differ."
    exit_code = 12


class DataError(InputError, ValueError):
    """A data file or table cannot be read, is empty, lacks columns, or breaks its bounds."""

    public = "The data cannot be used."
    exit_code = 13


class ArtefactError(InputError):
    """A file that this software wrote is damaged, or is of another kind."""

    public = "The artefact cannot be read."
    exit_code = 15


class ReceiptError(InputError):
    """A file has no envelope, or claims what does not follow from its study's document."""

    public = "The receipt does not hold."
    exit_code = 16


class SignatureError(InputError):
    """A signature is missing or does not verify, or its certificate is not the right party's."""

    public = "A signature does not verify."
    exit_code = 17


class AlteredError(InputError):
    """Bytes of a released file are not those that its receipt names."""

    public = "The file was changed after it was released."
    exit_code = 18


class SealError(InputError):
    """A seal does not open, or holds something else: its owner or the curator changed it."""

    public = "A sealed seed does not open."
    exit_code = 27


class GarbledSumError(InputError):
    """Openings do not fit the uploads: different sets, or a party did not follow the protocol."""

    public = "The openings do not fit the uploads."
    exit_code = 29


class TooFewRowsError(InputError):
    """The noised number of rows is too near to 0: nothing can be divided by it."""

    public = "The study has too few rows for its noise."
    exit_code = 33


class PrivacyError(DppcaError):
    """The request would break a promise; nothing was released and nothing charged."""

    public = "The request would break a privacy promise."
    exit_code = 19


class NotApprovedError(PrivacyError):
    """People of the site have to sign a statement first; nothing was drawn, charged or sent."""

    public = "The release waits for people of the site."
    exit_code = 34


class NoPolicyError(PrivacyError):
    """There is no policy for this data set, so there is no release."""

    public = "This data set has no policy."
    exit_code = 20


class BudgetExceededError(PrivacyError):
    """The lifetime budget of the population does not cover the charge."""

    public = "The privacy budget does not cover the request."
    exit_code = 21


class LabelError(PrivacyError):
    """An artefact computed from raw rows was to leave the site."""

    public = "The artefact may not leave its site."
    exit_code = 22


class RangeError(PrivacyError):
    """Exact integers could leave their range: fewer rows, a coarser grid or a larger epsilon."""

    public = "The study exceeds the range of exact integers."
    exit_code = 23


class TooManyRowsError(RangeError):
    """An owner has more rows than its part of the study's ``max_rows``."""

    public = "The owner has more rows than its part of the study's max_rows."
    exit_code = 37


class ConsentError(PrivacyError):
    """The steward or operator declined, or could not be asked."""

    public = "The contribution was declined."
    exit_code = 24


class OpeningRefusedError(PrivacyError):
    """An opener was asked to open a second set, one below the quorum, or one without votes."""

    public = "The opener refuses this set of uploads."
    exit_code = 26


class LedgerError(DppcaError):
    """The ledger cannot be read or written; no release is possible until it can."""

    public = "The ledger cannot be used."
    exit_code = 30


class LedgerCorruptError(LedgerError):
    """The ledger's chain of hashes does not verify."""

    public = "The ledger does not verify."
    exit_code = 31


class LedgerVersionError(LedgerError):
    """Another version of the software wrote the ledger; it was not touched."""

    public = "The ledger is of another version."
    exit_code = 32


class BusyError(DppcaError):
    """Too many calls or uploads at once; trying again later is safe."""

    public = "Too many calls are running; try again later."
    exit_code = 38


class UnreachableError(DppcaError):
    """No connection, or no answer in time; trying again is safe.

    ``may_pass`` is False if something on the way has refused, and waiting does not help.
    """

    may_pass = True
    public = "The service cannot be reached; try again."
    exit_code = 40


class IdentityError(DppcaError):
    """A certificate is missing, expired, of another authority, or names no party known here."""

    public = "The certificate was not accepted."
    exit_code = 41


class PermissionDeniedError(DppcaError):
    """The certificate is good; its holder may not do this."""

    public = "This party may not do this."
    exit_code = 42


class UnknownStudyError(DppcaError):
    """No such study, or none that this party takes part in."""

    public = "No such study."
    exit_code = 43


class StudyStateError(DppcaError):
    """The study's state does not allow this."""

    public = "The state of the study does not allow this."
    exit_code = 44


class ConflictError(DppcaError):
    """Something different already stands under this name."""

    public = "Something different is already stored under this name."
    exit_code = 45


class UploadError(DppcaError):
    """The bytes are truncated, reordered, or not what their header says."""

    public = "The upload does not match its header."
    exit_code = 46


class LimitError(DppcaError):
    """A size is above its cap."""

    public = "The request is larger than allowed."
    exit_code = 47


class ChainError(DppcaError):
    """An owner's ledger is shorter than the curator has seen it."""

    public = "The ledger chain is shorter than seen before."
    exit_code = 48


class PeerError(DppcaError):
    """The other side failed; its operator finds why in its log."""

    public = "The other side failed."
    exit_code = 49


class NotReadyError(DppcaError):
    """The result is not there yet: wait and ask again."""

    public = "The result is not ready."
    exit_code = 50


class ContradictionError(DppcaError):
    """A result leaves out, or replaces, a contribution that its curator has acknowledged."""

    public = "The result contradicts an acknowledgement."
    exit_code = 51


class StoreError(DppcaError):
    """The curator's store cannot be read or written."""

    public = "The store cannot be used."
    exit_code = 60


class StoreVersionError(StoreError):
    """Another version of the software wrote the store; it was not touched."""

    public = "The store is of another version."
    exit_code = 61


def error_kinds(root: type[DppcaError] = DppcaError) -> Iterator[type[DppcaError]]:
    """Yield a class of the tree and all below it, each before its own."""
    yield root
    for kind in root.__subclasses__():
        yield from error_kinds(kind)
