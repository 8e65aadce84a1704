"""How fast a layer could be at best: lower bounds over all tilings that its template offers."""

from .layer import bound_of, bounds_of_tilings
