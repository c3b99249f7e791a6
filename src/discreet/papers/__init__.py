"""Published methods, one file per paper, with the paper's names and its constants.

Every method is a solver: `discreet.solvers` lists them by name and exports their classes. A file
says in its first lines which paper it follows; differences and errors that were found are on its
page in docs/proofs.
"""

import discreet.solvers  # noqa: F401  # it imports the files here, whichever comes first
