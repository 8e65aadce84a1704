"""How the values of a graph, and constants, lie in memory."""
