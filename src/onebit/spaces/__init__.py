"""Spaces, which hold the weights: each scores a row x and absorbs steps, independent of any rule."""
