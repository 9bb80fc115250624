"""Record production traffic, replay it in open loop, report what happened and why."""

__version__ = "0.1.0"
