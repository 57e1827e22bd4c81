"""The pictures of a demo's screen: a pool as a bar against its target, the nodes as a table."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.table import Table
from rich.text import Text

from poseidon_reconciler.core.printable import printable
from poseidon_reconciler.twin.agents import Agent
from poseidon_reconciler.twin.cluster import Cluster
from poseidon_reconciler.twin.records import Node

# What is in the pool or on its way into it, in this order; each with a sign of its own, for those who see no colours.
_IN_POOL: Final = {
    "idle": ("█", "green"),
    "starting": ("▓", "blue"),
    "recovering": ("▒", "yellow"),
    "blocked": ("░", "yellow"),
    "disconnected": ("?", "magenta"),
}
_BESIDE: Final = {"leaving": "yellow", "used": "cyan", "lost": "bold red"}
_MISSING: Final = ("·", "red")
_NOT_RUNNING: Final = (("pending", "are to start", "blue"), ("unknown", "out of sight", "magenta"))
_STATES: Final = {"active": "green", "lost": "bold red", "missing": "bold red", "gone": "bold red"}


def pool_picture(
    environment_id: str, numbers: dict[str, int], target: int, state: str, cause: str | None, width: int
) -> Text:
    """Two lines: a bar with a mark at the target, and the numbers."""
    head = f"environment {environment_id}"
    told = state + (f", {cause}" if cause else "")
    picture = Text.assemble((head, "bold"), "  its own job is ", (told, _STATES.get(state, "yellow")), "\n")
    picture.append_text(_bar(numbers, target, width))
    picture.append(f"  {numbers['idle']} of {target} idle", style="bold")
    for name, (sign, style) in _IN_POOL.items():
        if numbers[name] and name != "idle":
            picture.append(f"  {sign} {numbers[name]} {name}", style=style)
    for name, style in _BESIDE.items():
        if numbers[name]:
            picture.append(f"  {numbers[name]} {name}", style=style)
    return picture


def _bar(numbers: dict[str, int], target: int, width: int) -> Text:
    cells = [cell for name, cell in _IN_POOL.items() for _ in range(numbers[name])]
    cells += [_MISSING] * (target - len(cells))
    # One cell for each runner, as long as there is room.
    scale = max(1.0, len(cells) / width)
    bar = Text()
    for position in range(min(len(cells), width)):
        if position == round(target / scale):
            bar.append("│", style="bold")
        bar.append(*cells[int(position * scale)])
    if len(cells) <= target:
        bar.append("│", style="bold")
    return bar


def nodes_table(cluster: Cluster) -> Table:
    """One line for each machine that Nomad knows, and for each that it does not know yet."""
    allocations = Counter(
        (allocation.node_id, allocation.client_status)
        for allocation in cluster.state.allocations.values()
        if not allocation.terminal
    )
    table = Table.grid(padding=(0, 2))
    agents = {agent.node_id: agent for agent in cluster.agents.values()}
    for node in sorted(cluster.state.nodes.values(), key=lambda node: node.spec.name):
        status, style = _status(node)
        agent = agents.get(node.id)
        numbers = Text(f"{allocations[node.id, 'running']:>3} run")
        for client_status, text, colour in _NOT_RUNNING:
            if number := allocations[node.id, client_status]:
                numbers.append(f"  {number} {text}", style=colour)
        table.add_row(printable(node.spec.name), Text(status, style=style), Text(_agent_state(agent), "red"), numbers)
    return table


def _status(node: Node) -> tuple[str, str]:
    if node.drain is not None:
        return f"{node.status}, draining", "yellow"
    if not node.eligible:
        return f"{node.status}, closed", "yellow"
    return node.status, "green" if node.status == "ready" else "bold red"


def _agent_state(agent: Agent | None) -> str:
    if agent is None:
        return "machine gone"
    if not agent.up:
        return "agent stopped"
    if agent.frozen:
        return "agent frozen"
    return "" if agent.linked else "cut off"
