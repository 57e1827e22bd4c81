"""Where Nomad is and who we are to it, in one value that the stream and the API share.

Tokens and certificates are replaced while a program runs. So this holds the way to each of them, not their
contents: the stream reads them again at each connect, the API at each request or new connection.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poseidon_reconciler import __version__

USER_AGENT = f"poseidon-reconciler/{__version__}"


def no_token() -> None:
    """For a cluster without access control."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An address with what is needed to be let in.

    Attributes:
        address: `http(s)://host[:port]`, without a path.
        region: None is the agent's own.
        token: gives the ACL token as of now; may raise OSError or ValueError. It is called on other threads too.
        ca_file: trusted certificates; None trusts those of the system.
    """

    address: str
    namespace: str = "default"
    region: str | None = None
    token: Callable[[], str | None] = no_token
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @property
    def base_url(self) -> str:
        return self.address.rstrip("/")

    @property
    def client_certificate(self) -> tuple[str, str] | tuple[()]:
        """The paths of our certificate and its key, in the form that python-nomad takes."""
        if self.cert_file is None or self.key_file is None:
            return ()
        return str(self.cert_file), str(self.key_file)

    @property
    def trusted(self) -> str | bool:
        """What to verify the server by, in the form that requests takes; never False."""
        if self.ca_file is not None:
            return str(self.ca_file)
        system = ssl.get_default_verify_paths()
        return system.cafile or system.capath or True

    def scope(self) -> dict[str, str]:
        """The query parameters that every request carries."""
        region = {"region": self.region} if self.region is not None else {}
        return {"namespace": self.namespace, **region}

    def ssl_context(self) -> ssl.SSLContext | None:
        """A context of the files as they are now; None for plain HTTP.

        Raises:
            OSError: a file cannot be read, or is no certificate or key (ssl.SSLError).
        """
        if not self.address.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context
