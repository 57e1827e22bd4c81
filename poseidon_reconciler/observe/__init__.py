"""Shows what goes on, and tells who wants to know; decides nothing, and may fail without harm."""
