"""The format of notes: frontmatter, properties, sections, links, comments and conflicts."""
