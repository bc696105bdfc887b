"""The `AccessStorage` of a log directory: credentials and ACLs in its `__cluster_metadata`.

Two rules:

1. What requests changed stays as they left it: settings neither change nor bring it back.
2. What settings name and the directory never had is stored when it starts, as by
   `kafka-storage format --add-scram`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

from impl.security.acls import AclBinding
from impl.security.scram import CredentialKey, ScramCredential
from impl.storage.metadata_log import MetadataLog, MetadataRecord

_ID_BYTES: Final = 16


class DurableAccess:
    """See the rules above. All of it may raise `StorageError`."""

    def __init__(self, metadata: MetadataLog, clock_ms: Callable[[], int]) -> None:
        self._metadata = metadata
        self._clock_ms = clock_ms
        self._image = metadata.image.access

    def adopt_credentials(
        self, configured: Mapping[CredentialKey, ScramCredential]
    ) -> dict[CredentialKey, ScramCredential]:
        """All that there are, with those of settings that are new."""
        known = self._image.credentials
        new = [_credential_record(*item) for item in configured.items() if item[0] not in known]
        self._append(new)
        return {key: kept for key, kept in known.items() if kept is not None}

    def adopt_acls(self, configured: Iterable[AclBinding]) -> list[AclBinding]:
        """All that there are, with those of settings that are new."""
        self._append(_acl_record(acl) for acl in configured if acl not in self._image.acl_ids)
        return [acl for acl, known in self._image.acl_ids.items() if known is not None]

    def store_credential(self, key: CredentialKey, credential: ScramCredential | None) -> None:
        """A user's new credential, None for none."""
        self._append([_credential_record(key, credential)])

    def store_acls(self, created: Iterable[AclBinding], deleted: Iterable[AclBinding]) -> None:
        """Changes, as one; one that exists is not created again."""
        self._append([*self._creations(created), *self._deletions(deleted)])

    def _creations(self, acls: Iterable[AclBinding]) -> Iterator[MetadataRecord]:
        for acl in dict.fromkeys(acls):
            if self._image.acl_ids.get(acl) is None:
                yield _acl_record(acl)

    def _deletions(self, acls: Iterable[AclBinding]) -> Iterator[MetadataRecord]:
        for acl in dict.fromkeys(acls):
            yield MetadataRecord(
                "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": self._image.acl_ids[acl]}
            )

    def _append(self, records: Iterable[MetadataRecord]) -> None:
        self._metadata.append(records, self._clock_ms())


def _credential_record(key: CredentialKey, credential: ScramCredential | None) -> MetadataRecord:
    name, mechanism = key
    body = {"name": name, "mechanism": mechanism}
    if credential is None:
        return MetadataRecord("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", body)
    return MetadataRecord("USER_SCRAM_CREDENTIAL_RECORD", body | credential._asdict())


def _acl_record(acl: AclBinding) -> MetadataRecord:
    """Its id is a function of the entry: the same calls give the same bytes."""
    body = acl._asdict()
    body["permission_type"] = body.pop("permission")
    body["id"] = blake2b(repr(tuple(acl)).encode(), digest_size=_ID_BYTES).digest()
    return MetadataRecord("ACCESS_CONTROL_ENTRY_RECORD", body)
