"""What a command takes of this machine: plans, compiled loops, completion in its shell."""
