"""`python -m gd2fs` is `gd2fs`."""

import sys

from gd2fs.cli import main

sys.exit(main())
