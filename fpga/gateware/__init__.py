"""What stands around the core on a board, in Amaranth: memory adapters, host link, registers."""
