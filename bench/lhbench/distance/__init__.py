"""Longhaul and its peers over an emulated ocean."""
