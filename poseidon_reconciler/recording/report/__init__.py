"""The story of a replay as one page that can be mailed, archived and printed.

Nothing is fetched when it is read, there is no script in it, and all that came out of a recording is text.
"""

from __future__ import annotations

from poseidon_reconciler.recording.report.page import render_report

__all__ = ["render_report"]
