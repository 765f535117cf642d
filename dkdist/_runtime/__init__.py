"""Work on blocks: plans, memory, map and reduce on local schedulers and on clusters, checkpoints, progress."""
