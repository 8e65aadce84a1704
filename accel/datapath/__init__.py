"""Datapaths of the units: bodies of instructions as operations, shared and set into stages."""
