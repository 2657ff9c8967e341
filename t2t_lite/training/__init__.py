"""Loss, optimizer, updates, checkpoints, the loop."""
