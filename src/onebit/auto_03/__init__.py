"""The default learner up to 0.3, as it was: several views of x, a second-order member on each. How they are weighed is `rule.py`; `dense.py` and `sparse.py` are its spaces."""
