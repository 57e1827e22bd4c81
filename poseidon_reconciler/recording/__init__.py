"""Recordings of the event stream: reading them, telling their story, and what would have been done."""
