"""Two machines side by side: what `lockstep diff` and `lockstep intrinsic diff` print of them."""
