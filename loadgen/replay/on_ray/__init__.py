"""Workers of a run as actors of a Ray cluster. Only who asked for a cluster imports this."""
