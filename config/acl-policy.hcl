# What the token of `run` must be allowed, and no more. Apply it and make a token of it:
#
#   nomad acl policy apply -description "Keeps Poseidon's pools full" poseidon-reconciler acl-policy.hcl
#   nomad acl token create -name poseidon-reconciler -policy poseidon-reconciler -type client
#
# `poseidon-reconciler check` then tries each of these rights where that changes nothing.

# The namespace whose jobs are looked after: that of `nomad.namespace`, which is Poseidon's.
namespace "default" {
  capabilities = [
    "list-jobs",       # all jobs, to know the pools
    "read-job",        # jobs, allocations, evaluations, and their events
    "submit-job",      # protect, create, revive and remove
    "alloc-lifecycle", # place an environment's own job anew that hangs while it starts; may be left out
  ]
}

# The state of the nodes, their events, and the versions of the servers.
node {
  policy = "read"
}

# For `check` alone, to name the agent's version; may be left out.
agent {
  policy = "read"
}
