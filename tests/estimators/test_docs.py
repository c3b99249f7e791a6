"""What the documentation shows is what happens."""

import doctest

from discreet.estimators import classifiers


def test_examples_in_docstrings():
    result = doctest.testmod(classifiers)
    assert result.attempted > 0
    assert result.failed == 0
