"""Reports: tables and progress for the terminal, plots, videos."""
