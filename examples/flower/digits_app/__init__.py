"""Handwritten digits, learnt by a federation whose cohorts fedcbs chooses."""
