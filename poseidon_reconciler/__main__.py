"""Lets ``python -m poseidon_reconciler`` stand in for the installed command."""

from __future__ import annotations

from poseidon_reconciler.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
