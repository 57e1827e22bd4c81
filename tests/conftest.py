"""Makes property tests repeatable, so that a failure in one run is a failure in all.

``pytest --hypothesis-profile=explore`` looks further, with new examples each time.
"""

from __future__ import annotations

from hypothesis import settings

# No deadline: how long one example takes says more about the machine than about the code.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=5_000, deadline=None)
settings.load_profile("repeatable")
