"""Everything is read when it is used, and the server is always verified."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from poseidon_reconciler.nomad.connection import Connection


def test_a_server_is_never_unverified(tmp_path: Path) -> None:
    assert Connection("https://nomad:4646").trusted is not False
    assert Connection("https://nomad:4646", ca_file=tmp_path / "ca.pem").trusted == str(tmp_path / "ca.pem")


def test_scope_has_the_region_only_where_one_is_set() -> None:
    assert Connection("http://n").scope() == {"namespace": "default"}
    assert Connection("http://n", namespace="p", region="eu").scope() == {"namespace": "p", "region": "eu"}


def test_plain_http_needs_no_tls() -> None:
    assert Connection("http://n").ssl_context() is None


def test_tls_files_are_read_each_time(tmp_path: Path) -> None:
    ca, client = trustme.CA(), trustme.CA()
    certificate = client.issue_cert("us@example.org")
    connection = Connection(
        "https://n", ca_file=tmp_path / "ca.pem", cert_file=tmp_path / "cert.pem", key_file=tmp_path / "key.pem"
    )
    with pytest.raises(OSError, match="No such file"):
        connection.ssl_context()

    ca.cert_pem.write_to_path(str(connection.ca_file))
    certificate.cert_chain_pems[0].write_to_path(str(connection.cert_file))
    certificate.private_key_pem.write_to_path(str(connection.key_file))
    context = connection.ssl_context()

    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert connection.client_certificate == (str(connection.cert_file), str(connection.key_file))


def test_a_file_that_is_no_certificate_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing of the kind")

    with pytest.raises(OSError, match=r"NO_CERTIFICATE_OR_CRL_FOUND|no start line|PEM"):
        Connection("https://n", ca_file=tmp_path / "ca.pem").ssl_context()


def test_the_address_may_end_in_a_slash() -> None:
    assert Connection("http://n:4646/").base_url == "http://n:4646"


def test_nothing_shows_the_token() -> None:
    assert "secret" not in repr(Connection("http://n", token=lambda: "secret"))
