"""Exact integer noise, and the loss that it proves."""

from tailrace.noise.source import (
    LARGEST,
    Draws,
    Noise,
    Shape,
    check_drawable,
    drawable,
    gaussian_variance,
    laplace_variance,
)

__all__ = [
    "Draws",
    "LARGEST",
    "Noise",
    "Shape",
    "check_drawable",
    "drawable",
    "gaussian_variance",
    "laplace_variance",
]
