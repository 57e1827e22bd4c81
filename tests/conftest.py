"""Makes property tests repeatable, so that a failure in one run is a failure in all.

``pytest --hypothesis-profile=explore`` looks further, with new examples each time.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis.internal.conjecture import providers

# No deadline: how long one example takes says more about the machine than about the code.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=5_000, deadline=None)
settings.load_profile("repeatable")

# Examples are drawn from the constants of our modules too, of those that this process has imported by then: which they
# are depends on the tests before. There is no setting for that.
_of_our_modules = providers._get_local_constants
providers._get_local_constants = lambda: providers._local_constants if settings().derandomize else _of_our_modules()
