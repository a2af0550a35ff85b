"""How the pages are built: `sphinx-build -W docs site`."""

project = "mutangent"
author = "the mutangent authors"
copyright = "2026, the mutangent authors"  # noqa: A001 - Sphinx asks for this name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_heading_anchors = 3

# Docstrings are numpydoc with Markdown's single backticks for code.
napoleon_google_docstring = False
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstring's own types read better

html_theme = "furo"
html_title = "mutangent"
