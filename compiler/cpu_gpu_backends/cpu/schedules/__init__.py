"""Templates that schedule a group of operators for a processor."""
