"""Speed of exact noise against OpenDP (the peer) and numpy's float noise (the floor): 1e6 draws,
one run; ours and numpy best of five.

Goals: at least 20 times OpenDP; Laplace at least 1/15 of numpy's Laplace, Gaussian at least 1/25 of
numpy's normal.
"""

import time

import numpy as np
import opendp.prelude as dp

from results import save
from tailrace import Noise

DRAWS, ROUNDS = 1_000_000, 5
dp.enable_features("contrib")


def rate(draw, count: int, rounds: int = ROUNDS) -> float:
    """Million draws a second, at the best of some rounds."""
    times = []
    for i in range(rounds):
        start = time.perf_counter()
        draw(i)
        times.append(time.perf_counter() - start)
    return count / min(times) / 1e6


def main() -> None:
    noise, rng = Noise.fresh(), np.random.default_rng(0)
    noise.at("warm").laplace(1, 10)
    noise.at("warm", 2).gaussian(1, 10)
    domain, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * DRAWS
    rows = []
    for scale in (1, 20, 1000):
        peers = {
            "laplace": dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(scale)),
            "gaussian": dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=float(scale)),
        }
        ours = {
            "laplace": lambda i, s=scale: noise.at("laplace", s, i).laplace(s, DRAWS),
            "gaussian": lambda i, s=scale: noise.at("gaussian", s, i).gaussian(s * s, DRAWS),
        }
        floats = {
            "laplace": lambda _, s=scale: rng.laplace(0, s, DRAWS),
            "gaussian": lambda _, s=scale: rng.normal(0, s, DRAWS),
        }
        for kind, part in (("laplace", 15), ("gaussian", 25)):
            mine, floor = rate(ours[kind], DRAWS), rate(floats[kind], DRAWS)
            peer = rate(lambda _, k=kind, p=peers: p[k](zeros), DRAWS, rounds=1)
            good = mine >= 20 * peer and mine >= floor / part
            speeds = [
                f"{mine:.1f}",
                f"{peer:.3f}",
                f"{floor:.1f}",
                f"{mine / peer:.0f}",
                f"1/{floor / mine:.1f}",
            ]
            rows.append([kind, scale, *speeds, "yes" if good else "NO"])
    header = [
        "noise",
        "scale",
        "ours M/s",
        "OpenDP M/s",
        "numpy M/s",
        "times OpenDP",
        "part of numpy",
        "goal met",
    ]
    save("noise", header, rows)


if __name__ == "__main__":
    main()
