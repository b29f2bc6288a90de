"""Runs, comparisons, sweeps and papers: plan, execute on threads, keep as rows, show as tables, curves and pages."""
