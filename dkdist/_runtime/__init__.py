"""Execution of work on blocks: plans, map and reduce on threads or clusters, checkpoints and progress."""
