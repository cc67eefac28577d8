"""Measuring routing on data sets: what is played, how it is scored, how it is shown."""
