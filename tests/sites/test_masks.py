"""Masks cancel in the sum, bit for bit, and in nothing else."""

import numpy as np
import pytest
from scipy.stats import chi2

from discreet.errors import PrivacyError
from discreet.sites.masks import Identity, PairKeys, SignedKey
from discreet.sites.shares import summed

NAMES = ("a", "b", "c", "d")


def parties(names=NAMES, context=b"terms"):
    """Return the keys of all sites, agreed on."""
    own = {name: Identity() for name in names}
    keys = {name: PairKeys(name, own[name], context) for name in names}
    signed = {name: each.signed for name, each in keys.items()}
    for name, each in keys.items():
        each.agree(signed, {other: own[other].public for other in names if other != name})
    return keys


def test_the_sum_arrives_bit_for_bit():
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**61), 2**61, size=(4, 1000))
    keys = parties()
    masked = [keys[name].masked(value, b"1") for name, value in zip(NAMES, values, strict=True)]
    with np.errstate(over="ignore"):
        expected = values.sum(axis=0)
    np.testing.assert_array_equal(summed(np.array(masked)), expected)


def test_less_than_all_sites_give_uniform_numbers():
    """The top byte of partial sums of zeros: chi-square with false alarms below 1e-6 each."""
    keys = parties()
    masked = np.array([keys[name].masked(np.zeros(50_000, np.int64), b"1") for name in NAMES])
    for some in ([0], [0, 1], [1, 2, 3]):
        top = (np.add.reduce(masked[some], axis=0) >> np.uint64(56)).astype(int)
        counts = np.bincount(top, minlength=256)
        statistic = np.square(counts - counts.mean()).sum() / counts.mean()
        assert chi2.ppf(5e-7, 255) < statistic < chi2.ppf(1 - 5e-7, 255)


def test_masks_of_another_question_do_not_cancel():
    keys = parties()
    labels = [b"1", b"1", b"1", b"2"]
    masked = [
        keys[name].masked(np.zeros(100, np.int64), label)
        for name, label in zip(NAMES, labels, strict=True)
    ]
    assert np.abs(summed(np.array(masked)).astype(float)).min() > 2.0**40


def test_a_label_gives_fresh_masks_and_so_does_a_fit():
    zeros = np.zeros(10, np.int64)
    one, other = parties()["a"], parties()["a"]
    assert (one.masked(zeros, b"1") != one.masked(zeros, b"2")).all()
    assert (one.masked(zeros, b"1") != other.masked(zeros, b"1")).all()


def test_a_key_that_the_coordinator_made_up_is_refused():
    own = {name: Identity() for name in "ab"}
    keys = {name: PairKeys(name, own[name], b"terms") for name in "ab"}
    peers = {"b": own["b"].public}
    forged = PairKeys("b", Identity(), b"terms").signed
    with pytest.raises(PrivacyError, match="not signed by the identity"):
        keys["a"].agree({"a": keys["a"].signed, "b": forged}, peers)
    stale = PairKeys("b", own["b"], b"other terms").signed
    with pytest.raises(PrivacyError, match="not signed by the identity"):
        keys["a"].agree({"a": keys["a"].signed, "b": stale}, peers)
    swapped = SignedKey(keys["a"].signed.key, keys["b"].signed.signature)
    with pytest.raises(PrivacyError, match="not signed by the identity"):
        keys["a"].agree({"a": keys["a"].signed, "b": swapped}, peers)
    with pytest.raises(PrivacyError, match="another key for site 'a'"):
        keys["a"].agree({"a": forged, "b": keys["b"].signed}, peers)
    with pytest.raises(PrivacyError, match="not been told the key"):
        keys["a"].agree({"a": keys["a"].signed, "b": keys["b"].signed}, {})
    with pytest.raises(PrivacyError, match="No keys"):
        keys["a"].masked(np.zeros(1, np.int64), b"1")


def test_a_claim_is_of_one_site_and_a_key_is_of_one_pair():
    """Two sites that show the same key, each signed by its own identity, share no mask."""
    from discreet.sites.masks import _claim

    assert _claim("a", b"fit", b"key") != _claim("b", b"fit", b"key")
    identities = {name: Identity() for name in "abc"}
    own = {name: PairKeys(name, each, b"fit") for name, each in identities.items()}
    shown = own["b"].signed.key
    signature = identities["c"].key.sign(_claim("c", b"fit", shown))
    keys = {"a": own["a"].signed, "b": own["b"].signed, "c": SignedKey(shown, signature)}
    own["a"].agree(keys, {name: identities[name].public for name in "bc"})
    assert own["a"]._keys["b"] != own["a"]._keys["c"]
