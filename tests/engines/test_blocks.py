"""Blocks on workers: marks, what an answer may say, and which answers are refused."""

import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.engines.blocks import Held, Marks, count_rows, lost, mark_of
from discreet.errors import EngineError, PrivacyError
from discreet.rows.partitions import Block

KEY = b"k" * 32
SECRET = 31415.5


def block(id=0, *, y=None, shift=0.0):
    X = np.arange(12.0).reshape(4, 3) + shift
    return Block(id, X, np.array([0, 1, 0, 1]) if y is None else y)


def held(id=0, **settings):
    return Held.read(id, KEY, lambda: block(id, **settings))


def unaligned(array):
    """Return a copy that begins at an odd byte, as arrays in messages of a cluster do."""
    room = np.empty(array.nbytes + 1, dtype=np.uint8)
    found = room[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    assert not found.flags.aligned
    return found


def secret_error(content):
    raise ValueError(f"cannot read {SECRET}")


def first_column(content):
    return content.X[:, 0].sum()


class TestMark:
    def test_equal_rows_have_equal_marks(self):
        assert mark_of(KEY, block()) == mark_of(KEY, block())
        strings = np.array(["a", "b", "a", "b"], dtype=object)
        again = np.array(["".join("a"), "b", "a", "b"], dtype=object)
        assert mark_of(KEY, block(y=strings)) == mark_of(KEY, block(y=again))

    @pytest.mark.parametrize(
        "other",
        [
            block(shift=1e-12),
            block(y=np.array([0, 1, 1, 1])),
            block(y=np.array([0.0, 1.0, 0.0, 1.0])),
            block(y=np.array(["0", "1", "0", "1"], dtype=object)),
            Block(0, block().X.astype(np.float32), block().y),
            Block(0, block().X[::-1], block().y),
            Block(0, block().X.reshape(3, 4), block().y),
            Block(0, sp.csr_array(block().X), block().y),
        ],
    )
    def test_any_change_changes_the_mark(self, other):
        assert mark_of(KEY, other) != mark_of(KEY, block())

    def test_layout_does_not_count(self):
        other = Block(0, np.asfortranarray(block().X), block().y)
        assert mark_of(KEY, other) == mark_of(KEY, block())

    def test_a_mark_needs_the_key(self):
        assert mark_of(b"other", block()) != mark_of(KEY, block())
        assert Marks().key != Marks().key


class TestHeld:
    def test_nothing_of_the_rows_is_shown(self):
        shown = repr(held()) + str(held()) + repr(Marks())
        assert shown.startswith("<block 0>")
        assert "array" not in shown

    def test_it_counts_the_bytes_of_its_table(self):
        size = block().X.nbytes + block().y.nbytes
        assert sys.getsizeof(held()) >= size
        assert size / 4 <= sys.getsizeof(held().derived(lambda block: block)) < size + 256

    def test_it_can_be_moved(self):
        moved = pickle.loads(pickle.dumps(held()))
        assert moved.answer(count_rows) == held().answer(count_rows)

    @pytest.mark.parametrize("layout", ["unaligned", "by columns"])
    def test_rows_are_laid_out_once_for_kernels(self, layout):
        given = block(y=np.array([0.0, 1.0, 0.0, 1.0]))
        y = unaligned(given.y)
        X = unaligned(given.X) if layout == "unaligned" else np.asfortranarray(given.X)
        kept = Held.read(0, KEY, lambda: Block(0, X, y))
        assert kept.mark == mark_of(KEY, given)
        assert kept.content.X.flags.aligned
        assert kept.content.X.flags.c_contiguous
        assert kept.content.y.flags.aligned
        np.testing.assert_array_equal(kept.content.X, given.X)
        np.testing.assert_array_equal(kept.content.y, given.y)

    def test_entries_of_a_sparse_table_are_laid_out_once_for_kernels(self):
        X = sp.csr_array(block().X)
        X.data = unaligned(X.data)
        X.indices = unaligned(X.indices)
        kept = Held.read(0, KEY, lambda: Block(0, X, block().y)).content.X
        assert all(part.flags.aligned for part in (kept.data, kept.indices, kept.indptr))
        assert (kept != X).nnz == 0

    def test_rows_that_kernels_can_read_are_not_copied(self):
        for X in (block().X, sp.csr_array(block().X)):
            given = Block(0, X, block().y)
            kept = Held.read(0, KEY, lambda given=given: given).content
            assert kept.X is X
            assert kept.y is given.y

    def test_messages_of_other_code_are_withheld(self):
        for answer in (
            held().answer(secret_error),
            held().derived(secret_error).answer(count_rows),
            Held.read(0, KEY, lambda: secret_error(None)).answer(count_rows),
        ):
            assert answer.result is None
            assert "ValueError" in answer.problem
            assert str(SECRET) not in answer.problem

    def test_our_own_messages_are_told(self):
        def make():
            from discreet.validate import number

            number("width", -1.0, least=0.0)

        answer = Held.read(0, KEY, make).answer(count_rows)
        assert "width" in answer.problem

    def test_a_problem_stays(self):
        broken = held().derived(secret_error)
        assert broken.derived(count_rows).problem == broken.problem


class TestMarks:
    def opened(self, count=3):
        marks = Marks(KEY)
        marks.open(held(id, shift=id).answer(count_rows) for id in range(count))
        return marks

    def test_the_same_rows_are_accepted(self):
        answers = [held(id, shift=id).answer(first_column) for id in range(3)]
        assert self.opened().accept(answers) == [(0, 18.0), (1, 22.0), (2, 26.0)]

    def test_other_rows_are_refused(self):
        answers = [held(id, shift=id).answer(first_column) for id in range(2)]
        changed = held(2, shift=2.5).answer(first_column)
        with pytest.raises(PrivacyError, match="other rows"):
            self.opened().accept([*answers, changed])

    def test_an_unknown_block_is_refused(self):
        with pytest.raises(PrivacyError):
            self.opened().accept([held(3, shift=3).answer(first_column)])

    def test_an_answer_under_another_id_is_refused(self):
        answer = held(0).answer(first_column)._replace(id=1)
        with pytest.raises(PrivacyError):
            self.opened().accept([answer])

    def test_a_block_that_is_read_twice_is_refused(self):
        with pytest.raises(PrivacyError, match="twice"):
            Marks(KEY).open([held(0).answer(count_rows), held(0).answer(count_rows)])

    def test_problems_are_raised_before_results(self):
        with pytest.raises(ValueError, match="withheld"):
            self.opened().accept([held(0).answer(secret_error)])

    def test_blocks_without_rows_are_left_out(self):
        def empty():
            return Block(1, np.empty((0, 3)), np.empty(0))

        marks = Marks(KEY)
        answers = [held(0), Held.read(1, KEY, empty), held(2, shift=2)]
        assert marks.open(each.answer(count_rows) for each in answers) == {0: 4, 1: 0, 2: 4}
        second = held(2, shift=2).numbered(1)
        assert marks.accept([second.answer(first_column)]) == [(1, 26.0)]


def test_an_error_of_a_cluster_shows_its_type_alone():
    error = lost("Dask", ValueError(f"row {SECRET}"))
    assert isinstance(error, EngineError)
    assert "ValueError" in str(error)
    assert str(SECRET) not in str(error)
