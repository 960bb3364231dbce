"""An operator's calls to a running curator; answers are values.

Every call has a deadline and is retried after transient failures, since every call may safely be
repeated. A download goes to a temporary file, is compared with its digest, and only then takes its
final name.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from dppca.common.kernel.attestation.envelopes import write_signed
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.verify import verified_result
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.durable.files import SHARED, replacing, writing
from dppca.common.kernel.errors import ConflictError, NotReadyError, StudyStateError, UploadError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.study import Study, differences, study_from_canonical
from dppca.common.transport.allowance import Allowance
from dppca.common.transport.channels import CuratorConnection, guess_study
from dppca.common.transport.codec import form_to_wire, read_message, state_from_wire
from dppca.common.transport.downloads import receive_result
from dppca.common.transport.hosts import DialTarget
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.operator.responses import (
    ListedStudy,
    Refusals,
    SeenOwner,
    SettledLedger,
    StudyDetails,
)

DOWNLOAD_TIMEOUT_S = 600.0  # of a result, or of a table of synthetic rows


class OperatorClient(CuratorConnection):
    """Calls with an operator's certificate; a context manager that closes the connection."""

    def __init__(
        self,
        address: str,
        credentials: Credentials,
        *,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        dialled = DialTarget(
            address, credentials.ca, Role.OPERATOR, certificate=credentials.certificate
        )
        super().__init__(dialled, credentials, warn=warn)
        self._admin = rpc.AdminStub(self._channel)
        self._federation = rpc.FederationStub(self._channel)

    def create(self, study: Study) -> bool:
        """Create a study; return True if the curator already had this very document.

        Raise `ConflictError`, which lists the different fields, if another document has the name.
        """
        request = pb.CreateStudyRequest(document=study.canonical_bytes())
        try:
            return self._greet(self._admin.CreateStudy, request).already_stored
        except ConflictError as error:
            found = self.show(study.name)
            there = study_from_canonical(found.document)
            came = sum(each.received is not None for each in found.owners)
            fixed = (
                f". The owners of a study do not change: a study of another name costs the {came} "
                "who came to this one once more"
            )
            raise ConflictError(
                f"another study is called {study.name}; it differs in: "
                f"{differences(study, there)}. Nothing was changed: choose another name, or look "
                f"at `dppca-curator study show {study.name}`{fixed if came else ''}"
            ) from error

    def studies(self, *, deadline_s: float | None = None) -> tuple[ListedStudy, ...]:
        """Return all studies, newest first; ``deadline_s`` is for each page of them."""
        pages = self._list_studies(self._federation.ListStudies, deadline_s=deadline_s)
        return tuple(read_message(ListedStudy, each) for page in pages for each in page.studies)

    def show(self, name: str) -> StudyDetails:
        """Return one study with its owners."""
        with guess_study(name, self.studies):
            if self.greeting is None:  # the call itself has none
                self._greet(self._federation.ListStudies, pb.ListStudiesRequest(most=1))
            answer = self._ask(self._admin.ShowStudy, pb.ShowStudyRequest(name=name))
        return read_message(StudyDetails, answer)

    def refusals(self, study: str = "") -> Refusals:
        """Return recent refusals, of one study or of all."""
        answer = self._ask(self._admin.ListRefusals, pb.ListRefusalsRequest(study=study))
        return read_message(Refusals, answer)

    def close(self, name: str) -> StudyState:
        """Stop accepting synthetic rows for a study."""
        with guess_study(name, self.studies):
            answer = self._ask(self._admin.CloseStudy, pb.CloseStudyRequest(name=name))
        return state_from_wire(answer.state)

    def abort(self, name: str, reason: str) -> StudyState:
        """Abort a study that is open or sealed."""
        with guess_study(name, self.studies):
            answer = self._ask(
                self._admin.AbortStudy, pb.AbortStudyRequest(name=name, reason=reason)
            )
        return state_from_wire(answer.state)

    def show_owner(self, name: str) -> SeenOwner:
        """Return the record of an owner's ledger; raise `LimitError` if it has no end."""
        request = pb.ShowOwnerRequest(name=name)

        def fetch(left: float) -> pb.ShowOwnerResponse:
            whole, allowed = pb.ShowOwnerResponse(), Allowance(f"the record of owner {name}")
            # The first page has the ledger, the others parts of the lists.
            for page in allowed.of(self._admin.ShowOwner(request, timeout=left)):
                whole.MergeFrom(page)
            return whole

        return read_message(SeenOwner, self._call(fetch))

    def settle_ledger(self, name: str, reason: str) -> SettledLedger:
        """Set aside the record of an owner's ledger; again, return the last settlement."""
        answer = self._ask(
            self._admin.SettleLedger, pb.SettleLedgerRequest(name=name, reason=reason)
        )
        return read_message(SettledLedger, answer.settlement)

    def download_components(self, name: str, path: Path) -> Result:
        """Write a study's result file and its envelope, once verified; return what it holds.

        Raise `NotReadyError` or `StudyStateError` if the result does not exist yet, or will never
        exist; `UploadError` if the download differs from its announcement; `ArtefactError`,
        `ReceiptError`, `SignatureError` or `AlteredError` if it does not verify
        (`dppca.common.kernel.attestation.verify`).
        """
        study = study_from_canonical(self.show(name).document)
        digest = bytes.fromhex(study.digest)
        answer = self._ask(self._federation.GetResult, pb.GetResultRequest(study_digest=digest))
        state = state_from_wire(answer.state)
        if state is StudyState.OPEN:
            raise NotReadyError(
                f"study {name} still waits for {', '.join(map(one_line, answer.missing))}"
            )
        if state is StudyState.SEALED:
            raise NotReadyError(
                f"study {name} waits to be opened by "
                f"{', '.join(map(one_line, answer.missing_openers))}"
            )
        if state is StudyState.ABORTED:
            raise StudyStateError(f"study {name} was aborted: {one_line(answer.reason)}")
        request = pb.DownloadComponentsRequest(study_digest=digest)
        signed = self._call(
            lambda left: receive_result(
                self._federation.DownloadComponents(request, timeout=left),
                study,
                total_bytes=answer.total_bytes,
                sha256=answer.sha256,
            ),
            deadline_s=DOWNLOAD_TIMEOUT_S,
        )
        result = verified_result(signed, study, ca=self._ca)
        with writing(path):
            write_signed(path, signed, mode=SHARED)
        return result

    def download_synthetic(self, name: str, form: Form, path: Path) -> int:
        """Write all published rows of one form as an Arrow IPC stream; return its bytes.

        Raise `NotReadyError` if nothing has been published.
        """
        digest = bytes.fromhex(self.show(name).summary.digest)
        request = pb.DownloadSyntheticRequest(study_digest=digest, form=form_to_wire(form))
        return self._call(
            lambda left: _save(self._federation.DownloadSynthetic(request, timeout=left), path),
            deadline_s=DOWNLOAD_TIMEOUT_S,
        )


def _save(chunks: Iterable[pb.Chunk], path: Path) -> int:
    """Write chunks to a file that gets its name once all have come."""
    size = 0
    with writing(path), replacing(path, durable=True) as draft, draft.open("wb") as file:
        for chunk in chunks:
            if chunk.offset != size:
                raise UploadError(f"a chunk begins at byte {chunk.offset}; {size} was expected")
            if not chunk.content:
                raise UploadError("a chunk is empty")
            size += file.write(chunk.content)
    return size
