"""The executor that runs trials on a cluster of Dask or Ray."""
