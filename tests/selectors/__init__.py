# ruff: noqa: A005  # always imported as tests.selectors, so it shadows nothing
