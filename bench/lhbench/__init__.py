"""Runs Longhaul and its peers in alternation between two namespaces and reports what each cost."""
