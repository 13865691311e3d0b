"""Settings of Sphinx, which makes the site: `make docs`."""

from __future__ import annotations

import prototrt

project = "prototrt"
author = "The prototrt developers"
release = prototrt.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "index"
html_theme = "furo"
html_title = "prototrt"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "html_image"]
suppress_warnings = ["misc.highlighting_failure"]  # console blocks show parts of files
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
