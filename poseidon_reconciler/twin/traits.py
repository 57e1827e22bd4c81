"""What differs between Nomad's versions, as far as a client of its API notices.

The embedded cluster behaves as the version that it is told to be. Recorded from real clusters: 1.1, 1.10.5 and 2.0.5;
the versions between are filled in from Nomad's source.
"""

from __future__ import annotations

from msgspec import Struct

RECORDED = "1.1.2"


class Traits(Struct, frozen=True):
    """One server version's habits.

    `stopped_complete_counts`: the trap (see `reconcile`); `disconnect_defuses`: groups that say what a disconnect means
    are spared from it. `hears_only_live_nodes`: a node that was given up stays so until its first heartbeat, and its
    reports are refused until then. `denied_stream`: what a stream without permission gets: `500`, `403`, or `silence`
    (200, then nothing). `stream_over`: how a stream is sent: in `chunks`, compressed for whoever accepts it; or with
    that status line over a connection that the server forgets to close when it has nothing more to say.
    """

    version: str
    stopped_complete_counts: bool
    disconnect_defuses: bool
    drains_batch_for_good: bool
    knows_disconnects: bool
    purge_sends_job_event: bool
    purge_drops_allocations: bool
    refuses_unknown_deregistration: bool
    gc_sends_job_event: bool
    gc_sends_evaluations: bool
    marks_deleted: bool
    reports_touch_node: bool
    hears_only_live_nodes: bool
    pages_lists: bool
    stubs_show_pools: bool
    plans_count_disconnects: bool
    denied_stream: str
    stream_over: str
    namespace_wildcard_streams: bool

    @classmethod
    def of(cls, version: str) -> Traits:
        """The habits of a version such as `1.10.3`. Raises `ValueError` for what is no version."""
        number = tuple(int(part) for part in version.split("-", 1)[0].split("."))
        denied = "silence" if number >= (1, 11, 2) else "403" if number >= (1, 10) else "500"
        over = "HTTP/0.0" if number == (1, 11, 2) else "HTTP/1.1" if number > (1, 11, 2) else "chunks"
        return cls(
            version=version,
            stopped_complete_counts=number < (1, 11, 2),
            disconnect_defuses=_any_release(number, (1, 6, 10), (1, 7, 7)),
            drains_batch_for_good=_any_release(number, (1, 10, 14), (1, 11, 8), (2, 0, 4)),
            knows_disconnects=number >= (1, 3),
            purge_sends_job_event=number >= (1, 7, 4),
            purge_drops_allocations=number >= (1, 8),
            refuses_unknown_deregistration=number >= (1, 6),
            gc_sends_job_event=number >= (1, 7, 4),
            gc_sends_evaluations=number < (1, 8),
            marks_deleted=number >= (1, 11, 3),
            reports_touch_node=number >= (1, 6),
            hears_only_live_nodes=number >= (1, 5),
            pages_lists=number >= (1, 3),
            stubs_show_pools=number >= (1, 6),
            plans_count_disconnects=number >= (1, 11),
            denied_stream=denied,
            stream_over=over,
            namespace_wildcard_streams=number >= (1, 1, 18),
        )


def _any_release(number: tuple[int, ...], *since: tuple[int, int, int]) -> bool:
    """Whether a change that was made in several release lines at once is in this version."""
    line = next((first for first in since if first[:2] == number[:2]), None)
    return number >= line if line is not None else number > since[-1]
