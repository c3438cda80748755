"""The loop that runs every solver: state, stopping rules, steps, callbacks, checkpoints, result."""
