"""The gateware around the core of a board, in Amaranth: memory adapters, host link, registers."""
