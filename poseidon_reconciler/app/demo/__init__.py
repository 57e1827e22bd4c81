"""`demo`: an embedded cluster, its failure and the recovery, watched from beginning to end."""
