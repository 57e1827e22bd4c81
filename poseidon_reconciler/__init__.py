"""Keeps Poseidon's pools of prewarmed Nomad runners at their target.

Poseidon holds idle runners ready, each one a Nomad batch job. When the agents restart, some of these jobs
end for good and nobody is told. This package watches Nomad's event stream, tells which jobs are really lost,
protects those that are about to be, and replaces the rest exactly once.
"""

__version__ = "0.1.0"
