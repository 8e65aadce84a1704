"""Ways to lose less: equalization, correction, noise, fewer bits."""
