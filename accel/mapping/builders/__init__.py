"""Nodes of an integer graph as layers, by the kind of operator."""
