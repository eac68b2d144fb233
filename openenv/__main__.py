from __future__ import annotations

import sys

from openenv.cli import main

sys.exit(main())
