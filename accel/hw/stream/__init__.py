"""Stream units: loops around a component of one's own."""
