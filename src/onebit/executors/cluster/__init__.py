"""The executor that runs trials on a cluster: its backends (Dask, Ray), the queue of trials, and what a worker does."""
