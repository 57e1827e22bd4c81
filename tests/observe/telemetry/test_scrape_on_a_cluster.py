"""What Prometheus gets of a reconciler at work, and that alerts and dashboard ask for nothing else."""

from __future__ import annotations
