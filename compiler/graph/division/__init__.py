"""The division of a graph between targets, and the layout at their borders."""
