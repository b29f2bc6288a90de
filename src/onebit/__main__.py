"""`python -m onebit` is the command line."""

import sys

from onebit.cli import main

sys.exit(main())
