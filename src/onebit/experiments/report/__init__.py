"""What experiments found, as one page and as figures: the parts of a page, its HTML, and drawings for a paper."""
