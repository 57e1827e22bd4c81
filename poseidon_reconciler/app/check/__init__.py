"""`check`: everything that `run` needs, looked at before anything depends on it."""
