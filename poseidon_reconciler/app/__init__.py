"""The commands: each puts the rooms together that it needs, and says what came of it."""
