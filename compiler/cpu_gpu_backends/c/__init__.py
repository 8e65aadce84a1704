"""Loop programs and networks as C99, for compilers that Lockstep does not have."""
