"""Pictures of pages as SVG and PDF, for papers: drawn by matplotlib, which needs no browser."""

from .files import Drawing, put_pictures, require_matplotlib
