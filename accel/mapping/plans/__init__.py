"""Tiles of layers, and which layers are computed at the same time: chosen, searched, as text."""
