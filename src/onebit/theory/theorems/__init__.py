"""The theorems, one file a paper: each turns a setting into bounds."""
