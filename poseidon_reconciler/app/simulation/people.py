"""What operators, tasks and learners do at bad moments, and how it is undone."""

from __future__ import annotations

from poseidon_reconciler.app.simulation.stage import Happening, Mishap, Stage, Undo, agents_of
from poseidon_reconciler.twin import poseidon_jobs as pj
from poseidon_reconciler.twin.records import Job
from poseidon_reconciler.twin.tasks import TaskRun


def collect(stage: Stage, _: Mishap) -> None:
    if stage.cluster.has_leader:
        stage.cluster.collect_garbage()


def drain(stage: Stage, mishap: Mishap) -> Undo | None:
    (agent,) = agents_of(stage, mishap.target)
    nodes, node_id = stage.cluster.nodes, agent.node_id
    if node_id not in stage.cluster.state.nodes or not stage.cluster.has_leader:
        return None
    nodes.drain(node_id, mishap.value)

    def take_back() -> None:
        node = stage.cluster.state.nodes.get(node_id)
        if node is not None and node.drain is not None:
            nodes.cancel_drain(node_id, eligible=True)
        elif node is not None:
            nodes.set_eligible(node_id, eligible=True)

    return take_back


def close(stage: Stage, mishap: Mishap) -> Undo | None:
    (agent,) = agents_of(stage, mishap.target)
    nodes, node_id = stage.cluster.nodes, agent.node_id
    if node_id not in stage.cluster.state.nodes or not stage.cluster.has_leader:
        return None
    nodes.set_eligible(node_id, eligible=False)

    def take_back() -> None:
        node = stage.cluster.state.nodes.get(node_id)
        if node is not None and node.drain is None:
            nodes.set_eligible(node_id, eligible=True)

    return take_back


