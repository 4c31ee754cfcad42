"""Two runs or many, judged on frames: ``compare``, ``selftest``; a room each for ``ab``, history, floors, bisect."""
