"""The servers as readers of their event streams meet them: several memories of the same log, which come and go."""

from __future__ import annotations

from collections import deque

from poseidon_reconciler.twin.events import Batch, Buffer

# Nomad's servers take a snapshot of their own after so many entries of their log.
LOGGED_BATCHES = 8192


class Server:
    """One server. `cut_off`: it is up and sends heartbeats, but hears nothing new from its leader."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.cut_off = False
        self.buffer = Buffer()


class Quorum:
    """All servers, and the log that they share since the last snapshot."""

    def __init__(self, count: int) -> None:
        self.servers = {f"server-{number}": Server(f"server-{number}") for number in range(1, count + 1)}
        self.log: deque[Batch] = deque(maxlen=LOGGED_BATCHES)
        self.changes = 0

    @property
    def has_leader(self) -> bool:
        """Whether a majority of the servers is up and hears each other."""
        active = sum(1 for server in self.servers.values() if server.up and not server.cut_off)
        return active * 2 > len(self.servers)

    @property
    def leader(self) -> Server | None:
        """The first server that is up, as long as there is a majority."""
        active = (server for server in self.servers.values() if server.up and not server.cut_off)
        return next(active, None) if self.has_leader else None

    def publish(self, batch: Batch) -> None:
        """Every server that hears of it takes a batch in."""
        self.log.append(batch)
        for server in self.servers.values():
            if server.up and not server.cut_off:
                server.buffer.append(batch)

    def stop(self, name: str) -> None:
        """A server is gone, and with it its readers and its memory."""
        server = self.servers[name]
        self.changes += 1
        server.up = False
        server.buffer.refill([])

    def start(self, name: str) -> None:
        """A server is back and has replayed the log."""
        server = self.servers[name]
        if not server.up:
            self.changes += 1
            server.up = True
            server.buffer.refill(self.log)

    def cut_off(self, name: str) -> None:
        """A server loses its leader, but not its readers."""
        self.changes += 1
        self.servers[name].cut_off = True

    def rejoin(self, name: str) -> None:
        """A server catches up with what it missed."""
        server = self.servers[name]
        if server.cut_off:
            self.changes += 1
            server.cut_off = False
            missed = {id(batch) for batch in server.buffer.batches}
            newest = server.buffer.newest_index or 0
            for batch in self.log:
                if batch.index >= newest and id(batch) not in missed:
                    server.buffer.append(batch)

    def forget_log(self) -> None:
        """A snapshot was taken: the log begins anew."""
        self.log.clear()

    def reset(self) -> None:
        """The servers were restored: log and memories begin anew."""
        self.log.clear()
        for server in self.servers.values():
            server.buffer.refill([])
