"""Reports: tables for the terminal, plots for talks."""
