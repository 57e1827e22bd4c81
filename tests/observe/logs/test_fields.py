"""No secret, nothing that steers a terminal and nothing endless gets into a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.observe.logs.fields import HIDDEN, MAX_CHARS, clean_fields, trace_lines


def clean(**fields: Any) -> dict[str, Any]:
    return dict(clean_fields(None, "", fields))


@pytest.mark.parametrize(
    "name",
    ["token", "nomad_token", "X-Nomad-Token", "secret_file", "password", "Authorization", "api_key", "payload", "env"],
)
def test_what_is_named_like_a_secret_is_hidden(name: str) -> None:
    assert clean(**{name: "s3cr3t", "environment_id": "10"}) == {name: HIDDEN, "environment_id": "10"}


@pytest.mark.parametrize(
    "text",
    [
        "GET /v1/jobs?token=s3cr3t&namespace=default",
        "headers {'X-Nomad-Token': 's3cr3t'}",
        "Authorization: Bearer s3cr3t",
        "password = s3cr3t",
        '{"api_key":"s3cr3t"}',
    ],
)
def test_a_secret_in_a_text_is_hidden(text: str) -> None:
    shown = clean(detail=text)["detail"]

    assert "s3cr3t" not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize("text", ["refuses the token; it needs read-job", "the token cannot be read: no such file"])
def test_a_text_about_secrets_is_shown(text: str) -> None:
    assert clean(detail=text) == {"detail": text}


def test_of_an_object_only_its_kind_is_shown() -> None:
    shown = clean(one={"Env": {"KEY": "s3cr3t"}}, two=b"s3cr3t", three=ValueError("s3cr3t"), four=["a", {"b": 1}])

    assert shown == {"one": "<dict>", "two": "<bytes>", "three": "<ValueError>", "four": ["a", "<dict>"]}


def test_nothing_is_endless() -> None:
    shown = clean(text="x" * 10**6, members=list(range(10**4)))

    assert len(shown["text"]) == MAX_CHARS + 1
    assert len(shown["members"]) == 50


def test_what_has_no_value_is_left_out() -> None:
    assert clean(cause=None, index=0, empty="") == {"index": 0, "empty": ""}


@given(text=st.text())
def test_any_text_is_printable_and_one_line(text: str) -> None:
    shown = clean(detail=text, several=[text])

    assert shown["detail"].isprintable()
    assert shown["several"] == [shown["detail"]]


def test_an_exception_is_shown_without_the_values_of_variables() -> None:
    try:
        secret = "s3cr3t"
        raise ValueError(f"of {len(secret)} characters")
    except ValueError as error:
        fields = trace_lines(None, "", {"exc_info": (type(error), error, error.__traceback__)})

    assert fields["exception"][-1] == "ValueError: of 6 characters"
    assert not any("s3cr3t" in line for line in fields["exception"] if "secret =" not in line)
