"""The only code that talks to Nomad: its event stream, its API, and the execution of what the core decided."""
