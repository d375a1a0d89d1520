import numpy as np

from fedcbs.selectors import Round, make_selector
from tests.selectors.federation import ToyFederation

COUNTS = [[6, 0, 1], [0, 9, 0], [2, 2, 2], [0, 0, 0], [0, 1, 8]]


def test_training_lowers_the_loss_of_the_federation() -> None:
    federation = ToyFederation(COUNTS)
    selector = make_selector("everyone")
    state = selector.init(5)
    before = federation.losses(np.array([0, 1, 2, 4])).mean()
    for round_index in range(1, 11):
        selection = selector.select(state, Round(federation, cohort_size=5, round_index=round_index))
        feedback, federation = federation.train(selection, round_index=round_index)
        state = selector.observe(selection.state, feedback)
    assert federation.losses(np.array([0, 1, 2, 4])).mean() < 0.6 * before


def test_the_gradient_of_a_class_a_client_lacks_stays_larger_than_that_of_one_it_has() -> None:
    gradients = np.asarray(ToyFederation(COUNTS).feedback(np.array([1])).class_gradients)
    assert gradients[0, 1] < gradients[0, 0]
    assert gradients[0, 1] < gradients[0, 2]


def test_a_client_without_examples_has_neither_loss_nor_update() -> None:
    federation = ToyFederation(COUNTS)
    assert federation.losses(np.array([3])).tolist() == [0.0]
    assert not federation.updates(np.array([3])).any()


def test_the_same_seed_gives_the_same_federation() -> None:
    clients = np.arange(5)
    one, two, other = (ToyFederation(COUNTS, seed=seed) for seed in (4, 4, 5))
    assert one.updates(clients).tobytes() == two.updates(clients).tobytes()
    assert one.updates(clients).tobytes() != other.updates(clients).tobytes()
