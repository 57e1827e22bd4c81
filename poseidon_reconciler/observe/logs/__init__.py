"""What `run` writes to stderr: one line for each message, for machines or for eyes, whoever sends the message."""
