"""The published experiments, one command each: ``python -m benchmarks.papers NAME``.

An experiment is a value (`trials.Experiment`): a grid of cells and a pure function that computes
one of them. `experiments` computes the cells in several processes by the rules of
`benchmarks.experiment`; `tables` and `plots` render what is in the file.

Every method runs as its paper prints it and, where there is one, in the form whose privacy claim
holds. Two more things stand beside a printed figure: the *control*, the same machine on a random
subspace of the same dimension, which is what the method would be worth if it had learnt nothing;
and the accuracy of the sound form on rows that were held out, at the same epsilon.

Data are public, noise is seeded so that a table can be made again, and nothing that comes from here
may leave a site. Splits depend on the run's seed alone: methods are compared on the same rows.
"""
