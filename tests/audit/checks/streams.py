"""Estimators whose noise comes twice; a module of its own, because spawned processes import it."""

import threading

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

STREAM = np.random.default_rng(7)
LOCAL = threading.local()


class Noisy(ClassifierMixin, BaseEstimator):
    """The mean of each class's rows with fresh noise: what the others should be."""

    def __init__(self, random_state=None, classes=None):
        self.random_state = random_state
        self.classes = classes

    def generator(self):
        return np.random.default_rng()

    def noise(self, shape, X):
        return self.generator().normal(size=shape)

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        means = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        self.coef_ = means + self.noise(means.shape, X)
        return self


class OneSeed(Noisy):
    """The same seed in each fit."""

    def generator(self):
        return np.random.default_rng(3)


class SeededByRows(Noisy):
    """A seed made of the rows: a trap for whoever wants fits to be reproducible."""

    def noise(self, shape, X):
        return np.random.default_rng(X.tobytes()[0]).normal(size=shape)


class ModuleStream(Noisy):
    """A stream that is made when the module is imported: a fork inherits it, a spawn remakes it."""

    def generator(self):
        return STREAM


class OwnStream(Noisy):
    """A stream that is made at the first fit and carried along by copies."""

    def generator(self):
        if not hasattr(self, "_stream"):
            self._stream = np.random.default_rng()
        return self._stream


class ThreadStream(Noisy):
    """A stream for each thread, all with one seed."""

    def generator(self):
        if not hasattr(LOCAL, "stream"):
            LOCAL.stream = np.random.default_rng(11)
        return LOCAL.stream


class GivenStream(Noisy):
    """A stream that is a parameter, of which ``clone`` makes copies."""

    def __init__(self, random_state=None, classes=None, stream=None):
        super().__init__(random_state, classes)
        self.stream = stream

    def generator(self):
        return self.stream


class SharedByClasses(Noisy):
    """One noise vector for all classes."""

    def noise(self, shape, X):
        return np.tile(self.generator().normal(size=shape[1]), (shape[0], 1))
