"""All GPUs and runs of a project as one folder of static pages."""
