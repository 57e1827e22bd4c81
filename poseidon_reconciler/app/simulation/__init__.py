"""Whole reconcilers on embedded clusters under a virtual clock, broken in every way that a seed comes up with.

Nothing of the reconciler is a stand-in but its sockets: core, controller, executor, lists and the reader of the stream
are those of `run`. What they promise is checked against the cluster itself, never against what they believe.
"""
