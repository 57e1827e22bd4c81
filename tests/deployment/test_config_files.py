"""Every file in config/: that whoever reads it can, and that they agree with each other and with the program."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest
import yaml
from pydantic import SecretStr

from poseidon_reconciler.app.check.command import Limits, look
from poseidon_reconciler.app.check.report import Report
from poseidon_reconciler.app.running import _DRAIN_S
from poseidon_reconciler.config import NomadSettings, Settings, load
from poseidon_reconciler.policy import parse_duration
from poseidon_reconciler.twin.acl import Acl
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.poseidon_jobs import environment_job
from poseidon_reconciler.twin.server import TwinServer
from tests.deployment.dockerfile import ROOT, read_dockerfile
from tests.real_nomad.lab import find_nomad

CONFIG = ROOT / "config"
JOB = CONFIG / "poseidon-reconciler.nomad.hcl"
UNIT = CONFIG / "poseidon-reconciler.service"
PORT = Settings().http.listen.rpartition(":")[2]
IMAGE = read_dockerfile()[-1]


def hcl(path: Path) -> Any:
    """An HCL file as lists and dicts, texts without the quotes that the parser keeps."""
    return read_hcl(path.read_text())


def read_hcl(text: str) -> Any:
    return _unquoted(hcl2.loads(text))


def with_what_is_in_comments(path: Path) -> str:
    """The file after somebody has taken the comments off all that is offered in them, which is indented as it is."""
    in_hcl, in_a_unit = r'\w+ = .*|\w+(?: "\w+")? \{|\}', r"(?:LoadCredential|Environment)=.*"
    in_yaml = r"\w+:(?: /.*)?|- \w+"
    in_comments = rf"(?m)^( *)# ( *(?:{in_hcl}|{in_a_unit}|{in_yaml}))$"
    return re.sub(in_comments, r"\1\2", path.read_text())


def _unquoted(value: Any) -> Any:
    if isinstance(value, dict):
        return {_unquoted(key): _unquoted(member) for key, member in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [_unquoted(member) for member in value]
    quoted = isinstance(value, str) and value.startswith('"')
    return json.loads(value) if quoted else value


def read_yaml(name: str) -> Any:
    return yaml.safe_load((CONFIG / name).read_text())


def settings_with(variables: dict[str, str]) -> Settings:
    """What the example and these variables make together."""
    return load(CONFIG / "reconciler.yaml", variables, read_files=False)


def test_every_file_is_parsed() -> None:
    """What is here by another way than one of these is read by nobody."""
    for path in CONFIG.rglob("*"):
        if path.suffix in (".yml", ".yaml"):
            assert yaml.safe_load(path.read_text()), path
        elif path.suffix == ".hcl":
            assert hcl(path), path
        elif path.suffix == ".json":
            assert json.loads(path.read_text()), path
        else:
            assert path.is_dir() or path == UNIT, path


# --- the ACL policy ---------------------------------------------------------------------------------------------------


def granted() -> set[str]:
    policy = hcl(CONFIG / "acl-policy.hcl")
    (namespace,) = policy["namespace"]
    assert set(namespace) == {Settings().nomad.namespace}
    rest = {f"{kind}:{policy[kind][0]['policy']}" for kind in ("node", "agent")}
    return {*namespace["default"]["capabilities"], *rest}


def test_the_policy_grants_what_is_needed_and_no_more() -> None:
    assert granted() == {"list-jobs", "read-job", "submit-job", "alloc-lifecycle", "node:read", "agent:read"}


async def test_with_the_policy_everything_that_is_checked_is_allowed() -> None:
    cluster = Cluster(3)
    cluster.jobs.register(environment_job(10, 2))
    async with TwinServer(cluster, acl=Acl({"secret": granted()})) as server:
        settings = Settings(nomad=NomadSettings(address=server.address, token=SecretStr("secret")))
        report = Report()
        assert await look(settings, report, Limits())
    results = {check.name: check.result for check in report.checks}
    assert {results[f"list {table}"] for table in ("jobs", "allocations", "evaluations", "nodes")} == {"ok"}
    assert (results["read a job"], results["plan a job"]) == ("ok", "ok")


# --- the Nomad job ----------------------------------------------------------------------------------------------------


def job() -> Any:
    return hcl(JOB)["job"][0]["poseidon-reconciler"]


def test_the_job_is_one_instance_without_more_rights_than_it_needs() -> None:
    (group,) = job()["group"]
    (task,) = group["reconciler"]["task"]
    config = task["run"]["config"][0]
    assert (job()["type"], group["reconciler"]["count"], task["run"]["driver"]) == ("service", 1, "docker")
    assert (config["readonly_rootfs"], config["cap_drop"]) == (True, ["all"])
    assert parse_duration(task["run"]["kill_timeout"]) > _DRAIN_S
    # Root may read the token's file, and so must the image's user, who is not.
    assert task["run"]["template"][0]["perms"] == "0444"


def test_the_jobs_settings_are_settings_and_its_paths_are_those_that_it_makes() -> None:
    group = job()["group"][0]["reconciler"]
    task = group["task"][0]["run"]
    given = {"${var.nomad_address}": "http://10.0.0.1:4646", "${var.poseidon_namespace}": "poseidon"}
    given["${var.telemetry_endpoint}"] = ""
    # What Nomad itself sets for every task must not win over what is meant.
    variables = {"NOMAD_NAMESPACE": "system", "NOMAD_REGION": "global"}
    variables |= {name: given.get(value, value) for name, value in task["env"][0].items()}

    settings = settings_with(variables)

    token, config = task["template"]
    assert str(settings.nomad.token_file) == token["destination"]
    assert task["config"][0]["args"] == ["run", "--config", config["destination"]]
    assert config["data"] == "${file(var.configuration)}"
    assert (config["change_mode"], config["change_signal"]) == ("signal", "SIGHUP")
    assert str(settings.state_dir).startswith("/alloc/data/")
    assert settings.nomad.namespace == "poseidon"
    port = settings.http.listen.rpartition(":")[2]
    assert group["network"][0]["port"][0]["http"]["to"] == int(port) == int(PORT)


def test_the_job_is_restarted_when_it_does_not_live_and_not_when_it_is_not_ready() -> None:
    checks = job()["group"][0]["reconciler"]["service"][0]["check"]
    assert {check["path"]: "check_restart" in check for check in checks} == {"/healthz": True, "/readyz": False}


def test_every_variable_of_the_job_is_used_and_every_one_used_is_there() -> None:
    names = {name for variable in hcl(JOB)["variable"] for name in variable}
    assert set(re.findall(r"\bvar\.(\w+)", JOB.read_text())) == names


def test_what_else_is_secret_reaches_the_settings_that_the_comments_name() -> None:
    task = read_hcl(with_what_is_in_comments(JOB))["job"][0]["poseidon-reconciler"]["group"][0]["reconciler"]["task"][0]
    offered = {name: value for name, value in task["run"]["env"][0].items() if name not in task_environment()}
    settings = settings_with({"NOMAD_ADDR": "https://10.0.0.1:4646", **offered})
    (template,) = task["run"]["dynamic"]
    files = template["template"]["for_each"].values()
    used = [settings.nomad.ca_file, settings.nomad.cert_file, settings.nomad.key_file]
    used += [settings.http.token_file, settings.poseidon.token_file]
    assert [str(path) for path in used] == [f"/secrets/{name}" for name in files]


def task_environment() -> dict[str, str]:
    environment: dict[str, str] = job()["group"][0]["reconciler"]["task"][0]["run"]["env"][0]
    return environment


def test_the_image_is_named_by_whoever_runs_the_job() -> None:
    """A default without a registry would be somebody else's image, from Docker Hub."""
    (image,) = [variable["image"] for variable in hcl(JOB)["variable"] if "image" in variable]
    assert "default" not in image
    assert "-var image=" in JOB.read_text()


