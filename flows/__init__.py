"""Prefect only: one thin flow per rung, `climb`, the deployments of a box, and the console script."""
