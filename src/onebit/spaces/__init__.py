"""Where weights live: each space turns a row x into scores and absorbs coefficients, and knows nothing of any rule."""
