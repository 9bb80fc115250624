"""Comparison: is one version worse than another, with evidence that holds under noise and under looking."""
