"""The default learner: several views of x, a second-order member on each. How they are weighed is `rule.py`; `dense.py` and `sparse.py` are its spaces."""
