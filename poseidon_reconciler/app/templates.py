"""The environments' own jobs as Nomad last gave them, kept over restarts where there is a place for it.

Only `restore-environment` needs them, hours after the job was collected: a reconciler that was restarted in between
would have nothing to restore from.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

import orjson

from poseidon_reconciler.app.private_files import make_private_directory, replace_private_file
from poseidon_reconciler.policy import os_reason

_FILE_NAME: Final = "templates.json"


class TemplateStore(MutableMapping[str, bytes]):
    """Job documents by job id, written to `state_dir` (if any) whenever one changes.

    A write that fails costs no more than what it would have kept: it is tried again with the next change. `problem`
    says why the last one failed; None if it did not.
    """

    def __init__(self, state_dir: Path | None) -> None:
        """Reads what was kept.

        Raises:
            OSError: the directory cannot be used.
            ValueError: the file is not one that this class wrote.
        """
        self.problem: str | None = None
        self._documents: dict[str, bytes] = {}
        self._path = state_dir / _FILE_NAME if state_dir is not None else None
        if self._path is not None:
            make_private_directory(self._path.parent)
            if self._path.exists():
                self._documents = _read(self._path)

    def __getitem__(self, job_id: str) -> bytes:
        return self._documents[job_id]

    def __setitem__(self, job_id: str, document: bytes) -> None:
        if self._documents.get(job_id) != document:
            self._documents[job_id] = document
            self._write()

    def __delitem__(self, job_id: str) -> None:
        del self._documents[job_id]
        self._write()

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            self._replace(self._path)
            self.problem = None
        except OSError as error:
            self.problem = f"{self._path}: {os_reason(error)}"

    def _replace(self, path: Path) -> None:
        encoded = {job_id: base64.b64encode(document).decode() for job_id, document in self._documents.items()}
        replace_private_file(path, orjson.dumps(encoded, option=orjson.OPT_SORT_KEYS))


def _read(path: Path) -> dict[str, bytes]:
    content = path.read_bytes()
    if not content:
        # A machine that lost its power can leave this of a file that was just written.
        return {}
    try:
        encoded = orjson.loads(content)
        return {str(job_id): base64.b64decode(document, validate=True) for job_id, document in encoded.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not a file of templates ({error}); remove it") from None
