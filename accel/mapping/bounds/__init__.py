"""The best that a layer could reach: lower bounds over all tilings that its template offers."""

from .layer import bound_of, bounds_of_tilings
