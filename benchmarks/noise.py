"""Speed of exact noise against OpenDP (the peer) and numpy's float noise (the floor).

1e6 draws; ours and numpy best of five, OpenDP once.
"""

import numpy as np
import opendp.prelude as dp

from runner import best_of, main, measurement
from tailrace import Noise

DRAWS, ROUNDS = 1_000_000, 5
dp.enable_features("contrib")


def rate(draw, rounds: int = ROUNDS) -> float:
    """Million draws a second, at the best of some rounds."""
    return DRAWS / best_of(rounds, draw)[0].seconds / 1e6


@measurement(
    "noise",
    keys="noise | scale",
    columns="ours M/s .1f | OpenDP M/s .3f | numpy M/s .1f | times OpenDP .0f | part of numpy"
    " | goal met ?",
    goal="20 times OpenDP; 1/15 of numpy's Laplace, 1/25 of its normal",
)
def draws():
    noise, rng = Noise.fresh(), np.random.default_rng(0)
    noise.at("warm").laplace(1, 10)
    noise.at("warm", 2).gaussian(1, 10)
    domain, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * DRAWS
    for scale in (1, 20, 1000):
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(scale))
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=float(scale))
        at = noise.at(scale)
        # kind: ours, the peer's, numpy's, and the part of numpy that is the goal
        works = {
            "laplace": (
                lambda i: at.at("laplace", i).laplace(scale, DRAWS),
                lambda _: laplace(zeros),
                lambda _: rng.laplace(0, scale, DRAWS),
                15,
            ),
            "gaussian": (
                lambda i: at.at("gaussian", i).gaussian(scale * scale, DRAWS),
                lambda _: gaussian(zeros),
                lambda _: rng.normal(0, scale, DRAWS),
                25,
            ),
        }
        for kind, (ours, peers, floats, part) in works.items():
            mine, floor, peer = rate(ours), rate(floats), rate(peers, rounds=1)
            met = mine >= 20 * peer and mine >= floor / part
            yield [kind, scale, mine, peer, floor, mine / peer, f"1/{floor / mine:.1f}", met]


if __name__ == "__main__":
    main(__doc__)
