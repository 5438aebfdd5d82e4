"""Places that come and go, on an adaptive tree."""
