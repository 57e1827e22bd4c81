"""How a page is written and what it looks like, for the rooms that have pages."""
