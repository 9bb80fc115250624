"""Advice: which batch size, wait, batches in flight and high water keep a budget of latency on a given trace."""