def hog(stage: Stage, _: Mishap) -> Undo | None:
    """Somebody else's jobs take half of the room there is."""
    cluster = stage.cluster
    if not cluster.has_leader:
        return None
    names = []
    for agent in cluster.agents.values():
        names.append(f"hog-{stage.rng.getrandbits(32):08x}")
        cluster.jobs.register(pj.runner_job(names[-1], pj.Work(cpu_mhz=max(1, agent.spec.cpu_mhz // 2))))

    def go() -> None:
        for name in names:
            cluster.jobs.deregister(("default", name), purge=True)

    return go


def image(what: str) -> Happening:
    def happen(stage: Stage, mishap: Mishap) -> Undo:
        return _tell(stage, mishap.target, TaskRun(image=what, message="cannot pull the image"))

    return happen


def spoil_image(stage: Stage, mishap: Mishap) -> Undo:
    """Somebody breaks an environment's image, and has all its idle runners made anew of it."""
    forget = image("fail")(stage, mishap)
    assert forget is not None
    if stage.cluster.has_leader:
        for job in _runners(stage, mishap.target):
            stage.cluster.jobs.deregister(job.key, purge=True)
    return forget


def exits(stage: Stage, mishap: Mishap) -> Undo:
    """What starts from now on ends by itself, well or not."""
    return _tell(stage, mishap.target, TaskRun(run_s=2.0, exit_code=int(mishap.value)))


def _tell(stage: Stage, environment: str, run: TaskRun) -> Undo:
    script = stage.cluster.script
    script.tell(f"{environment}-", run, prefix=True)
    script.tell(f"template-{environment}", run)

    def forget() -> None:
        script.forget(f"{environment}-")
        script.forget(f"template-{environment}")

    return forget


def _runners(stage: Stage, environment: str) -> list[Job]:
    """The runners of an environment that nobody uses."""
    return [
        job
        for job in stage.cluster.state.jobs.values()
        if job.id.startswith(f"{environment}-") and pj.config_of(dict(job.spec)).get("used") != "true"
    ]


def _runner(stage: Stage, environment: str) -> Job | None:
    """Any of them."""
    runners = _runners(stage, environment)
    return stage.rng.choice(runners) if runners and stage.cluster.has_leader else None


def deregister_runner(*, purge: bool) -> Happening:
    def happen(stage: Stage, mishap: Mishap) -> None:
        job = _runner(stage, mishap.target)
        if job is not None:
            stage.cluster.jobs.deregister(job.key, purge=purge)

    return happen


def move_runner(stage: Stage, mishap: Mishap) -> None:
    job = _runner(stage, mishap.target)
    living = [a for a in stage.cluster.state.allocations_of(job.key) if not a.terminal] if job is not None else []
    if living:
        stage.cluster.nodes.migrate(living, "alloc-stop")


def mend_runners(stage: Stage, mishap: Mishap) -> Undo:
    """Somebody who sees dead runners runs them again by hand: when he comes, and once more when he leaves."""

    def mend() -> None:
        if not stage.cluster.has_leader:
            return
        for job in _runners(stage, mishap.target):
            if job.status == "dead" and not job.stop:
                stage.cluster.jobs.register(pj.with_config(dict(job.spec), mended=f"{stage.cluster.now}"))

    mend()
    return mend


def evaluate_all(stage: Stage, mishap: Mishap) -> None:
    if not stage.cluster.has_leader:
        return
    for job in list(stage.cluster.state.jobs.values()):
        if job.id.startswith(f"{mishap.target}-") or job.id == f"template-{mishap.target}":
            stage.cluster.jobs.evaluate(job.key, force_reschedule=stage.rng.random() < 0.3)


def add_runners(stage: Stage, mishap: Mishap) -> None:
    """Somebody orders runners who does not look what others do: another Poseidon, or a person."""
    template = stage.cluster.state.jobs.get(("default", f"template-{mishap.target}"))
    if template is None or not stage.cluster.has_leader:
        return
    spec = pj.with_config(dict(template.spec), used="false")
    pj.config_of(spec).pop("prewarmingPoolSize", None)
    for _ in range(int(mishap.value)):
        job_id = pj.runner_id(int(mishap.target), stage.rng)
        stage.cluster.jobs.register({**spec, "ID": job_id, "Name": job_id, "Stop": False})


def resize(stage: Stage, mishap: Mishap) -> None:
    """Somebody wants another size of a pool: from Poseidon, or from Nomad while Poseidon does not know the pool."""
    number, poseidon = int(mishap.target), stage.poseidon
    if poseidon is not None and poseidon.up and number in poseidon.pools and stage.cluster.has_leader:
        poseidon.resize(number, int(mishap.value))
        return
    template = stage.cluster.state.jobs.get(("default", f"template-{mishap.target}"))
    if template is not None and stage.cluster.has_leader:
        size = str(int(mishap.value))
        stage.cluster.jobs.register(pj.with_config(dict(template.spec), prewarmingPoolSize=size))


def stop_environment(stage: Stage, mishap: Mishap) -> None:
    key = ("default", f"template-{mishap.target}")
    if key in stage.cluster.state.jobs and stage.cluster.has_leader:
        stage.cluster.jobs.deregister(key)


def pause(stage: Stage, mishap: Mishap) -> Undo | None:
    """Somebody wants an environment, or everything, left alone: for a while, or until he says so."""
    environment, expires = mishap.target or None, bool(mishap.value)
    stage.pause(environment, mishap.for_s if expires else None)
    return None if expires else lambda: stage.resume(environment)


def reload(stage: Stage, mishap: Mishap) -> Undo:
    stage.reload(mishap.target, anew=True)
    return lambda: stage.reload(mishap.target, anew=False)


def restart_poseidon(stage: Stage, _: Mishap) -> Undo:
    why = f"restart {stage.rng.random()}"
    stage.hinder_poseidon(why, begins=True)
    return lambda: stage.hinder_poseidon(why, begins=False)


def deafen_poseidon(stage: Stage, _: Mishap) -> Undo | None:
    poseidon = stage.poseidon
    if poseidon is None:
        return None
    poseidon.up = False

    def hear() -> None:
        poseidon.up = True

    return hear


def claim(stage: Stage, mishap: Mishap) -> None:
    """Learners come all at once."""
    if stage.poseidon is not None and stage.poseidon.up and stage.cluster.has_leader:
        for _ in range(stage.rng.randint(1, 5)):
            stage.poseidon.claim(int(mishap.target))
