"""Exit codes of errors, and the built-in exceptions that code outside discreet may catch."""

import pytest

from discreet import errors

EXIT_CODES = {
    "BudgetExceeded": 4,
    "EngineError": 1,
    "LedgerError": 7,
    "ModelFileError": 5,
    "NotSupported": 4,
    "PrivacyError": 4,
    "TableError": 3,
}


@pytest.mark.parametrize(("name", "code"), EXIT_CODES.items())
def test_an_error_has_the_exit_code_of_the_command(name, code):
    assert getattr(errors, name).exit_code == code


def test_every_error_has_an_exit_code_and_every_warning_is_one():
    warned = {name for name in errors.__all__ if issubclass(getattr(errors, name), UserWarning)}
    assert warned == {"PrivacyLeakWarning"}
    assert set(errors.__all__) - warned == EXIT_CODES.keys()


def test_errors_of_tables_and_model_files_are_value_errors():
    assert issubclass(errors.TableError, ValueError)
    assert issubclass(errors.ModelFileError, ValueError)
    assert not issubclass(errors.PrivacyError, ValueError)