@pytest.mark.parametrize("complete", [False, True], ids=["as-it-is", "with-what-is-in-comments"])
def test_nomad_itself_accepts_the_job(complete: bool, tmp_path: Path) -> None:
    nomad = find_nomad()
    if nomad is None:
        pytest.skip("no nomad binary: neither NOMAD_BIN nor PATH names one")
    file = JOB
    if complete:
        file = tmp_path / JOB.name
        file.write_text(with_what_is_in_comments(JOB))
    # Without an agent: what the file says is looked at, and then nobody is there to plan it.
    arguments = ["job", "validate", "-var", "nomad_address=http://10.0.0.1:4646", "-var", "image=registry.example/x:1"]
    for cwd, more in ((JOB.parent, []), (JOB.parent.parent, ["-var", "configuration=config/reconciler.yaml"])):
        run = subprocess.run(
            [nomad, *arguments, *more, str(file)], env={**os.environ, "NOMAD_ADDR": "http://127.0.0.1:9"}, cwd=cwd,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Job validation successful" in run.stdout, run.stderr


# --- compose ----------------------------------------------------------------------------------------------------------


def test_composes_services_find_each_other_and_their_files() -> None:
    compose = read_yaml("compose.yaml")
    services = compose["services"]
    reconciler = services["reconciler"]
    variables = {"NOMAD_ADDR": "http://10.0.0.1:4646"}
    variables |= {name: value for name, value in reconciler["environment"].items() if name != "NOMAD_ADDR"}
    settings = settings_with(variables)

    host, port = str(settings.telemetry.endpoint).removeprefix("http://").split(":")
    listens = read_yaml("otel-collector.yaml")["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    assert host in services
    assert listens.rpartition(":")[2] == port
    assert str(settings.nomad.token_file) == f"/run/secrets/{reconciler['secrets'][0]}"
    assert set(reconciler["secrets"]) == set(compose["secrets"])
    assert settings.http.listen == f"0.0.0.0:{PORT}"
    assert reconciler["ports"] == [f"127.0.0.1:{port}:{port}" for port in (PORT, "9090")]
    assert parse_duration(reconciler["stop_grace_period"]) > _DRAIN_S
    assert f"state:{IMAGE.last('VOLUME').rest}" in reconciler["volumes"]
    assert (CONFIG / reconciler["build"]["context"] / "Dockerfile").exists()
    for service in services.values():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            if source.startswith("./"):
                # config/prometheus/ is there once there are metrics.
                assert (CONFIG / source).exists() or source == "./prometheus"
                inside = Path(target)
                assert any(str(word).find(str(inside)) >= 0 for word in service["command"])
            else:
                assert source in compose["volumes"]


def test_composes_secrets_are_files_that_the_images_user_may_read() -> None:
    """Compose refuses a secret from a variable for a service whose root is read-only, and would make it root's."""
    compose = yaml.safe_load(with_what_is_in_comments(CONFIG / "compose.yaml"))
    reconciler = compose["services"]["reconciler"]
    assert all(set(secret) == {"file"} for secret in compose["secrets"].values())
    assert reconciler["secrets"] == list(compose["secrets"])
    variables = {**reconciler["environment"], "NOMAD_ADDR": "https://10.0.0.1:4646"}
    settings = settings_with(variables)
    used = [settings.nomad.token_file, settings.nomad.ca_file, settings.nomad.cert_file, settings.nomad.key_file]
    used += [settings.http.token_file]
    assert [str(path) for path in used] == [f"/run/secrets/{name}" for name in compose["secrets"]]
    user = IMAGE.last("USER").rest.partition(":")[0]
    assert f"-o {user} /dev/stdin" in (CONFIG / "compose.yaml").read_text()


def test_prometheus_asks_the_reconciler_whose_network_it_shares() -> None:
    path = CONFIG / "prometheus" / "prometheus.yml"
    if not path.exists():
        pytest.skip("there is no configuration of Prometheus yet")
    prometheus = yaml.safe_load(path.read_text())
    targets = [
        target
        for job in prometheus["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    assert read_yaml("compose.yaml")["services"]["prometheus"]["network_mode"] == "service:reconciler"
    assert f"127.0.0.1:{PORT}" in targets


def test_the_collectors_pipelines_are_made_of_what_it_has() -> None:
    collector = read_yaml("otel-collector.yaml")
    for pipeline in collector["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(collector[kind])


# --- systemd ----------------------------------------------------------------------------------------------------------


def unit(text: str | None = None) -> dict[str, dict[str, list[str]]]:
    """The unit's sections; a key may stand there more than once."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in (UNIT.read_text() if text is None else text).splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(key, []).append(value)
    return sections


def test_the_units_settings_are_settings_and_its_paths_are_those_that_it_makes() -> None:
    service = unit()["Service"]
    variables = dict(value.split("=", 1) for value in service["Environment"])
    settings = settings_with(variables)
    (credential,) = service["LoadCredential"]
    assert str(settings.nomad.token_file) == f"%d/{credential.partition(':')[0]}"
    assert str(settings.state_dir) == f"%S/{service['StateDirectory'][0]}"
    assert service["Type"] == ["notify"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert float(service["TimeoutStopSec"][0]) > _DRAIN_S
    assert service["DynamicUser"] == service["NoNewPrivileges"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["ExecStart"][0].split()[1:3] == ["run", "--config"]


def test_what_else_is_secret_is_handed_to_the_unit_as_its_comments_say() -> None:
    service = unit(with_what_is_in_comments(UNIT))["Service"]
    settings = settings_with(dict(value.split("=", 1) for value in service["Environment"]))
    used = [settings.nomad.token_file, settings.nomad.ca_file, settings.nomad.cert_file, settings.nomad.key_file]
    used += [settings.http.token_file, settings.poseidon.token_file]
    handed = [credential.split(":") for credential in service["LoadCredential"]]
    assert [str(path) for path in used] == [f"%d/{name}" for name, _ in handed]
    assert [source for _, source in handed] == [f"/etc/poseidon-reconciler/{name}" for name, _ in handed]


def test_the_unit_is_installed_as_the_page_on_operations_says() -> None:
    (block,) = re.findall(r"```sh\n(python3 -m venv .*?)```", (ROOT / "docs" / "operations.md").read_text(), re.DOTALL)
    head = UNIT.read_text().partition("[Unit]")[0].replace("#   ", "")
    assert block in head
    # What reads its input from a terminal would take the lines after it for that.
    assert all("|" in line for line in head.splitlines() if "/dev/stdin" in line)


def test_the_unit_is_what_ini_readers_read() -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(UNIT.read_text())
    assert parser.sections() == ["Unit", "Service", "Install"]


@pytest.mark.parametrize("complete", [False, True], ids=["as-it-is", "with-what-is-in-comments"])
def test_systemd_accepts_the_unit_and_finds_it_well_shut_in(complete: bool, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze here")
    # The program that it starts must exist.
    here = tmp_path / UNIT.name
    text = with_what_is_in_comments(UNIT) if complete else UNIT.read_text()
    here.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text))
    verified = subprocess.run([analyze, "verify", here], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    # In tenths, of at most a hundred; 20 is called OK, an average service has 95.
    shut_in = [analyze, "security", "--offline=yes", "--threshold=20", str(here)]
    assert subprocess.run(shut_in, capture_output=True, check=False).returncode == 0
