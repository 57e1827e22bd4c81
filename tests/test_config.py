"""Layers of settings, and mistakes that are all told at once, each with its place."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from poseidon_reconciler.config import ConfigError, NomadSettings, Settings, load
from poseidon_reconciler.policy import PacePolicy, Policy, PoolPolicy, Section

EXAMPLE = Path(__file__).parents[1] / "config" / "reconciler.yaml"
SECRET = "b7a1-very-secret"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Messages name the file as it was given, so the tests give it without a directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(content: str | bytes) -> Path:
    path = Path("r.yaml")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def outcome(content: str | bytes | None, environ: dict[str, str] | None = None) -> list[str]:
    """The problems, each of them one line; none where there are settings."""
    try:
        load(None if content is None else written(content), environ or {})
        return []
    except ConfigError as error:
        refused = error
    assert refused.problems
    assert all(line.isprintable() for line in refused.problems)
    assert str(refused) == "\n".join(refused.problems)
    return list(refused.problems)


# --- what is accepted ---


def test_without_a_file_everything_has_its_default() -> None:
    assert load(None, {}) == Settings()
    assert Settings().policy() == Policy()
    assert Settings().nomad.model_dump() == {
        "address": "http://127.0.0.1:4646",
        "namespace": "default",
        "resync_interval_s": 300,
        "region": None,
        "token_file": None,
        "ca_file": None,
        "cert_file": None,
        "key_file": None,
        "token": None,
    }


@pytest.mark.parametrize(
    "content",
    ["", "\ufeff", "# nothing\n", "---\n", "null", "pool:\npace:\nnomad:\nenvironments:\nstate_dir:\n"],
)
def test_an_empty_file_or_section_means_the_defaults(content: str) -> None:
    assert load(written(content), {}) == Settings()


def test_the_commented_file_has_exactly_the_defaults() -> None:
    assert load(EXAMPLE, {}) == Settings()


def test_the_commented_file_has_every_key_but_the_token() -> None:
    keys = {section: set(content or {}) for section, content in yaml.safe_load(EXAMPLE.read_text()).items()}

    def aliases(section: type[Section]) -> set[str]:
        return {str(field.alias) for field in section.model_fields.values()}

    assert set(keys) == aliases(Settings)
    assert keys["nomad"] == aliases(NomadSettings) - {"token"}
    assert keys["pool"] == aliases(PoolPolicy)
    assert keys["pace"] == aliases(PacePolicy)


def test_the_example_environments_of_the_commented_file_are_valid() -> None:
    example = re.sub(r"^#( +\S.*)$", r"\1", EXAMPLE.read_text().split("Such as\n")[1], flags=re.MULTILINE)
    entries = example.split("environments: {}")[0]
    environments = load(written("environments:\n" + entries), {}).environments
    assert environments["10"] == PoolPolicy(disconnect_policy="exactly", stop_after_s=60.0)
    assert environments["11"] == PoolPolicy(surplus="trim")


@pytest.mark.parametrize(
    ("content", "key", "value"),
    [
        ("nomad: {address: 'https://nomad.example:4646/'}", "nomad.address", "https://nomad.example:4646"),
        ("nomad: {address: 'HTTP://[::1]:4646'}", "nomad.address", "http://[::1]:4646"),
        ("nomad: {address: 'http://nomad'}", "nomad.address", "http://nomad"),
        ("nomad: {address: 'http://10.0.0.1:1'}", "nomad.address", "http://10.0.0.1:1"),
        ("nomad: {namespace: poseidon-1}", "nomad.namespace", "poseidon-1"),
        ("nomad: {namespace: 7}", "nomad.namespace", "7"),
        ("nomad: {region: eu.west_1}", "nomad.region", "eu.west_1"),
        ("nomad: {region: 2024-01-01}", "nomad.region", "2024-01-01"),
        ("nomad: {region: ''}", "nomad.region", None),
        ("nomad: {resync_interval: 90s}", "nomad.resync_interval_s", 90),
        ("pool: {lost_grace: 0}", "pool.lost_grace_s", 0),
        ("pool: {lost_grace: '250ms'}", "pool.lost_grace_s", 0.25),
        ("pool: {surge: '2'}", "pool.surge", 2),
        ("pool: {protect: off}", "pool.protect", False),
        ("pool: {protect: True}", "pool.protect", True),
        ("pool: {stop_after: 1m}", "pool.stop_after_s", 60),
        ("pool: {stop_after: ~}", "pool.stop_after_s", None),
        ("pace: {storm_share: .5}", "pace.storm_share", 0.5),
        ("pace: {storm_share: 1}", "pace.storm_share", 1),
        ("pace: {max_creates_per_second: 1e-1}", "pace.max_creates_per_second", 0.1),
        ("state_dir: /var/lib/reconciler", "state_dir", Path("/var/lib/reconciler")),
    ],
)
def test_a_value_of_the_file_is_read(content: str, key: str, value: object) -> None:
    found: Any = load(written(content), {})
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value


def test_an_environment_overrides_single_keys_of_the_pool() -> None:
    settings = load(
        written(
            """
            pool: {surge: 2, lost_grace: 5s}
            environments:
              10: {disconnect_policy: exactly, stop_after: 60s}
              "11": {surge: 0}
              12:
              0: {}
            """
        ),
        {},
    )
    policy = settings.policy()
    assert policy.for_environment("10") == PoolPolicy(
        surge=2, lost_grace_s=5.0, disconnect_policy="exactly", stop_after_s=60.0
    )
    assert policy.for_environment("11") == PoolPolicy(surge=0, lost_grace_s=5.0)
    for other in ("12", "0", "99"):
        assert policy.for_environment(other) == PoolPolicy(surge=2, lost_grace_s=5.0)


def test_settings_built_in_code_are_merged_alike() -> None:
    settings = Settings(pool=PoolPolicy(surge=2), environments={"10": PoolPolicy(protect=False)})
    assert settings.policy().for_environment("10") == PoolPolicy(surge=2, protect=False)


def test_anchors_aliases_and_merges_are_followed() -> None:
    content = """
    environments:
      1: &strict {disconnect_policy: exactly, surge: 1}
      2: *strict
      3: {<<: *strict, surge: 3}
      4: {<<: [{surge: 4}, *strict]}
    """
    environments = load(written(content), {}).environments
    assert environments["1"] == environments["2"] == PoolPolicy(disconnect_policy="exactly", surge=1)
    assert [environments[key].surge for key in "1234"] == [1, 1, 3, 4]
    assert {environments[key].disconnect_policy for key in "1234"} == {"exactly"}


# --- layers ---


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("NOMAD_ADDR", "http://nomad:4646", "address", "http://nomad:4646"),
        ("NOMAD_NAMESPACE", "poseidon", "namespace", "poseidon"),
        ("NOMAD_REGION", "eu", "region", "eu"),
        ("NOMAD_CACERT", "ca.pem", "ca_file", Path("ca.pem")),
        ("RECONCILER_NOMAD__ADDRESS", "http://nomad:1", "address", "http://nomad:1"),
        ("RECONCILER_NOMAD__RESYNC_INTERVAL", "1m", "resync_interval_s", 60),
        ("RECONCILER_NOMAD__CA_FILE", "ca.pem", "ca_file", Path("ca.pem")),
    ],
)
def test_a_variable_sets_a_value(name: str, text: str, key: str, value: object) -> None:
    assert getattr(load(None, {name: text}, read_files=False).nomad, key) == value


def test_our_variable_beats_that_of_nomad_which_beats_the_file() -> None:
    path = written("nomad: {namespace: file, region: file, address: http://file}")
    environ = {"NOMAD_NAMESPACE": "nomad", "NOMAD_REGION": "nomad", "RECONCILER_NOMAD__REGION": "ours"}
    nomad = load(path, environ).nomad
    assert (nomad.address, nomad.namespace, nomad.region) == ("http://file", "nomad", "ours")


def test_a_variable_overrides_one_key_of_one_environment() -> None:
    path = written("pool: {surge: 1}\nenvironments: {10: {surge: 2, settle: 1s}}")
    environ = {
        "RECONCILER_POOL__LOST_GRACE": "5s",
        "RECONCILER_ENVIRONMENTS__10__SURGE": "3",
        "RECONCILER_ENVIRONMENTS__11__DISCONNECT_POLICY": "exactly",
        "RECONCILER_STATE_DIR": "/state",
    }
    settings = load(path, environ)
    assert settings.environments["10"] == PoolPolicy(surge=3, settle_s=1.0, lost_grace_s=5.0)
    assert settings.environments["11"] == PoolPolicy(surge=1, disconnect_policy="exactly", lost_grace_s=5.0)
    assert settings.state_dir == Path("/state")


def test_an_empty_variable_is_not_set() -> None:
    path = written("nomad: {address: http://file, region: eu}\npool: {surge: 1}")
    environ = {
        "NOMAD_ADDR": "",
        "NOMAD_TOKEN": " ",
        "RECONCILER_NOMAD__REGION": "",
        "RECONCILER_POOL__SURGE": "",
    }
    assert load(path, environ) == load(path, {})


def test_a_wrong_value_that_is_overridden_does_no_harm() -> None:
    assert load(written("pool: {surge: x}"), {"RECONCILER_POOL__SURGE": "1"}).pool.surge == 1


def test_other_variables_are_left_alone() -> None:
    assert load(None, {"NOMAD_SKIP_VERIFY": "1", "reconciler_x": "1", "XRECONCILER_Y": "1"}) == Settings()


# --- the token and the other files ---


def test_the_token_file_is_read_and_read_again() -> None:
    Path("token").write_text(f" {SECRET}\n")
    nomad = load(written("nomad: {token_file: token}"), {}).nomad
    assert nomad.token is not None
    assert nomad.token.get_secret_value() == SECRET
    Path("token").write_text("another")
    token = nomad.read_token()
    assert token is not None
    assert token.get_secret_value() == "another"
    Path("token").unlink()
    with pytest.raises(ConfigError, match=r"^nomad\.token_file: 'token': no such file or directory$"):
        nomad.read_token()


@pytest.mark.parametrize(
    ("environ", "token"),
    [
        ({}, "in-file"),
        ({"NOMAD_TOKEN": "nomad"}, "nomad"),
        ({"RECONCILER_NOMAD__TOKEN": "ours"}, "ours"),
        ({"NOMAD_TOKEN": "nomad", "RECONCILER_NOMAD__TOKEN": "ours"}, "ours"),
        ({"NOMAD_TOKEN": "nomad", "RECONCILER_NOMAD__TOKEN_FILE": "other"}, "in-other"),
    ],
)
def test_the_highest_layer_says_which_token(environ: dict[str, str], token: str) -> None:
    Path("token").write_text("in-file")
    Path("other").write_text("in-other")
    nomad = load(written("nomad: {token_file: token}"), environ).nomad
    for found in (nomad.token, nomad.read_token()):
        assert found is not None
        assert found.get_secret_value() == token


def test_no_representation_shows_the_token() -> None:
    Path("token").write_text(SECRET)
    for settings in (load(None, {"NOMAD_TOKEN": SECRET}), load(written("nomad: {token_file: token}"), {})):
        assert settings.nomad.token is not None
        assert settings.nomad.token.get_secret_value() == SECRET
        shown = (repr(settings), str(settings), settings.model_dump_json(), str(settings.model_dump()))
        assert all(SECRET not in text for text in (*shown, repr(settings.nomad), str(settings.nomad)))


@pytest.mark.parametrize(
    ("content", "environ"),
    [
        (None, {"NOMAD_TOKEN": f"{SECRET} x"}),
        (None, {"RECONCILER_NOMAD__TOKEN": f"{SECRET}\nx"}),
        (None, {"RECONCILER_NOMAD__TOKEN": f"{SECRET}é"}),
        (None, {"NOMAD_TOKEN": SECRET * 400}),
        (None, {"RECONCILER_NOMAD__TOKKEN": SECRET}),
        (None, {"NOMAD_ADDR": f"http://me:{SECRET}@nomad:4646"}),
        (None, {"NOMAD_ADDR": f"me:{SECRET}@nomad:4646"}),
        (None, {"NOMAD_ADDR": f"http://nomad:4646/?token={SECRET}"}),
        (f"nomad: {{token: {SECRET}}}", {}),
        (f"nomad: {{tokken: {SECRET}}}", {}),
        (f"nomad: {SECRET}", {}),
        (f"nomad: {{token: [{SECRET}", {}),
        ("nomad: {token_file: token}", {}),
    ],
)
def test_no_problem_shows_a_secret(content: str | None, environ: dict[str, str]) -> None:
    Path("token").write_text(f"{SECRET} {SECRET}")
    assert all(SECRET not in line for line in outcome(content, environ))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("webhooks:\n  a: {events: loss}", "r.yaml:2: webhooks.a.events: needs url beside it"),
        ("webhooks:\n  a:\n    url:", "r.yaml:3: webhooks.a.url: has no value"),
        ("webhooks:\n  a:\n  b:\n    url: https://h/", "r.yaml:2: webhooks.a: needs a url"),
        ("webhooks: {a: {}}", "r.yaml:1: webhooks.a: needs a url"),
    ],
)
def test_a_receiver_without_its_url(content: str, line: str) -> None:
    assert outcome(content) == [line]


def test_a_receiver_without_its_url_in_variables() -> None:
    variable = "RECONCILER_WEBHOOKS__A__EVENTS"
    assert outcome(None, {variable: "loss"}) == [f"{variable}: needs url beside it"]


@pytest.mark.parametrize("section", ["nomad", "http", "poseidon"])
def test_a_pipe_is_not_waited_for(section: str) -> None:
    os.mkfifo("pipe")
    problem = "'pipe': is a pipe, and must be a file that can be read again"
    assert outcome(f"{section}: {{token_file: pipe}}") == [f"r.yaml:1: {section}.token_file: {problem}"]


def test_files_that_the_settings_name_must_be_there() -> None:
    Path("empty").touch()
    content = "nomad:\n  ca_file: ca.pem\n  cert_file: .\n  key_file: empty\n  token_file: empty\n"
    assert outcome(content) == [
        "r.yaml:2: nomad.ca_file: 'ca.pem': no such file or directory",
        "r.yaml:3: nomad.cert_file: '.': is a directory",
        "r.yaml:5: nomad.token_file: 'empty': not a token, which is one word without special characters",
    ]
    assert load(written(content), {}, read_files=False).nomad.ca_file == Path("ca.pem")


# --- what is refused ---


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("pool:\n  lost_grace: ten", ["2: pool.lost_grace: 'ten' is not a duration such as 10s or 5m"]),
        ("pool: {lost_grace: 10}", ["1: pool.lost_grace: '10' has no unit: add one, as in 10s or 5m"]),
        ("pool: {settle: .inf}", ["1: pool.settle: '.inf' is not a duration such as 10s or 5m"]),
        ("pool: {start_deadline: 0}", ["1: pool.start_deadline: '0' must be more than 0"]),
        ("pool: {stop_after: 0}", ["1: pool.stop_after: '0' must be more than 0"]),
        ("pool: {lost_gracee: 10s}", ["1: pool.lost_gracee: unknown key (did you mean lost_grace?)"]),
        ("pool: {lost_grace_s: 10s}", ["1: pool.lost_grace_s: unknown key (did you mean lost_grace?)"]),
        ("nomad: {tokn: x}", ["1: nomad.tokn: unknown key"]),
        ("poool: {surge: 1}", ["1: poool: unknown key (did you mean pool?)"]),
        ("xyz:\n  - a", ["1: xyz: unknown key"]),
        ("pool: {surge: -1}", ["1: pool.surge: '-1' must be at least 0"]),
        ("pool: {surge: 1.5}", ["1: pool.surge: '1.5' is not a whole number"]),
        (f"pool: {{surge: {'9' * 5000}}}", [f"1: pool.surge: '{'9' * 59}…' is too large a number"]),
        ("pool: {surge: }", ["1: pool.surge: has no value"]),
        ("pool: {protect: maybe}", ["1: pool.protect: 'maybe' is neither true nor false"]),
        ("pool: {surplus: drop}", ["1: pool.surplus: 'drop' is not one of 'report' or 'trim'"]),
        ("pool: {surplus: [trim]}", ["1: pool.surplus: must be a single value, not a list"]),
        ("pool: {surplus: {trim: 1}}", ["1: pool.surplus: must be a single value, not a mapping"]),
        ("pool: 5", ["1: pool: must be a mapping of keys to values, not a single value"]),
        ("pool: [5]", ["1: pool: must be a mapping of keys to values, not a list"]),
        ("pace: {storm_share: 20%}", ["1: pace.storm_share: '20%' is not a number"]),
        ("pace: {storm_share: 0}", ["1: pace.storm_share: '0' must be more than 0"]),
        ("pace: {storm_share: 1.1}", ["1: pace.storm_share: '1.1' must be at most 1"]),
        (
            "pace: {max_creates_per_second: inf}",
            ["1: pace.max_creates_per_second: 'inf' is not a finite number"],
        ),
        ("pace: {max_starting_per_node: 0}", ["1: pace.max_starting_per_node: '0' must be at least 1"]),
        ("nomad: {namespace: }", ["1: nomad.namespace: has no value"]),
        (
            "nomad: {namespace: '*'}",
            ["1: nomad.namespace: '*' is not the name of one namespace (letters, digits and hyphens)"],
        ),
        ("nomad: {region: a b}", ["1: nomad.region: 'a b' is not the name of a region"]),
        (
            'nomad: {region: "a\\nb"}',
            ["1: nomad.region: has a line break or another character that cannot be printed"],
        ),
        (
            'nomad: {ca_file: "a\\0b"}',
            ["1: nomad.ca_file: has a line break or another character that cannot be printed"],
        ),
        ("nomad: {cert_file: r.yaml}", ["1: nomad.cert_file: needs key_file beside it"]),
        ("nomad: {key_file: r.yaml}", ["1: nomad.key_file: needs cert_file beside it"]),
        (
            "nomad: {token: x}",
            ["1: nomad.token: a token does not belong in this file: use token_file or NOMAD_TOKEN"],
        ),
        (
            "environments: {x: {}}",
            ["1: environments.x: 'x' is not an environment's id, a decimal number such as 10"],
        ),
        (
            "environments: {-1: {}, +1: {}, 010: {}, 1.0: {}, 0x1: {}}",
            [
                f"1: environments.{key}: '{key}' is not an environment's id, a decimal number such as 10"
                for key in ("-1", "+1", "010", "1.0", "0x1")
            ],
        ),
        (
            "environments:\n  10:\n    surge: x\n    surgee: 1",
            [
                "3: environments.10.surge: 'x' is not a whole number",
                "4: environments.10.surgee: unknown key (did you mean surge?)",
            ],
        ),
        (
            "environments: {10: exactly}",
            ["1: environments.10: must be a mapping of keys to values, not a single value"],
        ),
        ("pool:\n  surge: 1\n  surge: 1", ["3: pool.surge: set twice, first on line 2"]),
        ("pool: {}\npool: {}", ["2: pool: set twice, first on line 1"]),
        ("environments:\n  10: {}\n  '10': {}", ["3: environments.10: set twice, first on line 2"]),
        ("? [a]\n: 1", ["1: a key must be a single word, not a list"]),
        ("[pool]", ["1: must be a mapping of keys to values, not a list"]),
        ("pool", ["1: must be a mapping of keys to values, not a single value"]),
        ('? "a\\nb"\n: 1', [r"1: 'a\nb': unknown key"]),
        ("pool: {<<: 5}", ["1: pool: must be a mapping of keys to values, not a single value"]),
        ("pool: &p {surge: *p}", ["1: pool.surge: must be a single value, not a mapping"]),
        (
            "pool: &p\n  surge: x\nenvironments: {1: *p, 2: {<<: *p}}",
            ["2: pool.surge: 'x' is not a whole number"],
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(content: str, lines: list[str]) -> None:
    assert outcome(content) == [f"r.yaml:{line}" for line in lines]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("a: [b\nc: d", "2:2: while parsing a flow sequence, expected ',' or ']', but got ':'"),
        (
            "pool:\n\tsurge: 1",
            r"2:1: while scanning for the next token, found character '\t' that cannot start any token",
        ),
        ("a: *b", "1:4: found undefined alias 'b'"),
        ("a: b\n---\nc: d", "2:1: expected a single document in the stream, but found another document"),
        (
            "a: !!python/object/apply:os.system [x]",
            "1:4: the tag '!!python/object/apply:os.system' is not allowed",
        ),
        ("a: [!!python/name:os.system '']", "1:5: the tag '!!python/name:os.system' is not allowed"),
        ("pool: !mine {}", "1:7: the tag '!mine' is not allowed"),
        ('a: "\\UFFFFFFFF"', "1:7: a number is too large"),
        (f"%YAML 1.{'9' * 5000}\n---\n", "1:9: a number is too large"),
        ("a: b\nc: \x07", "2: U+0007 is not allowed in YAML"),
        (b"a: b\nc: \xff", "2: is not UTF-8 text"),
        ("a: 1".encode("utf-16"), "1: is not UTF-8 text"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_place(content: str | bytes, line: str) -> None:
    assert outcome(content) == [f"r.yaml:{line}"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing.yaml", "missing.yaml: no such file or directory"),
        (".", ".: is a directory"),
        ("r.yaml/x", "r.yaml/x: not a directory"),
        ("a\0b", r"'a\x00b': embedded null byte"),
        ("x" * 251, f"'{'x' * 59}…': no such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read(path: str, problem: str) -> None:
    written("")
    with pytest.raises(ConfigError) as caught:
        load(Path(path), {})
    assert caught.value.problems == (problem,)


def test_a_file_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigError, match=r"^r\.yaml: permission denied$"):
        load(Path("r.yaml"), {})


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("127.0.0.1:4646", "'127.0.0.1:4646' is not an address such as http://127.0.0.1:4646"),
        ("nomad", "'nomad' is not an address such as http://127.0.0.1:4646"),
        ("ftp://nomad", "'ftp://nomad' is not an address such as http://127.0.0.1:4646"),
        ("http://", "'http://' is not an address such as http://127.0.0.1:4646"),
        ("http://:4646", "'http://:4646' is not an address such as http://127.0.0.1:4646"),
        ("http://nomad:0", "'http://nomad:0' is not an address such as http://127.0.0.1:4646"),
        ("http://nomad:65536", "'http://nomad:65536' is not an address such as http://127.0.0.1:4646"),
        ("http://nomad:x", "'http://nomad:x' is not an address such as http://127.0.0.1:4646"),
        ("http://no mad", "'http://no mad' is not an address such as http://127.0.0.1:4646"),
        ("http://[::1", "'http://[::1' is not an address such as http://127.0.0.1:4646"),
        (
            "http://nomad/ui",
            "'http://nomad/ui' must end after the port and hold no user: http(s)://host:port",
        ),
        ("http://me@nomad", "the address must end after the port and hold no user: http(s)://host:port"),
        ("http://nomad?x", "the address must end after the port and hold no user: http(s)://host:port"),
        (
            "unix:///run/nomad.sock",
            "'unix:///run/nomad.sock' is a Unix socket, which is not supported: give http://host:port",
        ),
    ],
)
def test_an_address_that_is_none(address: str, what: str) -> None:
    assert outcome(None, {"NOMAD_ADDR": address}) == [f"NOMAD_ADDR: {what}"]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("RECONCILER_POOL__LOST_GRACE", "ten", "'ten' is not a duration such as 10s or 5m"),
        (
            "RECONCILER_POOL__LOST_GRACEE",
            "1s",
            "unknown variable (did you mean RECONCILER_POOL__LOST_GRACE?)",
        ),
        ("RECONCILER_POOL_SURGE", "1", "unknown variable (did you mean RECONCILER_POOL__SURGE?)"),
        ("RECONCILER_Pool__Surge", "1", "unknown variable"),
        ("RECONCILER_POOL", "{surge: 1}", "unknown variable"),
        ("RECONCILER_", "", "unknown variable"),
        ("RECONCILER_SERVICE_HOST", "", "unknown variable"),
        ("RECONCILER_STATE_DIR__X", "1", "unknown variable (did you mean RECONCILER_STATE_DIR?)"),
        ("RECONCILER_ENVIRONMENTS__10", "1", "unknown variable"),
        (
            "RECONCILER_ENVIRONMENTS__10__SURG",
            "1",
            "unknown variable (did you mean RECONCILER_ENVIRONMENTS__10__SURGE?)",
        ),
        (
            "RECONCILER_ENVIRONMENTS__010__SURGE",
            "1",
            "'010' is not an environment's id, a decimal number such as 10",
        ),
        ("NOMAD_CLIENT_CERT", "r.yaml", "needs key_file beside it"),
        ("NOMAD_REGION", "a\nb", "has a line break or another character that cannot be printed"),
    ],
)
def test_a_mistake_in_a_variable_is_told_with_its_name(name: str, text: str, what: str) -> None:
    assert outcome("", {name: text}) == [f"{name}: {what}"]


def test_a_token_and_a_token_file_in_our_own_variables() -> None:
    Path("token").write_text("x")
    environ = {"RECONCILER_NOMAD__TOKEN": "x", "RECONCILER_NOMAD__TOKEN_FILE": "token"}
    assert outcome(None, environ) == [
        "RECONCILER_NOMAD__TOKEN: set together with RECONCILER_NOMAD__TOKEN_FILE: only one can be meant"
    ]


def test_everything_is_told_at_once_and_in_order() -> None:
    pace, pool = "pace: {storm_share: 2}\n", "pool:\n  surgee: 1\n  settle: 5\n"
    content = f"{pace}{pool}nomad:\n  ca_file: gone\n  address: x\nabc: 1\n"
    environ = {"RECONCILER_X": "1", "RECONCILER_POOL__SURGE": "x", "NOMAD_REGION": "a b"}
    assert outcome(content, environ) == [
        "r.yaml:1: pace.storm_share: '2' must be at most 1",
        "r.yaml:3: pool.surgee: unknown key (did you mean surge?)",
        "r.yaml:4: pool.settle: '5' has no unit: add one, as in 10s or 5m",
        "r.yaml:6: nomad.ca_file: 'gone': no such file or directory",
        "r.yaml:7: nomad.address: 'x' is not an address such as http://127.0.0.1:4646",
        "r.yaml:8: abc: unknown key",
        "NOMAD_REGION: 'a b' is not the name of a region",
        "RECONCILER_POOL__SURGE: 'x' is not a whole number",
        "RECONCILER_X: unknown variable",
    ]


def test_a_file_that_cannot_be_read_does_not_hide_mistakes_in_variables() -> None:
    environ = {"RECONCILER_POOL__SURGE": "x", "NOMAD_CLIENT_KEY": "r.yaml"}
    assert outcome("[", environ) == [
        "r.yaml:1:2: while parsing a flow node, expected the node content, but found '<stream end>'",
        "RECONCILER_POOL__SURGE: 'x' is not a whole number",
    ]


# --- hostile files ---

BOMB = "".join(f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9) if i else '{surge: 1}'}]}}\n" for i in range(25))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[" * 900_000, "r.yaml:1:33: nested too deeply or too many values"),
        ("- " * 400_000, "r.yaml:1:65: nested too deeply or too many values"),
        ("{a: " * 200_000, "r.yaml:1:126: nested too deeply or too many values"),
        ("a: 1\n" * 30_000, "r.yaml:10000:4: nested too deeply or too many values"),
        ("#" * 1_000_001, "r.yaml: is larger than 1 MB"),
        (BOMB + "pool: *a24", "r.yaml: too large when its aliases and merges are followed"),
        ("pool: &p {<<: *p}", "r.yaml: too large when its aliases and merges are followed"),
        (
            "environments:\n  0: &a {" + "x: 1, " * 3000 + "}\n" + "".join(f"  {i}: *a\n" for i in range(1, 3000)),
            "r.yaml: too large when its aliases and merges are followed",
        ),
    ],
    ids=["flow", "block", "mappings", "nodes", "size", "merges", "self", "aliases"],
)
def test_a_hostile_file_is_refused_without_following_it(content: str, problem: str) -> None:
    assert outcome(content) == [problem]


def test_a_bomb_that_nothing_looks_into_is_only_unknown() -> None:
    assert outcome(BOMB)[0] == "r.yaml:1: a0: unknown key"


ANY_VALUE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
)
KEYS = st.sampled_from(["nomad", "pool", "pace", "environments", "state_dir", "10", "x"])
LEAVES = st.sampled_from(
    sorted({str(field.alias) for s in (NomadSettings, PoolPolicy, PacePolicy) for field in s.model_fields.values()})
)


@given(
    st.dictionaries(KEYS, ANY_VALUE | st.dictionaries(LEAVES | KEYS, ANY_VALUE | st.dictionaries(LEAVES, ANY_VALUE)))
)
def test_any_tree_gives_settings_or_problems(tree: dict[str, object]) -> None:
    lines = outcome(yaml.safe_dump(tree, allow_unicode=True))
    assert all(re.match(r"r\.yaml:\d+", line) for line in lines)


@given(st.binary(max_size=60) | st.text("abc:{}[]&*!<>-?|#\"'\\%@`, \n\t01x", max_size=60))
def test_any_bytes_give_settings_or_problems(content: bytes | str) -> None:
    assert all(line.startswith("r.yaml:") for line in outcome(content))
