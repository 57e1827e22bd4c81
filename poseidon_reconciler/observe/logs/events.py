"""The name of every message, how much it matters, and what it means: what people search for and alert on.

A name that was released stays as it is. `docs/logs.md` shows this table, and a test compares them.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Struct


class Message(Struct, frozen=True):
    """A kind of message. `level` is one of `logging`'s numbers."""

    level: int
    meaning: str

    @property
    def level_name(self) -> str:
        return logging.getLevelName(self.level).lower()


_DEBUG, _INFO, _WARNING = logging.DEBUG, logging.INFO, logging.WARNING

MESSAGES: Final = {
    # --- the process
    "started": Message(_INFO, "`run` began; `detail` says with which cluster."),
    "stopped": Message(_INFO, "`run` ended in order."),
    "policy-changed": Message(_INFO, "Other wishes hold from now on; everything is judged anew."),
    "paused": Message(_INFO, "Nothing is done for an environment, or at all, until the pause ends."),
    "resumed": Message(_INFO, "A pause was lifted."),
    "reloaded": Message(_INFO, "The configuration was read again; `detail` says what is in effect now."),
    "reload-refused": Message(_WARNING, "The configuration is wrong; the old one stays in effect as a whole."),
    "restart-needed": Message(_WARNING, "What was changed in the configuration takes effect only after a restart."),
    # --- the view of the cluster
    "stream-closed": Message(_WARNING, "The event stream ended, or could not be opened; nothing is decided meanwhile."),
    "reading-lists": Message(_INFO, "What the model says may be wrong, and why: everything is read anew."),
    "lists-read": Message(_INFO, "The model is complete and fresh; decisions are made again."),
    "lists-incomplete": Message(_WARNING, "Some of the lists could not be read; the rest is used."),
    "lists-not-read": Message(_WARNING, "Lists without which nothing is decided could not be read; tried again soon."),
    "too-many-frames": Message(_WARNING, "Reading lists took longer than the stream allows; it is taken up anew."),
    "protection-on": Message(_INFO, "These servers may end living jobs: jobs at risk are protected."),
    "protection-off": Message(_INFO, "These servers do not end living jobs: nothing needs protection."),
    # --- nodes
    "node-down": Message(_INFO, "A node's heartbeat is missing; what ran there is lost, or soon will be."),
    "node-disconnected": Message(_INFO, "A node's heartbeat is missing; what runs there may come back with it."),
    "node-initializing": Message(_INFO, "A node's agent has begun anew and is not ready yet."),
    "node-ready": Message(_INFO, "A node is ready again; `before` says what it was."),
    "node-draining": Message(_INFO, "A node drains: what runs there must leave."),
    "node-drained": Message(_INFO, "A node's drain is over, or was called off."),
    "node-removed": Message(_INFO, "A node was removed from the cluster, or collected."),
    "storm-began": Message(_INFO, "Much was lost together (`detail`): repairs wait at least until `until`."),
    "storm-over": Message(_INFO, "It has been quiet for long enough, or was held for long enough: repairs go on."),
    # --- jobs
    "runner-lost": Message(_WARNING, "A runner is dead for good; `cause` and `rule` say why."),
    "environment-lost": Message(_WARNING, "An environment's own job is dead for good."),
    "runner-back": Message(_INFO, "A runner that was lost lives."),
    "environment-back": Message(_INFO, "An environment's own job that was lost lives."),
    "environment-stopped": Message(_INFO, "Somebody stopped an environment's own job: hands off."),
    "job-at-risk": Message(_DEBUG, "A job lives, and Nomad would end it at its next evaluation."),
    "job-changed": Message(_DEBUG, "Any other change of a verdict."),
    # --- actions
    "action-decided": Message(_INFO, "Something is to be done; `reason` says why."),
    "action-done": Message(_INFO, "It was done, or found done."),
    "action-not-wanted": Message(_INFO, "The confirming read showed another world: nothing was done."),
    "action-failed": Message(_WARNING, "It was not done; it is tried again after a while."),
    "action-withdrawn": Message(
        _INFO, "A pause, another policy or news came first: it is decided on anew if it is wanted."
    ),
    "action-unknown": Message(_WARNING, "Nobody knows whether it was done; it is looked at again."),
    # --- notices, with or without a webhook
    "hold": Message(_WARNING, "Something that is wanted has not been done for a while, or a storm holds everything."),
    "poison": Message(_WARNING, "New runners of an environment fail again and again: it is refilled slowly."),
    "pool-empty": Message(_WARNING, "A pool has had no idle runner for a while."),
    "pool-back": Message(_INFO, "A pool that was told of is at its target again; `detail` says after how long."),
    "webhook-failing": Message(_WARNING, "A receiver of notifications does not take them; they are sent again."),
    "webhook-back": Message(_INFO, "It takes them again."),
    "webhook-dropped": Message(_WARNING, "Notifications were given up; the next batch tells how many."),
    # --- Poseidon
    "poseidon-unreachable": Message(_WARNING, "Poseidon's statistics cannot be read; told once for each reason."),
    "poseidon-reachable": Message(_INFO, "Poseidon's statistics are read again."),
    "poseidon-drift": Message(_WARNING, "What Poseidon believes of a pool has differed from Nomad's truth for long."),
    "poseidon-agrees": Message(_INFO, "It no longer differs."),
    "poseidon-adopted": Message(_INFO, "Poseidon holds runners that we created."),
    "poseidon-not-adopted": Message(_WARNING, "Runners that we created are idle, and Poseidon does not hold them."),
    # --- what goes on around the reconciling
    "page": Message(_INFO, "The status page and its API are served; `detail` is the address."),
    "telemetry-not-sent": Message(_WARNING, "The collector does not take traces or metrics; they are dropped."),
    "shadow": Message(_INFO, "What another policy would have done, where that differs."),
    "flight-written": Message(_INFO, "Something unexpected happened; `detail` is its recording, and why it was kept."),
    "flight-not-written": Message(_WARNING, "The recording of an anomaly could not be written."),
    "flight-recorder-lost": Message(_WARNING, "What was kept in memory for such a recording was dropped."),
    "companion-failed": Message(_WARNING, "A part around the reconciling failed; it begins anew in a minute."),
    "library": Message(_WARNING, "A library says something (`logger`, `detail`); at its own level, from warning on."),
    "log-lines-dropped": Message(_WARNING, "Nobody read stderr for a while; so many lines (`count`) are missing here."),
}


def message(name: str) -> Message:
    """The kind of a message; of one that is not listed: it matters as most do."""
    return MESSAGES.get(name, _UNLISTED)


_UNLISTED: Final = Message(_INFO, "")
