"""The published binary tree loses more than it claims; ours does not."""

from fractions import Fraction

import numpy as np
import pytest

from tailrace import Noise, PureDP
from tailrace.audit import attack
from tailrace.audit.gallery import published_binary_tree
from tailrace.counters import BinaryTree, KaryTree, Simple

EPSILON = Fraction(1)
COPIES = 400_000


def all_nodes_of_element_1(outputs):
    """At 1, 2, 4, ... the estimate is one noisy node that holds element 1: did all of them see
    it?
    """
    powers = [1 << i for i in range(len(outputs).bit_length()) if 1 << i <= len(outputs)]
    return np.all([outputs[t - 1] >= 1 for t in powers], axis=0)


def run(counter):
    def mechanism(inputs, noise):
        state, outputs = counter.init(inputs.shape[1]), []
        for t, x in enumerate(inputs):
            state, estimate = counter.step(state, x, noise.at(t))
            outputs.append(estimate)
        return np.array(outputs)

    return mechanism


def audit(mechanism, horizon, event=all_nodes_of_element_1):
    one = np.zeros(horizon, np.int64)
    one[0] = 1
    return attack(
        mechanism,
        world=one,
        neighbour=0 * one,
        event=event,
        claimed=1.0,
        copies=COPIES,
        noise=Noise.insecure(1),
    )


@pytest.mark.parametrize(("horizon", "factor"), [(2, 2.0), (4, 1.5), (8, 4 / 3)])
def test_the_published_scale_is_refuted_and_ours_is_not(horizon, factor):
    published = audit(
        lambda x, noise: published_binary_tree(x, epsilon=EPSILON, noise=noise), horizon
    )
    assert published.refuted
    assert published.estimate == pytest.approx(factor, abs=0.05)
    ours = audit(run(BinaryTree(privacy=PureDP(epsilon=EPSILON), horizon=horizon)), horizon)
    assert not ours.refuted
    assert ours.estimate == pytest.approx(1.0, abs=0.05), (
        "the attack is as strong as the guarantee allows"
    )


def test_at_horizon_1_the_published_tree_has_no_noise():
    published = audit(lambda x, noise: published_binary_tree(x, epsilon=EPSILON, noise=noise), 1)
    assert published.at_least > 9
    assert not audit(run(BinaryTree(privacy=PureDP(epsilon=EPSILON), horizon=1)), 1).refuted


def test_mutants_are_caught():
    """Half the noise, a forgotten level, the same noise twice."""
    assert audit(run(Simple(privacy=PureDP(epsilon=2), horizon=1)), 1).refuted
    forgotten = BinaryTree(
        privacy=PureDP(epsilon=Fraction(4, 3)), horizon=8
    )  # the scale of 3 levels where there are 4
    assert audit(run(forgotten), 8).refuted

    def same_noise_twice(inputs, noise):
        again = noise.laplace(1, inputs.shape[1])
        return np.cumsum(inputs, axis=0) + np.array([again, again])

    moved = attack(
        same_noise_twice,
        world=np.array([0, 1]),
        neighbour=np.array([0, 0]),
        event=lambda outputs: outputs[1] - outputs[0] == 1,
        claimed=1.0,
        copies=1000,
        noise=Noise.insecure(2),
    )
    assert moved.refuted


def test_subtraction_survives_the_attack_on_its_own_nodes():
    """k = 3 at T = 3: the estimates are node 1, whole - node 3, whole; an event that only uses node
    1 and the whole.
    """
    counter = KaryTree(arity=3, levels=2, privacy=PureDP(epsilon=EPSILON), horizon=3)
    finding = audit(run(counter), 3, event=lambda outputs: (outputs[0] >= 1) & (outputs[2] >= 1))
    assert not finding.refuted
    assert finding.estimate == pytest.approx(1.0, abs=0.05)
