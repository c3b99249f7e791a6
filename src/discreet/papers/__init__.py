"""Published methods, one file per paper, with the paper's names and its constants.

==================  ==========================================  ===============================
file                paper                                       solvers
==================  ==========================================  ===============================
agd                 Lee & Kifer, KDD 2018                       ``agd``
amp                 Iyengar et al., IEEE S&P 2019               ``amp``, ``amp-hf``
frank_wolfe         Talwar et al., NIPS 2015                    ``frank-wolfe``
laplace_sgd         Song et al., GlobalSIP 2013                 ``laplace-sgd``
objpert             Chaudhuri et al. 2011, Kifer et al. 2012    ``objpert``
permutation_sgd     Wu et al., SIGMOD 2017                      ``permutation-sgd``
privgene            Zhang et al., SIGMOD 2013                   ``privgene``
sgd                 Iyengar et al., Bassily et al. 2014,        ``sgd``, ``sgd-adv``,
                    Abadi et al. 2016                           ``sgd-ma``
smooth_objectives   Zhang et al., IJCAI 2017                    ``outpert``, ``rrpsgd``
==================  ==========================================  ===============================

Every method is a solver: `discreet.solvers` lists them by name and exports their classes. A file
says in its first lines which paper it follows and where it departs from it; proofs, and errors that
were found, are on its page in docs/proofs. Experiments of the papers: docs/benchmark.md.
"""

import discreet.solvers  # noqa: F401  # it imports the files here, whichever comes first
