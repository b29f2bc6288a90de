"""The pages as readers meet them."""
