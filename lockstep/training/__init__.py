"""The parts of ``lockstep train``: options, data, figures."""
