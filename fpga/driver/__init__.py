"""Networks on a board from C alone: a driver for the registers, and the code of each network."""
