"""The programs that write parts of the documentation: pictures, tables, and the pages of the site.

``python -m docs.programs`` writes all that is committed; ``tests/docs`` checks that it is current.
"""
