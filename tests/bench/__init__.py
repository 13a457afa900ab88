"""The benchmark. With this variable each start of the program would compile its modules anew, which no user pays."""

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
