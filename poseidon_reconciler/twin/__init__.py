"""An embedded Nomad: a deterministic model of a cluster, and an HTTP server that speaks Nomad's API in front of it.

It imports nothing else of this package, so that tools other than ours can be tested on it as well.
"""
