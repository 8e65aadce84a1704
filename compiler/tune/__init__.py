"""Search for plans: what may be chosen, in which order to try it, what came of it."""
