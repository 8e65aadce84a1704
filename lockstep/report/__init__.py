"""The page that ``lockstep run --report`` writes."""

from .figures import page_figures
from .page import require_plotly, write_page

__all__ = ["page_figures", "require_plotly", "write_page"]
