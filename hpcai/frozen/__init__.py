"""Second implementations: what the input alone determines of a training, in plain NumPy.

Random numbers, order, bootstraps, augmentation, recipe, the samples as they arrive at the network, what its layers
compute and its initial weights. The formulas and constants of hpcai.data, hpcai.models, hpcai.networks, hpcai.train and
hpcai.update_rules stand here again, written in another way, on purpose: a run compares what it did with what this
package says. So nothing of those packages is imported here, and nothing of this package is used to train. Frozen: a
change here changes what is right, and is made by hand in both places.
"""
