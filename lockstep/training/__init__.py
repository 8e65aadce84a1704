"""What ``lockstep train`` does: options, data, figures."""
