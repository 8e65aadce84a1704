"""Carries out ``lockstep run``: what it refuses, a run here or elsewhere, and what it writes."""
