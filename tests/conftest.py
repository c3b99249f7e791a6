from hypothesis import settings

# The same examples on every run: a test that passed yesterday fails today only if code changed.
settings.register_profile("fixed", derandomize=True, print_blob=True)
settings.load_profile("fixed")
