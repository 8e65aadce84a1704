"""Primitives: functions from a program to one that computes the same."""
