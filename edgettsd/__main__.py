"""``python -m edgettsd`` runs the daemon."""

import sys

from edgettsd.daemon import main

sys.exit(main())
